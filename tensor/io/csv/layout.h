// tensor/io/csv/layout.h: what a CSV file's first lines say: how it is separated, which names its
// columns have, and how many there are; and the options of its readers, checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/io/csv.h"
#include "tensor/io/csv/column.h"
#include "tensor/io/csv/reader.h"
#include "tensor/io/files.h"
#include "tensor/io/read_budget.h"

namespace moonlet::io {

// Characters that cannot separate fields: digits, and what else numbers are written with.
inline constexpr std::string_view kDigits = "0123456789";
inline constexpr std::string_view kLettersAndDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
// The character that a separator is; throws Error naming `op` for one of `taken` or of the format.
char checked_separator(const std::string& separator, std::string_view taken, const char* op);

// A file that is open, with all its text, in front of the first line.
struct CsvFile {
  // Throws Error naming `op`, also for what the options cannot be. With `lenient`, text that
  // follows a closing quote belongs to the field.
  CsvFile(const std::string& path, const CsvReadOptions& options, std::string_view taken,
          bool lenient, const char* op);
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  std::string path;
  CsvDialect dialect;
  InputFile input;
  ReadBudget budget;
  std::string text;
  CsvRules rules;
  CsvReader reader;
};

struct CsvLayout {
  std::vector<std::string> header;  // of the columns, as they are in the file
  CsvReader::Position data;         // behind the header
  size_t width = 0;                 // fields of a row
  size_t index_columns = 0;         // fields of a row before those that the header names
  // Rows end with a separator, and the header does not: their last field is no column, if it is
  // empty in all of them.
  bool trailing_separator = false;
};

// Reads the header and looks at the first row.
CsvLayout layout_of(CsvReader& reader, const CsvReadOptions& options);

// How many rows the options let a file have, which is at the first one; -1 for all.
int64_t rows_wanted(CsvReader& reader, const CsvReadOptions& options);

// The header's names as those of columns: without one and the same twice, and none empty.
std::vector<std::string> column_names(const CsvLayout& layout, const CsvReadOptions& options);

// The text of a file as UTF-8.
std::string decoded(std::string text, const std::string& encoding, ReadBudget& budget,
                    const char* op);

}  // namespace moonlet::io
