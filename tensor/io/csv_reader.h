// tensor/io/csv_reader.h: one pass over the text of a CSV file, record by record.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/error.h"
#include "tensor/io/read_budget.h"

namespace moonlet::io {

class CsvReader {
 public:
  // `text` must outlive the reader; `path` and `op` are for messages. Each field takes
  // `field_bytes`, and each byte of a quoted one another, from the budget.
  CsvReader(std::string_view text, const std::string& path, char separator, const char* op,
            ReadBudget& budget, uint64_t field_bytes);

  bool done() const { return at_ >= text_.size(); }
  // The line on which the record read last starts, from 1.
  int64_t line() const { return line_; }
  // The fields of the next record, quotes taken off; they live as long as the reader and its text.
  // Throws when their number is not that of the record before, and where a request to stop waits.
  void next_record(std::vector<std::string_view>& fields);

  // Throws Error that names the record, and the column unless it is 0.
  template <class... Parts>
  [[noreturn]] void bad(int64_t column, const Parts&... parts) const {
    fail(op_, ": '", path_, "', line ", line_, column > 0 ? moonlet::text(", column ", column) : "",
         ": ", parts...);
  }

 private:
  std::string_view next_field();
  std::string_view quoted_field();
  std::string_view unescape(std::string_view field);
  void take(uint64_t bytes);
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != separator_; }
  bool at_stop() const {
    const char c = at_ < text_.size() ? text_[at_] : '\n';
    return c == separator_ || c == '\n' || c == '\r';
  }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  std::string_view text_;
  const std::string& path_;
  const char separator_;
  const char* const op_;
  ReadBudget& budget_;
  const uint64_t field_bytes_;
  std::deque<std::string> unescaped_;  // never moves what it holds
  size_t at_ = 0;
  int64_t line_ = 0, next_line_ = 1;
  size_t columns_ = 0;  // 0 before the first record
};

}  // namespace moonlet::io
