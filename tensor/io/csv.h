// tensor/io/csv.h: CSV files (RFC 4180: a field in quotes may hold separators, line ends and
// doubled quotes) as columns, as tensors of numbers or as texts; reading takes gzip, Latin-1 and
// UTF-16 too. The locale does not count. Debian's libcsv splits records, a byte and a call at a
// time, into texts alone: numbers would be read in a second pass over all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::io {

// What a column is to be.
enum class CsvKind : uint8_t {
  Auto,    // what all its fields are: whole numbers, numbers, true and false, else texts
  Number,  // whole numbers or numbers
  Text,
  Bool,
  Date,   // seconds since 1970, UTC
  Exact,  // the dtype beside it
};

struct CsvType {
  CsvKind kind = CsvKind::Auto;
  DType dtype = DType::Float32;  // of Exact
};

// What is done with a line that has more fields than the file has columns.
enum class CsvBadLines : uint8_t { Error, Skip, Warn };

// The fields' meaning is that of pandas.read_csv; rows and columns count from 1 in scripts, from 0
// here. Characters are strings of one, or empty for none.
struct CsvReadOptions {
  bool header = false;           // whether the first line holds the columns' names
  std::string separator = ",";   // one character that no number has
  std::optional<DType> dtype{};  // of the numbers; else as `read_csv` and `read_csv_table` say
  // What reading may take; 0: 512 MiB, or 256 times the file's size where that is more.
  int64_t max_bytes = 0;

  std::string quotechar = "\"", escapechar = {}, comment = {}, decimal = ".";
  // Between the digits of whole numbers; by itself a comma in quotes, "1,234", counts as one.
  std::optional<std::string> thousands{};
  bool doublequote = true, skipinitialspace = false, skip_blank_lines = true;
  bool delim_whitespace = false;  // any run of spaces and tabs separates
  bool detect_separator = false;  // the separator is the one that makes the rows equally long
  // Lines in front of the header that begin with '#' and are no header are passed over.
  bool skip_remarks = false;
  std::vector<int64_t> header_rows{};  // where the names are; several are joined by "_"
  std::vector<std::string> names{};    // of the columns, in place of the header's
  std::vector<std::string> use_names{};
  std::vector<int64_t> use_columns{};
  int64_t skiprows = 0, skipfooter = 0, nrows = -1;
  std::vector<int64_t> skip_lines{};
  bool leading_index = true;  // rows longer than the header begin with the rows' names
  // Fields that stand for a missing value, in all columns and in those of a name.
  std::vector<std::string> missing{};
  std::vector<std::pair<std::string, std::vector<std::string>>> missing_in{};
  std::vector<std::string> true_values{}, false_values{};  // beside true, True, TRUE and so on
  std::vector<std::pair<std::string, CsvType>> types{};
  std::vector<std::string> date_columns{};  // names
  std::vector<int64_t> date_positions{};
  bool dayfirst = false;
  std::string date_format{};  // of strftime; else the usual forms
  CsvBadLines on_bad_lines = CsvBadLines::Error;
  std::string encoding = "utf-8";
};

struct CsvNumbers {
  Tensor values;                   // (rows, columns)
  std::vector<std::string> names;  // of the columns, with a header
};

// A file of numbers. Without `dtype` they have the default dtype; int64 or float64 where that would
// lose digits of a number that is written without an exponent. Throws Error "OP: 'PATH', line N,
// column N: ..." for what is no number or does not fit the dtype, for an empty field that
// `missing` does not name, and for a line of another length than those before.
CsvNumbers read_csv(const std::string& path, const CsvReadOptions& options = {},
                    const char* op = "read_csv");

struct CsvTexts {
  std::vector<std::vector<std::string>> columns;
  std::vector<int64_t> lines;  // on which each row starts, from 1
  std::vector<std::string> names;
};

// The fields of a file of any kind as texts, column by column; the dtype is not used. The separator
// may be a letter here. Errors as above.
CsvTexts read_csv_texts(const std::string& path, const CsvReadOptions& options = {},
                        const char* op = "read_csv_texts");

struct CsvColumn {
  std::string name;
  Tensor values;                        // undefined for a column of texts
  std::vector<std::string_view> texts;  // "" for what is missing
  bool dates = false;                   // whether the values are seconds since 1970
};

struct CsvTable {
  std::vector<CsvColumn> columns;
  int64_t rows = 0;
  int64_t index_columns = 0;           // the first ones, which the header has no names for
  std::vector<std::string> warnings;   // about lines that were left out
  std::shared_ptr<const void> holder;  // of what `texts` refer to
};

// A file of any kind, each column by what all its fields are: whole numbers as int64, others as the
// default dtype or, where float32 would lose digits or the range, as float64; missing ones are NaN,
// and make a column of whole numbers one of floating ones. Lines that are too short end with
// missing fields. Throws Error as above.
CsvTable read_csv_table(const std::string& path, const CsvReadOptions& options = {},
                        const char* op = "read_csv_table");

struct CsvWriteOptions {
  std::optional<std::vector<std::string>> header;  // a name for each column
  std::string separator = ",";
};

// Writes a real tensor of one dimension, an element a line, or of two, a row a line; the file whole
// or not at all. What is read back is the same number. Throws Error naming `op`.
void write_csv(const std::string& path, const Tensor& tensor, const CsvWriteOptions& options = {},
               const char* op = "write_csv");

// Writes columns of one length with their names, and nothing for NaN and for missing texts.
void write_csv_table(const std::string& path, const std::vector<CsvColumn>& columns,
                     const CsvWriteOptions& options = {}, const char* op = "write_csv");

}  // namespace moonlet::io
