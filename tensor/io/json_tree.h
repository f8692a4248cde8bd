// tensor/io/json_tree.h: a JSON text as a value, for formats whose parts refer to each other. Each
// question names where it is asked, for the message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moonlet::io {

class ReadBudget;

class JsonTree {
 public:
  using List = std::vector<JsonTree>;
  struct Entry;
  using Object = std::vector<Entry>;  // in the order of the text

  // Throws as read_json does.
  static JsonTree read(std::string_view text, std::string_view where, ReadBudget* budget);

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  // What it holds. Throw Error "WHERE: an integer is expected" where it is of another kind.
  bool boolean(std::string_view where) const;
  int64_t integer(std::string_view where) const;
  // An integer from `low` to `high`.
  int64_t integer(std::string_view where, int64_t low, int64_t high) const;
  double number(std::string_view where) const;  // of an integer, too
  const std::string& string(std::string_view where) const;
  const List& list(std::string_view where) const;
  const Object& object(std::string_view where) const;
  // A list of `count` values.
  const List& list(std::string_view where, size_t count) const;
  // A field of an object; `find` gives null where there is none.
  const JsonTree& at(std::string_view name) const;
  const JsonTree* find(std::string_view name) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Object> value;
};

struct JsonTree::Entry {
  std::string key;
  JsonTree tree;
};

}  // namespace moonlet::io
