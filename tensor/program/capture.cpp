// tensor/program/capture.cpp: tensors become values of the graph, calls its nodes.
#include "tensor/program/capture.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/program/made_memory.h"
#include "tensor/program/program_data.h"
#include "tensor/program/unseen.h"

namespace moonlet::program {

namespace {

// Whether t lies where the value says: an op that changes a tensor's geometry in place, or a script
// that gives it other memory, leaves the value behind.
bool is_at(const Value& value, const Tensor& t) {
  return value.dtype == t.dtype() && value.offset == t.offset() && value.sizes == t.sizes() &&
         value.strides == t.strides();
}

TapeState tape_state_of(const BoxedValues& arguments) {
  TapeState out{execution.grad_mode, {}};
  const auto add = [&](const Tensor& t) {
    if (t.defined()) out.required.push_back(t.requires_grad());
  };
  for (const BoxedValue& each : arguments) {
    if (const auto* one = std::get_if<Tensor>(&each)) add(*one);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&each))
      for (const Tensor& t : *list) add(t);
  }
  return out;
}

}  // namespace

Capture::Capture() { ++below_tape; }
Capture::~Capture() { --below_tape; }

void Capture::stop(std::string reason) {
  if (stopped_) return;
  stopped_ = std::move(reason);
  if (locate) stopped_at_ = locate();
}

int32_t Capture::line() {
  if (!locate) return kNone;
  const std::string where = locate();
  if (where.empty()) return kNone;
  const auto [found, is_new] = lines_.emplace(where, static_cast<int32_t>(graph_.lines.size()));
  if (is_new) graph_.lines.push_back(where);
  return found->second;
}

ValueId Capture::add_value(const Tensor& t, Buffer::Kind kind) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  const auto [first, is_new] = by_storage_.emplace(&t.storage(), id);
  BufferId buffer = kNone;
  if (is_new) {
    buffer = static_cast<BufferId>(graph_.buffers.size());
    graph_.buffers.push_back({kind, t.device(), static_cast<int64_t>(t.storage().bytes())});
  } else {
    buffer = graph_.values[first->second].buffer;
  }
  graph_.values.push_back({buffer, t.dtype(), t.sizes(), t.strides(), t.offset()});
  held_.push_back(t);
  by_handle_[t.impl()] = id;
  return id;
}

void Capture::add_input(const Tensor& t) {
  const auto known = by_handle_.find(t.impl());
  graph_.inputs.push_back(known != by_handle_.end() ? known->second
                                                    : add_value(t, Buffer::Kind::Input));
}

void Capture::add_made(const Tensor& t) {
  if (!t.device().is_batched()) add_value(t, Buffer::Kind::Internal);
}

void Capture::name_parameter(const Tensor& t, std::string name) {
  names_.emplace(t.impl(), std::move(name));
}

void Capture::add_output(const Tensor& t) { graph_.outputs.push_back(value_of(t)); }

int32_t Capture::vary_numbers() {
  if (graph_.nodes.empty() || stopped_) return kNone;
  return graph_.nodes.back().numbers = number_sources_++;
}

void Capture::note_gradient(const Tensor& leaf, const Tensor& now, bool is_read) {
  if (!leaves_.emplace(leaf.impl(), leaf_gradients_.size()).second) return;
  ValueId value = kNone;
  if (now.defined()) value = knows(now) ? value_of(now) : add_value(now, Buffer::Kind::Input);
  leaf_gradients_.push_back({leaf, now, value, is_read});
}

ValueId Capture::value_of(const Tensor& t) {
  if (const auto known = by_handle_.find(t.impl()); known != by_handle_.end()) {
    const Value& value = graph_.values[known->second];
    const bool same_memory = by_storage_.contains(&t.storage()) &&
                             graph_.values[by_storage_[&t.storage()]].buffer == value.buffer;
    if (is_at(value, t) && same_memory) return known->second;
    stop("a tensor's geometry or memory is changed in place");
    return known->second;
  }
  const auto found = by_storage_.find(&t.storage());
  if (found == by_storage_.end()) {
    const ValueId id = add_value(t, Buffer::Kind::Parameter);
    const auto name = names_.find(t.impl());
    graph_.parameters.push_back({id, t, name == names_.end() ? "" : name->second});
    return id;
  }
  // A handle that no op made, such as what the tape kept of a tensor.
  const ValueId base = found->second;
  const Value known = graph_.values[base];
  if (is_at(known, t)) {
    more_handles_.push_back(t);
    by_handle_[t.impl()] = base;
    return base;
  }
  if (t.dtype() != known.dtype) stop("a tensor is looked at as another dtype");
  const ValueId id = add_value(t, Buffer::Kind::Internal);
  graph_.nodes.push_back(
      {find_raw_op("strided_view"),
       OpInfo::Form::Plain,
       {ValueRef{base}, BoxedValue(t.sizes()), BoxedValue(t.strides()), BoxedValue(t.offset()),
        BoxedValue(known.strides), BoxedValue(known.offset)},
       {ValueRef{id}},
       line()});
  return id;
}

Argument Capture::argument(const BoxedValue& value) {
  if (const auto* one = std::get_if<Tensor>(&value))
    return one->defined() ? Argument(ValueRef{value_of(*one)}) : Argument(BoxedValue());
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
    ValueRefs refs;
    for (const Tensor& each : *list) refs.push_back({each.defined() ? value_of(each) : kNone});
    return refs;
  }
  if (const auto* generator = std::get_if<Generator*>(&value); generator && *generator != nullptr)
    stop("random numbers of a generator of its own are drawn");
  return value;
}

// A result may be an argument again, or what an earlier op gave.
ValueId Capture::result_value(const Tensor& t) {
  if (!t.defined()) return kNone;
  if (by_handle_.contains(t.impl())) return value_of(t);
  return add_value(t, Buffer::Kind::Internal);
}

Result Capture::result(const BoxedValue& value) {
  if (const auto* one = std::get_if<Tensor>(&value)) return ValueRef{result_value(*one)};
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
    ValueRefs refs;
    for (const Tensor& each : *list) refs.push_back({result_value(each)});
    return refs;
  }
  if (!std::holds_alternative<std::monostate>(value)) stop("an op gives numbers");
  return ValueRef{};
}

void Capture::write(const OpInfo& op, const BoxedValues& arguments, const BoxedValues& results) {
  const RawOp* const raw = find_raw_op(op.row->name);
  if (raw == nullptr || raw->form(op.form) == nullptr)
    return stop(std::string(op.name) + " is an op that programs do not know");
  if (raw->kind == OpKind::Allocating)
    return stop(std::string(op.name) + " gives a result whose size depends on values");
  Node node{raw, op.form, {}, {}, line()};
  node.arguments.reserve(arguments.size());
  for (const BoxedValue& each : arguments) node.arguments.push_back(argument(each));
  node.results.reserve(results.size());
  for (const BoxedValue& each : results) node.results.push_back(result(each));
  graph_.nodes.push_back(std::move(node));
  tape_.resize(graph_.nodes.size());
  tape_.back() = tape_state_of(arguments);
}

void Capture::keep_before_write(const Tensor& t) {
  if (!t.defined()) return;
  const BufferId buffer = graph_.values[value_of(t)].buffer;
  const bool known = std::any_of(changed_.begin(), changed_.end(),
                                 [&](const Changed& each) { return each.buffer == buffer; });
  if (!known && graph_.buffers[buffer].kind != Buffer::Kind::Internal)
    changed_.push_back({buffer, t, copy_with_storage(t)});
}

void Capture::keep_written(const OpInfo& op, const BoxedValues& arguments) {
  if (!keeps_changed_) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!op.writes(static_cast<int>(i))) continue;
    if (const auto* one = std::get_if<Tensor>(&arguments[i])) keep_before_write(*one);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&arguments[i]))
      for (const Tensor& each : *list) keep_before_write(each);
  }
}

CapturedCall::CapturedCall(const OpInfo& op, BoxedValues arguments)
    : capture_(std::exchange(execution.capture, nullptr)),
      op_(op),
      arguments_(std::move(arguments)) {
  // Before the op runs, so that what it changes is still where the graph knows it.
  for (const BoxedValue& each : arguments_) static_cast<void>(capture_->argument(each));
  capture_->keep_written(op_, arguments_);
}

CapturedCall::~CapturedCall() {
  execution.capture = capture_;
  if (!finished_) capture_->stop(std::string(op_.name) + " raises an error");
}

void CapturedCall::finish(const BoxedValues& results) {
  finished_ = true;
  if (!capture_->stopped()) capture_->write(op_, arguments_, results);
}

void note_made_memory(const Tensor& t) { execution.capture->add_made(t); }

void stop_capture(const char* by, const char* reason) {
  execution.capture->stop(std::string(by) + ' ' + reason);
}
namespace {
[[gnu::constructor]] void know_unseen_work() { unseen_work.stop_capture = stop_capture; }
}  // namespace

bool is_sole_handle(const Tensor& t) {
  const bool captured = execution.capture != nullptr && execution.capture->knows(t);
  return t.impl()->references.load() == (captured ? 2 : 1);
}

CaptureScope::CaptureScope(Capture& capture)
    : before_(std::exchange(execution.capture, &capture)) {}
CaptureScope::~CaptureScope() { execution.capture = before_; }

}  // namespace moonlet::program
