// tensor/io/csv_reader.cpp: finds the fields of a CSV file.
#include "tensor/io/csv_reader.h"

#include <algorithm>

#include "tensor/interrupt.h"

namespace moonlet::io {

// The fields of a record between two looks at the stop flag.
constexpr size_t kStopFields = 4096;

CsvReader::CsvReader(std::string_view text, const std::string& path, char separator, const char* op,
                     ReadBudget& budget, uint64_t field_bytes)
    : text_(text),
      path_(path),
      separator_(separator),
      op_(op),
      budget_(budget),
      field_bytes_(field_bytes) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\r')) text_.remove_suffix(1);
}

void CsvReader::next_record(std::vector<std::string_view>& fields) {
  fields.clear();
  line_ = next_line_++;
  bool more = true;
  while (more) {
    if (fields.size() % kStopFields == 0) stop_if_requested();
    take(field_bytes_);
    fields.push_back(next_field());
    more = at_ < text_.size() && text_[at_] == separator_;
    if (more) ++at_;
  }
  if (at_ < text_.size() && text_[at_] == '\r') ++at_;
  if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  if (columns_ == 0) columns_ = fields.size();
  if (fields.size() != columns_)
    bad(0, fields.size(), " fields where the lines before have ", columns_);
}

std::string_view CsvReader::next_field() {
  skip_blanks();
  if (at_ < text_.size() && text_[at_] == '"') return quoted_field();
  const size_t start = at_;
  while (!at_stop()) ++at_;
  size_t end = at_;
  while (end > start && is_blank(text_[end - 1])) --end;
  return text_.substr(start, end - start);
}

std::string_view CsvReader::quoted_field() {
  const size_t start = ++at_;
  size_t end = start;
  bool doubled = false;  // a quote within the field is written twice
  while ((end = text_.find('"', end)) != text_.npos && text_.substr(end, 2) == "\"\"") {
    doubled = true;
    end += 2;
  }
  if (end == text_.npos) bad(0, "a quote is not closed");
  at_ = end + 1;
  skip_blanks();
  if (!at_stop()) bad(0, "text follows a closing quote");
  const std::string_view field = text_.substr(start, end - start);
  next_line_ += std::count(field.begin(), field.end(), '\n');
  return doubled ? unescape(field) : field;
}

void CsvReader::take(uint64_t bytes) {
  if (budget_.has(bytes)) return budget_.take(bytes);
  try {
    budget_.exceed();
  } catch (const Error& e) {
    bad(0, e.what());
  }
}

std::string_view CsvReader::unescape(std::string_view field) {
  take(2 * field.size() + sizeof(std::string));
  std::string& out = unescaped_.emplace_back();
  for (size_t i = 0; i < field.size(); ++i) {
    out += field[i];
    if (field[i] == '"') ++i;
  }
  return out;
}

}  // namespace moonlet::io
