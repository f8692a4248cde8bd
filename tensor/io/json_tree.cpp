// tensor/io/json_tree.cpp: puts a tree together from the parts of a JSON text.
#include "tensor/io/json_tree.h"

#include "tensor/core/error.h"
#include "tensor/io/json.h"

namespace moonlet::io {

namespace {

class TreeBuilder final : public JsonHandler {
 public:
  void null() override { add({}); }
  void boolean(bool value) override { add({value}); }
  void integer(int64_t value) override { add({value}); }
  void number(double value) override { add({value}); }
  void string(std::string value) override { add({std::move(value)}); }
  void begin_array() override { open_.push_back({JsonTree::List{}}), keys_.emplace_back(); }
  void begin_object() override { open_.push_back({JsonTree::Object{}}), keys_.emplace_back(); }
  void end_array() override { close(); }
  void end_object() override { close(); }
  void key(std::string name) override { keys_.back() = std::move(name); }

  JsonTree root;

 private:
  void add(JsonTree tree) {
    if (open_.empty()) {
      root = std::move(tree);
    } else if (auto* list = std::get_if<JsonTree::List>(&open_.back().value)) {
      list->push_back(std::move(tree));
    } else {
      std::get<JsonTree::Object>(open_.back().value).push_back({keys_.back(), std::move(tree)});
    }
  }
  void close() {
    JsonTree done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    add(std::move(done));
  }

  std::vector<JsonTree> open_;
  std::vector<std::string> keys_;  // of the open ones, the key read last
};

template <class T>
const T& held(const JsonTree& tree, std::string_view where, const char* wanted) {
  const T* found = std::get_if<T>(&tree.value);
  if (found == nullptr) fail(where, ": ", wanted, " is expected");
  return *found;
}

}  // namespace

JsonTree JsonTree::read(std::string_view text, std::string_view where, ReadBudget* budget) {
  TreeBuilder builder;
  read_json(text, where, builder, budget);
  return std::move(builder.root);
}

bool JsonTree::boolean(std::string_view where) const {
  return held<bool>(*this, where, "true or false");
}
int64_t JsonTree::integer(std::string_view where) const {
  return held<int64_t>(*this, where, "an integer");
}
int64_t JsonTree::integer(std::string_view where, int64_t low, int64_t high) const {
  const int64_t out = integer(where);
  check(out >= low && out <= high, where, ": an integer from ", low, " to ", high,
        " is expected, got ", out);
  return out;
}
double JsonTree::number(std::string_view where) const {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return held<double>(*this, where, "a number");
}
const std::string& JsonTree::string(std::string_view where) const {
  return held<std::string>(*this, where, "a string");
}
const JsonTree::List& JsonTree::list(std::string_view where) const {
  return held<List>(*this, where, "a list");
}
const JsonTree::Object& JsonTree::object(std::string_view where) const {
  return held<Object>(*this, where, "an object");
}
const JsonTree::List& JsonTree::list(std::string_view where, size_t count) const {
  const List& out = list(where);
  check(out.size() == count, where, ": a list of ", count, " is expected, got ", out.size());
  return out;
}

const JsonTree* JsonTree::find(std::string_view name) const {
  for (const auto& [key, tree] : object(name))
    if (key == name) return &tree;
  return nullptr;
}
const JsonTree& JsonTree::at(std::string_view name) const {
  const JsonTree* found = find(name);
  if (found == nullptr) fail("'", name, "' is missing");
  return *found;
}

}  // namespace moonlet::io
