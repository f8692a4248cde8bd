// tensor/io/csv/reader.cpp: finds the records and fields of a CSV file.
#include "tensor/io/csv/reader.h"

#include <algorithm>

#include "tensor/runtime/interrupt.h"

namespace moonlet::io {

// The fields of a record between two looks at the stop flag.
constexpr size_t kStopFields = 4096;
// What a field of a record takes while the record is at hand, with the room to grow.
constexpr uint64_t kFieldBytes = 2 * sizeof(CsvField);

CsvReader::CsvReader(std::string_view text, const std::string& path, const CsvDialect& dialect,
                     const char* op, ReadBudget& budget)
    : text_(text), path_(path), dialect_(dialect), op_(op), budget_(budget) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  const auto set = [&](char c, Mark mark) { marks_[static_cast<uint8_t>(c)] = mark; };
  if (dialect.comment != '\0') set(dialect.comment, kComment);
  if (dialect.escape != '\0') set(dialect.escape, kEscape);
  if (dialect.blanks_separate) {
    set(' ', kSeparator);
    set('\t', kSeparator);
  } else {
    set(dialect.separator, kSeparator);
  }
  set('\n', kLineEnd);
  set('\r', kLineEnd);
}

void CsvReader::take(uint64_t bytes) {
  if (budget_.has(bytes)) return budget_.take(bytes);
  try {
    budget_.exceed();
  } catch (const Error& e) {
    bad(0, e.what());
  }
}

bool CsvReader::next_record(std::vector<CsvField>& fields) {
  fields.clear();
  stop_if_requested();
  if (!skip_to_record()) return false;
  line_ = position_.next_line;
  if (dialect_.blanks_separate) skip_blanks();
  for (;;) {
    if (fields.size() >= most_fields_) {
      take(kFieldBytes);
      most_fields_ = fields.size() + 1;
      if (most_fields_ % kStopFields == 0) stop_if_requested();
    }
    fields.push_back(next_field());
    if (at_end() || mark(position_.at) != kSeparator) break;
    ++position_.at;
    if (!dialect_.blanks_separate) continue;
    skip_blanks();
    if (at_end() || mark(position_.at) == kLineEnd || mark(position_.at) == kComment) break;
  }
  if (!at_end() && mark(position_.at) == kComment) skip_line();
  end_line();
  return true;
}

// To the start of the next record that counts; false at the end.
bool CsvReader::skip_to_record() {
  while (!at_end()) {
    ++position_.record;
    if (is_skipped()) {
      stop_if_requested();
      line_ = position_.next_line;
      bool quoted = false;
      for (; !at_end() && (quoted || mark(position_.at) != kLineEnd); ++position_.at) {
        const char c = text_[position_.at];
        if (dialect_.quote != '\0' && c == dialect_.quote) quoted = !quoted;
        if (c == '\n') ++position_.next_line;
      }
      end_line();
    } else if (mark(position_.at) == kComment) {
      stop_if_requested();
      skip_line();
      end_line();
    } else if (!dialect_.skip_blank_lines || !skip_blank_line()) {
      return true;
    }
  }
  return false;
}

bool CsvReader::is_skipped() {
  if (position_.record <= dialect_.skip_rows) return true;
  const auto& lines = dialect_.skip_lines;
  while (position_.skipped < lines.size() && lines[position_.skipped] < position_.record)
    ++position_.skipped;
  return position_.skipped < lines.size() && lines[position_.skipped] == position_.record;
}

bool CsvReader::skip_blank_line() {
  size_t at = position_.at;
  while (at < text_.size() && is_blank(text_[at])) ++at;
  const bool remark = at < text_.size() && mark(at) == kComment;
  if (at < text_.size() && mark(at) != kLineEnd && !remark) return false;
  position_.at = at;
  stop_if_requested();
  if (remark) skip_line();
  end_line();
  return true;
}

// To the end of the line.
void CsvReader::skip_line() {
  position_.at = std::min(text_.find_first_of("\r\n", position_.at), text_.size());
}

// Over the end of a line: "\n", "\r\n" or "\r"; nothing at the end of the file.
void CsvReader::end_line() {
  if (!at_end() && text_[position_.at] == '\r') ++position_.at;
  if (!at_end() && text_[position_.at] == '\n') ++position_.at;
  ++position_.next_line;
}

void CsvReader::skip_blanks() {
  while (!at_end() && is_blank(text_[position_.at])) ++position_.at;
}

CsvField CsvReader::next_field() {
  if (dialect_.skip_initial_space)
    while (!at_end() && text_[position_.at] == ' ' && mark(position_.at) != kSeparator)
      ++position_.at;
  if (dialect_.quote != '\0' && !at_end() && text_[position_.at] == dialect_.quote)
    return quoted_field();
  const size_t start = position_.at;
  size_t at = start;
  const size_t size = text_.size();
  while (at < size && mark(at) == kPlain) ++at;
  position_.at = at;
  if (at < size && mark(at) == kEscape) {
    position_.at = start;
    return composed_field(start, false);
  }
  return {text_.substr(start, at - start)};
}

// A field between quotes, which in most files is the text as it stands.
CsvField CsvReader::quoted_field() {
  const size_t start = position_.at + 1;
  const char quote = dialect_.quote;
  const size_t end = text_.find(quote, start);
  const bool doubled = dialect_.doubled_quotes && end + 1 < text_.size() && text_[end + 1] == quote;
  const bool escaped = dialect_.escape != '\0' && end != text_.npos &&
                       text_.substr(start, end - start).find(dialect_.escape) != text_.npos;
  if (end == text_.npos) bad(0, "a quote is not closed");
  size_t behind = end + 1;
  if (!dialect_.text_after_quotes)
    while (behind < text_.size() && is_blank(text_[behind])) ++behind;
  const bool ends = behind == text_.size() || (mark(behind) != kPlain && mark(behind) != kEscape);
  if (doubled || escaped || !ends) return composed_field(position_.at, true);
  position_.at = behind;
  const std::string_view field = text_.substr(start, end - start);
  position_.next_line += std::count(field.begin(), field.end(), '\n');
  return {field, true};
}

// A field that is not the text as it stands: with doubled or escaped characters, or with more
// behind its closing quote.
CsvField CsvReader::composed_field(size_t start, bool quoted) {
  std::string out;
  bool inside = false;
  size_t at = start;
  const size_t size = text_.size();
  size_t room = 0;
  for (; at < size; ++at) {
    if (out.size() >= room) {
      stop_if_requested();
      room = room == 0 ? sizeof(std::string) : 2 * room;
      take(2 * room);
    }
    const char c = text_[at];
    if (dialect_.escape != '\0' && c == dialect_.escape && at + 1 < size) {
      out += text_[++at];
    } else if (quoted && at == start) {
      inside = true;
    } else if (inside && c == dialect_.quote) {
      if (dialect_.doubled_quotes && at + 1 < size && text_[at + 1] == c)
        out += text_[++at];
      else
        inside = false;
      if (!inside && !dialect_.text_after_quotes) {
        ++at;
        break;
      }
    } else if (!inside && mark(at) != kPlain && mark(at) != kEscape) {
      break;
    } else {
      position_.next_line += c == '\n' ? 1 : 0;
      out += c;
    }
  }
  if (inside) bad(0, "a quote is not closed");
  if (quoted && !dialect_.text_after_quotes) {
    while (at < size && is_blank(text_[at])) ++at;
    if (at < size && mark(at) == kPlain) bad(0, "text follows a closing quote");
  }
  position_.at = at;
  composed_.push_back(std::move(out));
  return {composed_.back(), quoted};
}

}  // namespace moonlet::io
