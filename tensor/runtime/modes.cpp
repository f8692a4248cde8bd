// tensor/runtime/modes.cpp: the stack of modes: how a call goes down through it, and how entries
// come and go while calls run, coroutines change and holders are collected in any order.
#include "tensor/runtime/modes.h"

#include <algorithm>

#include "tensor/runtime/passed_modes.h"
#include "tensor/runtime/stack.h"

namespace moonlet {

constinit thread_local ModeEntry* passed_modes = nullptr;

namespace {

void release_entry(ModeEntry* entry) {
  if (--entry->holders == 0) delete entry;
}

// Takes the top off.
void pop() {
  ModeEntry* const top = execution.modes;
  execution.modes = top->below;
  if (top->holders > 0) release_entry(top);
}

// Takes off what was removed while it was not on top.
void sweep() {
  while (execution.modes && !execution.modes->mode && execution.modes->holders > 0) pop();
}

void pop_until(const ModeEntry* entry) {
  while (execution.modes && execution.modes != entry) pop();
}

int depth_of(const ModeEntry* entry) { return entry ? entry->depth : 0; }

void check_depth(const char* op, int depth) {
  check(depth <= kMaxModes, op, ": modes nest too deeply: there may be ", kMaxModes,
        " inside one another (forward-mode levels, hooks of saved tensors, autocast, profilers, "
        "overrides)");
}

bool requires_grad(const BoxedValue& value) {
  if (const auto* t = std::get_if<Tensor>(&value)) return t->defined() && t->requires_grad();
  const auto* list = std::get_if<std::vector<Tensor>>(&value);
  return list && std::any_of(list->begin(), list->end(),
                             [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

// Whether the call is of a composite with a derivative of its own, which its body does not record.
// Only internal ones have that (the generator sees to it).
bool is_recorded_whole(const OpInfo& op, const BoxedValues& arguments) {
  return execution.grad_mode && op.row->internal && op.row->own_derivative &&
         std::any_of(arguments.begin(), arguments.end(), requires_grad);
}

}  // namespace

// The modes that let the call go on and want to see what it is made of, in the stack's order.
struct ModeCall::Walk {
  ModeEntry* inside = nullptr;
  ModeEntry** last = &inside;
};

bool ModeCall::is_replaced(const Mode& mode, const ModeCall* above) {
  for (; above != nullptr; above = above->above_)
    if (above->entry_.mode && above->entry_.mode->replaces(mode)) return true;
  return false;
}

void ModeCall::descend(const OpInfo& op, BoxedValues& in, BoxedValues& out, Walk& walk,
                       ModeEntry* entry, const ModeCall* above) {
  while (entry && (!entry->mode || is_replaced(*entry->mode, above))) entry = entry->below;
  check_stack(op.name);
  if (entry) {
    const ModesScope rest(entry->below);
    // The mode may be removed while it runs.
    const ModeEntry running{entry->mode, entry->below, 0, entry->depth};
    ModeCall call(op, in, out, walk, running, above);
    running.mode->call(call);
    return;
  }
  const bool inside = op.body && !is_recorded_whole(op, in);
  const ModesScope within(inside ? walk.inside : nullptr);
  const PassedModesScope passed(inside ? nullptr : walk.inside);
  call_boxed(op, inside ? op.body : op.call, in, out);
}

void ModeCall::proceed(InnerOps inner_ops) {
  ModeEntry staying{entry_.mode, nullptr, 0, entry_.depth};
  struct End {
    Walk& walk;
    ModeEntry** const last;
    ~End() { *(walk.last = last) = nullptr; }
  } const end{walk_, walk_.last};
  if (inner_ops == InnerOps::Visible) {
    *walk_.last = &staying;
    walk_.last = &staying.below;
  }
  descend(op, arguments, results, walk_, entry_.below, this);
}

void intercept(const OpInfo& op, BoxedValues& arguments, BoxedValues& results) {
  ModeCall::Walk walk;
  ModeCall::descend(op, arguments, results, walk, execution.modes, nullptr);
}

ModesScope::ModesScope(ModeEntry* visible) : before_(execution.modes) {
  floor_.below = visible;
  floor_.depth = depth_of(visible);
  execution.modes = visible ? &floor_ : nullptr;
}

ModesScope::~ModesScope() {
  pop_until(&floor_);
  execution.modes = before_;
  sweep();
}

void check_room_for_mode(const char* op) { check_depth(op, depth_of(execution.modes) + 1); }

ModeScope::ModeScope(Mode& mode)
    : entry_{{std::shared_ptr<void>(), &mode}, execution.modes, 0, depth_of(execution.modes) + 1} {
  check_depth("ModeScope", entry_.depth);
  execution.modes = &entry_;
}

ModeScope::~ModeScope() {
  pop_until(&entry_);
  execution.modes = entry_.below;
  sweep();
}

// One holder is this, the other the stack.
ModeHolder::ModeHolder(std::shared_ptr<Mode> mode) {
  check_room_for_mode("ModeHolder");
  entry_ = new ModeEntry{std::move(mode), execution.modes, 2, depth_of(execution.modes) + 1};
  execution.modes = entry_;
}

void ModeHolder::remove() {
  if (!entry_) return;
  entry_->mode.reset();
  release_entry(std::exchange(entry_, nullptr));
  sweep();
}

SuspendedModes::~SuspendedModes() {
  while (top_) release_entry(std::exchange(top_, top_->below));
}

ResumedModes::ResumedModes(SuspendedModes& own) : own_(own) {
  const int outside = depth_of(execution.modes);
  int inside = 0;
  for (const ModeEntry* e = own.top_; e != nullptr; e = e->below) ++inside;
  check_depth("coroutine.resume", outside + inside);
  floor_.below = execution.modes;
  floor_.depth = outside;
  if (execution.modes) execution.modes = &floor_;
  if (!own.top_) return;
  ModeEntry* last = own.top_;
  for (ModeEntry* e = own.top_; e != nullptr; e = e->below) {
    e->depth = outside + inside--;
    last = e;
  }
  last->below = execution.modes;
  execution.modes = std::exchange(own.top_, nullptr);
  sweep();
}

ResumedModes::~ResumedModes() {
  ModeEntry* const floor = floor_.below ? &floor_ : nullptr;
  ModeEntry** last = &own_.top_;
  *last = execution.modes;
  while (*last && *last != floor) last = &(*last)->below;
  *last = nullptr;
  execution.modes = floor_.below;
  sweep();
}

}  // namespace moonlet
