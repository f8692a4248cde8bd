// tensor/io/csv/reader.h: one pass over the text of a CSV file, record by record.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/io/read_budget.h"

namespace moonlet::io {

// The characters that a file is written with; 0 stands for none.
struct CsvDialect {
  char separator = ',';
  bool blanks_separate = false;  // any run of spaces and tabs does, in place of `separator`
  char quote = '"', escape = '\0', comment = '\0';
  bool doubled_quotes = true;       // a quote within a field is written twice
  bool text_after_quotes = false;   // what follows a closing quote belongs to the field
  bool skip_initial_space = false;  // spaces behind a separator do not count
  bool skip_blank_lines = true;
  int64_t skip_rows = 0;            // the first lines to pass over
  std::vector<int64_t> skip_lines;  // others, from 1, in ascending order
};

struct CsvField {
  std::string_view text;
  bool quoted = false;
};

class CsvReader {
 public:
  // A position between two records, to begin there again.
  struct Position {
    size_t at = 0, skipped = 0;
    int64_t record = 0, next_line = 1;
  };

  // `text` must outlive the reader; `path`, `dialect` and `op` too. What quoted fields and records
  // take beside the text comes from the budget.
  CsvReader(std::string_view text, const std::string& path, const CsvDialect& dialect,
            const char* op, ReadBudget& budget);

  // The fields of the next record, quotes taken off; they live as long as the reader and its text.
  // False at the end of the file. Throws where a request to stop waits.
  bool next_record(std::vector<CsvField>& fields);
  // The line on which the record read last starts, from 1.
  int64_t line() const { return line_; }
  Position position() const { return position_; }
  void go_to(const Position& position) { position_ = position; }
  // The bytes of the text that are still to be read.
  size_t left() const { return text_.size() - position_.at; }

  // Throws Error that names the record, and the column unless it is 0.
  template <class... Parts>
  [[noreturn]] void bad(int64_t column, const Parts&... parts) const {
    fail(op_, ": '", path_, "', line ", line_, column > 0 ? moonlet::text(", column ", column) : "",
         ": ", parts...);
  }
  // The same with the column's name.
  template <class... Parts>
  [[noreturn]] void bad_in(const std::string& column, const Parts&... parts) const {
    fail(op_, ": '", path_, "', line ", line_, ", column '", column, "': ", parts...);
  }
  // Takes bytes from the budget; its error names the record.
  void take(uint64_t bytes);

 private:
  enum Mark : uint8_t { kPlain, kSeparator, kLineEnd, kComment, kEscape };
  bool skip_to_record();
  bool is_skipped();
  bool skip_blank_line();
  void skip_line();
  void end_line();
  CsvField next_field();
  CsvField quoted_field();
  CsvField composed_field(size_t start, bool quoted);
  void skip_blanks();
  Mark mark(size_t at) const { return marks_[static_cast<uint8_t>(text_[at])]; }
  bool is_blank(char c) const {
    return (c == ' ' || c == '\t') && (c != dialect_.separator || dialect_.blanks_separate);
  }
  bool at_end() const { return position_.at >= text_.size(); }

  std::string_view text_;
  const std::string& path_;
  const CsvDialect& dialect_;
  const char* const op_;
  ReadBudget& budget_;
  std::array<Mark, 256> marks_{};
  std::deque<std::string> composed_;  // never moves what it holds
  Position position_;
  int64_t line_ = 0;
  size_t most_fields_ = 0;  // of a record so far
};

}  // namespace moonlet::io
