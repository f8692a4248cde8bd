// tensor/io/json.h: JSON texts, read and written strictly.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace moonlet::io {

class ReadBudget;

// How deeply objects and arrays may nest.
constexpr int kMaxJsonDepth = 200;

// Receives the parts of a JSON text in their order. What a function throws ends the reading.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(int64_t value) = 0;
  virtual void number(double value) = 0;
  virtual void string(std::string value) = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string name) = 0;
  virtual void end_object() = 0;
};

// Reads one JSON value and nothing behind it. Throws Error "WHERE: byte N: ..." for what is no
// JSON, for text that is not UTF-8, for a key that comes twice in its object, an integer that does
// not fit 64 bits, a number too large for a double, and too deep nesting; and for every Error that
// the handler throws. Where there is a budget each value takes from it what it is as a Lua value.
void read_json(std::string_view text, std::string_view where, JsonHandler& handler,
               ReadBudget* budget = nullptr);

// Puts a JSON text together. The calls come in the order of the text, each value after its key.
class JsonWriter {
 public:
  // Takes what there is of a text that grows long.
  using Sink = std::function<void(std::string_view)>;

  JsonWriter() = default;
  // Gives the text to `sink` piece by piece, all but the last of them before `take`.
  // With `indent` items have lines of their own, further in by so many spaces.
  explicit JsonWriter(Sink sink, int indent = 0) : sink_(std::move(sink)), indent_(indent) {}

  void null() { add("null"); }
  void boolean(bool value) { add(value ? "true" : "false"); }
  void integer(int64_t value);
  // What is no JSON, as NaN in a text for readers that take it.
  void literal(std::string_view text) { add(text); }
  // The shortest text that is read as the same double. Throws Error for NaN and infinities.
  void number(double value);
  // Throws Error for what is not UTF-8.
  void string(std::string_view value);
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void begin_object() { open('{'); }
  void key(std::string_view name);
  void end_object() { close('}'); }

  std::string take() { return std::move(text_); }

 private:
  void add(std::string_view token);
  void new_line();
  void open(char bracket);
  void close(char bracket);
  void pass_on();

  Sink sink_;
  std::string text_;
  int indent_ = 0, depth_ = 0;
  bool first_ = true;  // no comma before what comes next
  bool after_key_ = false;
};

}  // namespace moonlet::io
