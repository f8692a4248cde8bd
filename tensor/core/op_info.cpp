// tensor/core/op_info.cpp: the registry of ops, and boxed calls.
#include "tensor/core/op_info.h"

#include <iterator>
#include <mutex>
#include <unordered_map>

#include "tensor/core/boxing.h"
#include "tensor/core/registered_ops.h"

namespace moonlet {

namespace {

constinit thread_local const OpInfo* called = nullptr;

// The families announce themselves before main, in no fixed order of files; names are indexed at
// the first question. Never destroyed.
struct Registry {
  std::mutex mutex;
  std::vector<std::span<const OpInfo* const>> families;
  std::unordered_map<std::string_view, const OpInfo*> by_name;
  std::vector<const OpInfo*> ordered;
  std::vector<const OpInfo*> registered;  // not of the table

  void add(const OpInfo& op) {
    if (!by_name.emplace(op.name, &op).second)
      fail("register_op: there is an op named '", op.name, "' already");
    ordered.push_back(&op);
  }
  void index() {
    for (const auto& family : families)
      for (const OpInfo* op : family) add(*op);
    families.clear();
  }
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Of an op that a plugin registered: there is no public function to test the modes.
bool is_registered(const OpInfo& op) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const OpInfo* each : all.registered)
    if (each == &op) return true;
  return false;
}

const char* kind_of(const BoxedValue& value) {
  static constexpr const char* kNames[] = {"nothing",
                                           "a tensor",
                                           "a list of tensors",
                                           "a number",
                                           "an integer",
                                           "a number",
                                           "a boolean",
                                           "a string",
                                           "a list of integers",
                                           "a list of integers",
                                           "a list of numbers",
                                           "a dtype",
                                           "a device",
                                           "a memory format",
                                           "a dtype and device",
                                           "a generator"};
  static_assert(std::size(kNames) == std::variant_size_v<BoxedValue>);
  return kNames[value.index()];
}

// The name of an argument of a form, for messages.
std::string argument_name(const OpInfo& op, int i) {
  if (op.form == OpInfo::Form::Out) i -= op.row->result_count;
  return i < 0 ? "out" : op.row->arguments[i].name;
}

}  // namespace

const char* name(OpKind kind) {
  static constexpr const char* kNames[] = {"pointwise",  "structured", "update",
                                           "allocating", "view",       "composite"};
  static_assert(std::size(kNames) == static_cast<size_t>(OpKind::Composite) + 1);
  return kNames[static_cast<size_t>(kind)];
}

bool OpInfo::writes(int i) const {
  switch (form) {
    case Form::InPlace: return i == 0 || row->arguments[i].written;
    case Form::Out: return i < row->result_count || row->arguments[i - row->result_count].written;
    default:
      // An update's plain form works on a copy of its first argument.
      return row->arguments[i].written && !(i == 0 && row->kind == OpKind::Update);
  }
}

const OpInfo& called_op() noexcept { return *called; }

const OpInfo* find_op(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.index();
  const auto found = all.by_name.find(name);
  return found == all.by_name.end() ? nullptr : found->second;
}

std::vector<const OpInfo*> all_ops() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.index();
  return all.ordered;
}

OpFamily::OpFamily(std::span<const OpInfo* const> ops) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.families.push_back(ops);
}

void register_op(const OpInfo& op) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.index();
  all.add(op);
  all.registered.push_back(&op);
}

void call_boxed(const OpInfo& op, void (*function)(std::span<const BoxedValue>, BoxedValues&),
                std::span<const BoxedValue> arguments, BoxedValues& results) {
  const size_t wanted =
      static_cast<size_t>(op.row->argument_count) +
      (op.form == OpInfo::Form::Out ? static_cast<size_t>(op.row->result_count) : 0);
  check(arguments.size() == wanted, op.name, ": takes ", wanted, " arguments, got ",
        arguments.size());
  called = &op;
  try {
    function(arguments, results);
  } catch (const boxing::WrongKind& wrong) {
    fail(op.name, ": argument '", argument_name(op, wrong.position), "' must be ", wrong.wanted,
         ", got ", kind_of(arguments[static_cast<size_t>(wrong.position)]));
  }
}

BoxedValues call_op(const OpInfo& op, std::span<const BoxedValue> arguments) {
  BoxedValues results;
  if (intercepted() && is_registered(op)) {
    BoxedValues in(arguments.begin(), arguments.end());
    intercept(op, in, results);
  } else {
    call_boxed(op, op.call, arguments, results);
  }
  return results;
}

namespace boxing {

void check_result_count(const OpInfo& op, size_t given, size_t wanted) {
  check(given == wanted, op.name, ": a mode gave ", given, " results, ", wanted,
        wanted == 1 ? " is" : " are", " expected");
}

void wrong_result(const OpInfo& op, const WrongKind& wrong, const BoxedValues& results) {
  fail(op.name, ": result ", wrong.position + 1, " that a mode gave must be ", wrong.wanted,
       ", got ", kind_of(results[static_cast<size_t>(wrong.position)]));
}

const Tensor& tensor_in(const BoxedValue& value, int position) {
  static const Tensor kNone;
  if (std::holds_alternative<std::monostate>(value)) return kNone;
  const Tensor* held = std::get_if<Tensor>(&value);
  if (!held) throw WrongKind{position, "a tensor"};
  return *held;
}

Scalar scalar_in(const BoxedValue& value, int position) {
  if (const auto* held = std::get_if<Scalar>(&value)) return *held;
  if (const auto* held = std::get_if<int64_t>(&value)) return Scalar(*held);
  if (const auto* held = std::get_if<double>(&value)) return Scalar(*held);
  if (const auto* held = std::get_if<bool>(&value)) return Scalar(*held);
  throw WrongKind{position, "a number"};
}

Operand operand_in(const BoxedValue& value, int position) {
  // As a temporary, which the operand holds itself.
  if (const auto* held = std::get_if<Tensor>(&value)) return Operand(Tensor(*held));
  return Operand(scalar_in(value, position));
}

double number_in(const BoxedValue& value, int position) {
  if (const auto* held = std::get_if<double>(&value)) return *held;
  if (const auto* held = std::get_if<int64_t>(&value)) return static_cast<double>(*held);
  throw WrongKind{position, "a number"};
}

}  // namespace boxing

}  // namespace moonlet
