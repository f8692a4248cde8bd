// tensor/io/json.cpp: JSON by nlohmann-json, whose large header is read here and nowhere else.
#include "tensor/io/json.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/io/numbers.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

using nlohmann::json;

// The bytes of a text that are written, or kept, at once.
constexpr size_t kPiece = size_t{64} << 10;

// Walks over the text and tells how far the library has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *reached = ++at;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
// value - invalid literal; last read: 'x'; expected ']'" without the number, the position and the
// text, which may be long and is not always UTF-8.
std::string reason_of(const json::exception& error) {
  std::string reason = error.what();
  reason.erase(0, reason.find("] ") + 2);
  if (reason.starts_with("parse error at")) reason.erase(0, reason.find(": ") + 2);
  if (reason.starts_with("number overflow")) return "a number is too large for a double";
  const size_t read = reason.find("; last read: '"), expected = reason.rfind("'; expected ");
  if (read == reason.npos) return reason;
  if (expected == reason.npos || expected < read) return reason.substr(0, read);
  return reason.erase(read, expected + 1 - read);
}

// Passes the library's events on, and checks what it does not.
class Reader : public json::json_sax_t {
 public:
  Reader(JsonHandler& handler, ReadBudget* budget) : handler_(handler), budget_(budget) {}

  bool null() override { return take(kValue), handler_.null(), true; }
  bool boolean(bool value) override { return take(kValue), handler_.boolean(value), true; }
  bool number_integer(int64_t value) override {
    return take(kValue), handler_.integer(value), true;
  }
  bool number_unsigned(uint64_t value) override {
    take(kValue);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail(kWideInteger);
    return handler_.integer(static_cast<int64_t>(value)), true;
  }
  bool number_float(double value, const std::string& text) override {
    take(kValue);
    if (text.find_first_of(".eE") == text.npos) fail(kWideInteger);
    return handler_.number(value), true;
  }
  bool string(std::string& value) override {
    take(kValue + kText + value.size());
    return handler_.string(std::move(value)), true;
  }
  bool binary(json::binary_t&) override { return false; }  // not in JSON texts

  bool start_array(size_t) override {
    enter();
    return handler_.begin_array(), true;
  }
  bool end_array() override {
    keys_.pop_back();
    return handler_.end_array(), true;
  }
  bool start_object(size_t) override {
    enter();
    return handler_.begin_object(), true;
  }
  bool key(std::string& name) override {
    take(kKey + kText + 2 * name.size());
    if (!keys_.back().insert(name).second) fail("'", name, "' comes twice");
    return handler_.key(std::move(name)), true;
  }
  bool end_object() override {
    keys_.pop_back();
    return handler_.end_object(), true;
  }
  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    error_at = position;
    fail(reason_of(error));
  }

  size_t error_at = 0;  // where the library found an error

 private:
  static constexpr const char* kWideInteger = "an integer does not fit 64 bits";
  // The bytes of a value in a table that grows, of a string's head, of a table, and of a key in a
  // table and in the set of those that were seen.
  static constexpr uint64_t kValue = 48, kText = 32, kTable = 80, kKey = 120;

  void take(uint64_t bytes) {
    if (budget_ != nullptr) budget_->take(bytes);
  }
  void enter() {
    take(kTable);
    if (keys_.size() == kMaxJsonDepth) fail("the value nests too deeply");
    keys_.emplace_back();
  }

  JsonHandler& handler_;
  ReadBudget* budget_;
  std::vector<std::set<std::string>> keys_;  // of the open objects; empty for arrays
};

}  // namespace

void read_json(std::string_view text, std::string_view where, JsonHandler& handler,
               ReadBudget* budget) {
  // The library takes a zero byte for the end.
  if (const size_t zero = text.find('\0'); zero != text.npos)
    fail(where, ": byte ", zero + 1, ": a zero byte");
  const NumericLocaleC numbers;  // the library reads them by the C library
  const char* reached = text.data();
  Reader reader(handler, budget);
  try {
    json::sax_parse(Cursor{text.data(), &reached}, Cursor{text.data() + text.size(), &reached},
                    &reader);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    const size_t at =
        reader.error_at > 0 ? reader.error_at : static_cast<size_t>(reached - text.data());
    fail(where, ": byte ", at, ": ", e.what());
  }
}

void JsonWriter::add(std::string_view token) {
  if (!first_) text_ += ',';
  if (depth_ > 0 && !after_key_) new_line();
  text_ += token;
  first_ = after_key_ = false;
  pass_on();
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(static_cast<size_t>(indent_) * depth_, ' ');
}

void JsonWriter::pass_on() {
  if (!sink_ || text_.size() < kPiece) return;
  sink_(text_);
  text_.clear();
}

void JsonWriter::open(char bracket) {
  add({&bracket, 1});
  first_ = true;
  ++depth_;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) new_line();
  text_ += bracket;
  first_ = false;
}

void JsonWriter::integer(int64_t value) { add(json(value).dump()); }

void JsonWriter::number(double value) {
  if (!std::isfinite(value))
    fail("JSON has no ", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  add(json(value).dump());
}

namespace {

// The bytes of the next piece of a text that is written: no character is cut in two.
size_t piece_of(std::string_view text) {
  if (text.size() <= kPiece) return text.size();
  const auto is_inside = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; };
  size_t end = kPiece;
  while (end > kPiece - 4 && is_inside(end)) --end;
  return end;
}

}  // namespace

// In pieces: with what the library makes of it a text takes many times its size.
void JsonWriter::string(std::string_view value) {
  add("\"");
  do {
    const size_t count = piece_of(value);
    const json piece(value.substr(0, count));
    value.remove_prefix(count);
    try {
      const std::string quoted = piece.dump();
      text_.append(quoted, 1, quoted.size() - 2);
    } catch (const json::type_error&) {
      fail(piece.dump(-1, ' ', true, json::error_handler_t::replace), " is not UTF-8");
    }
    pass_on();
  } while (!value.empty());
  text_ += '"';
}

void JsonWriter::key(std::string_view name) {
  string(name);
  text_ += indent_ > 0 ? ": " : ":";
  first_ = after_key_ = true;
}

}  // namespace moonlet::io
