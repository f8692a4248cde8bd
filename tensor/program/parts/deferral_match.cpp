// tensor/program/parts/deferral_match.cpp: one op of a function that runs by parts: it is put off
// where it is one that was met there before, and runs and is written down otherwise.
#include <algorithm>

#include "tensor/core/dispatch.h"
#include "tensor/core/error.h"
#include "tensor/program/parts/deferral.h"
#include "tensor/program/same.h"

namespace moonlet::program {

namespace {

int64_t byte_offset(const Value& v) { return v.offset * static_cast<int64_t>(size_of(v.dtype)); }
int64_t byte_offset(const Tensor& t) {
  return t.offset() * static_cast<int64_t>(size_of(t.dtype()));
}

// Calls f(tensor) for each tensor among the arguments while it returns true.
template <class F>
bool all_tensors(const BoxedValues& arguments, F&& f) {
  for (const BoxedValue& each : arguments) {
    if (const auto* one = std::get_if<Tensor>(&each))
      if (one->defined() && !f(*one)) return false;
    if (const auto* list = std::get_if<std::vector<Tensor>>(&each))
      for (const Tensor& t : *list)
        if (t.defined() && !f(t)) return false;
  }
  return true;
}

// A number that may be another one in each call: kinds decide dtypes, and integers sizes.
bool is_float(const BoxedValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) return !scalar->is_int();
  return std::holds_alternative<double>(value);
}
bool may_stand_for(const BoxedValue& a, const BoxedValue& b) {
  if (a.index() != b.index() || !is_float(a) || !is_float(b)) return false;
  const auto *x = std::get_if<Scalar>(&a), *y = std::get_if<Scalar>(&b);
  return x == nullptr || x->kind() == y->kind();
}

std::vector<BoxedValue> numbers_of(const BoxedValues& arguments) {
  std::vector<BoxedValue> out;
  for (const BoxedValue& each : arguments)
    if (is_number(each)) out.push_back(each);
  return out;
}

Value value_of(const Tensor& t, BufferId buffer) {
  return {buffer, t.dtype(), t.sizes(), t.strides(), t.offset()};
}

}  // namespace

// What a step that matches would bind and change.
struct Deferral::Match {
  struct Fresh {
    BufferId buffer;
    Storage* storage;
    int64_t shift;
  };
  std::vector<Fresh> fresh;
  std::vector<const Tensor*> tensors;  // by index of TraceStep::tensors, of the arguments
  bool may_vary = false, varies = false;
};

bool Deferral::is_eligible(const Tensor& t) const {
  if (!t.device().is_cpu() || t.storage().stand_in() != nullptr || t.storage().is_foreign())
    return false;
  if (!t.storage().has_other_writers()) return true;
  // Memory that was handed over and that nobody else holds but the part.
  const auto found = marks_.find(&t.storage());
  return found != marks_.end() && found->second.open != kNone;
}

bool Deferral::is_eligible(const OpInfo& op, const BoxedValues& arguments) const {
  if (op.form == OpInfo::Form::Out || op.row->kind == OpKind::Allocating) return false;
  for (const BoxedValue& each : arguments) {
    if (const auto* generator = std::get_if<Generator*>(&each))
      if (*generator != nullptr) return false;
    if (const auto* device = std::get_if<Device>(&each))
      if (!device->is_cpu()) return false;
    if (const auto* options = std::get_if<Options>(&each))
      if (!options->device.is_cpu()) return false;
  }
  return all_tensors(arguments, [&](const Tensor& t) { return is_eligible(t); });
}

bool Deferral::matches_tensor(const TraceStep& step, const Value& v, const Tensor& t,
                              Match& match) const {
  if (v.dtype != t.dtype() || !(v.sizes == t.sizes()) || !(v.strides == t.strides())) return false;
  Storage* const storage = &t.storage();
  const int64_t shift = byte_offset(t) - byte_offset(v);
  const auto found = marks_.find(storage);
  const BufferId bound = found == marks_.end() ? kNone : found->second.open;
  if (bound != kNone) return bound == v.buffer && open_->buffers[bound].shift == shift;
  if (v.buffer < step.first_buffer) return false;
  for (const Match::Fresh& each : match.fresh) {
    if (each.storage == storage) return each.buffer == v.buffer && each.shift == shift;
    if (each.buffer == v.buffer) return false;
  }
  match.fresh.push_back({v.buffer, storage, shift});
  return true;
}

bool Deferral::matches(TraceStep& step, const BoxedValues& arguments, Match& match) {
  match.fresh.clear();
  match.tensors.assign(step.tensors.size(), nullptr);
  match.varies = step.varies;
  if (step.arguments.size() != arguments.size()) return false;
  const auto tensor = [&](ValueId id, const Tensor& t) {
    if (id == kNone || !t.defined()) return id == kNone && !t.defined();
    match.tensors[id] = &t;
    return matches_tensor(step, step.tensors[id], t, match);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& known = step.arguments[i];
    if (const auto* ref = std::get_if<ValueRef>(&known)) {
      const auto* t = std::get_if<Tensor>(&arguments[i]);
      if (t == nullptr || !tensor(ref->id, *t)) return false;
    } else if (const auto* refs = std::get_if<ValueRefs>(&known)) {
      const auto* list = std::get_if<std::vector<Tensor>>(&arguments[i]);
      if (list == nullptr || list->size() != refs->size()) return false;
      for (size_t k = 0; k < refs->size(); ++k)
        if (!tensor((*refs)[k].id, (*list)[k])) return false;
    } else {
      const auto& value = std::get<BoxedValue>(known);
      if (same(value, arguments[i])) continue;
      const bool varies = step.varies || (match.may_vary && step.may_vary);
      if (!varies || !may_stand_for(value, arguments[i])) return false;
      match.varies = true;
    }
  }
  return true;
}

void Deferral::meet(DeferredCall& call) {
  if (running_) return;
  const OpInfo& op = call.op_;
  const auto ends = [&](const char* why) {
    return [&op, why, this] { return std::string(op.name) + ' ' + why + at_line(); };
  };
  if (!is_eligible(op, call.arguments_)) return close(ends("is not put off"));
  if (open_ == nullptr) open();
  Match match;
  for (const bool may_vary : {false, true}) {
    match.may_vary = may_vary;
    for (size_t i = 0; i < at_->next.size(); ++i) {
      TraceStep& step = *at_->next[i];
      if (step.row != op.row || step.form != op.form || !matches(step, call.arguments_, match))
        continue;
      if (i != 0) std::rotate(at_->next.begin(), at_->next.begin() + i, at_->next.begin() + i + 1);
      return put_off(step, call, match);
    }
  }
  const RawOp* const raw = find_raw_op(op.row->name);
  if (raw == nullptr || raw->form(op.form) == nullptr)
    return close(ends("is no op that programs know"));
  const bool is_full = trace_->steps >= Trace::kMostSteps || at_->next.size() >= Trace::kMostWays;
  recorded_ = recorded_ || is_full;
  if (is_full) return close(ends("is seldom called alike"));
  record(call, *raw);
}

void Deferral::bind_external(BufferId buffer, Storage& storage, int64_t shift) {
  storage.retain();
  Mark& known = mark(storage, true);
  known.open = buffer;
  if (known.learner != nullptr) {
    known.learner->wanted[known.learned_buffer] = true;
    known.learner = nullptr;
    known.learned.reset();
  }
  if (open_->buffers.size() <= static_cast<size_t>(buffer)) open_->buffers.resize(buffer + 1);
  open_->buffers[buffer] = {&storage, true, false, shift};
}

// --- a step that was met before ------------------------------------------------------------------

void Deferral::put_off(TraceStep& step, DeferredCall& call, Match& match) {
  // Where it raises an error, what it and the ops before it change must not be in doubt.
  if (step.may_raise && at_->op != nullptr && (open_->acts || !step.written.empty())) {
    step_done(step);
    return meet(call);
  }
  for (const ValueId id : step.written) check_writable(call.op_.name, *match.tensors[id]);
  for (const Match::Fresh& each : match.fresh)
    bind_external(each.buffer, *each.storage, each.shift);
  Group& group = *open_;
  group.buffers.resize(step.buffers());
  at_ = &step;
  if (step.gives_arguments) {
    call.running_ = running_ = true;
    return;
  }
  if (match.varies) {
    if (!step.varies) ++trace_->varied;
    step.varies = true;
    group.numbers.push_back({&step, numbers_of(call.arguments_)});
  }
  group.waits = true;
  group.acts = group.acts || step.op->random;
  for (const ValueId id : step.written) {
    Bound& bound = group.buffers[step.tensors[id].buffer];
    bound.is_changed = true;
    group.acts = group.acts || bound.is_external;
    mark_changed(*match.tensors[id], call.op_.name);
  }
  // Who meets an error of its own may run the op again.
  group.acts = group.acts || (step.may_raise && !step.written.empty());
  group.must_run = group.must_run || group.acts || step.may_raise;
  if (step.form == OpInfo::Form::Plain) call.results_ = made_results(step);
  call.put_off_ = true;
  step_done(step);
}

BoxedValues Deferral::made_results(const TraceStep& step) {
  for (size_t i = 0; i < step.made.size(); ++i) {
    if (step.made[i].is_external) continue;
    const auto buffer = step.first_buffer + static_cast<BufferId>(i);
    Storage* const storage =
        Storage::deferred(static_cast<size_t>(step.made[i].bytes), Device(), made_);
    mark(*storage, false).open = buffer;
    open_->buffers[buffer] = {storage};
  }
  const auto tensor = [&](ValueRef ref) {
    if (ref.id == kNone) return Tensor();
    const Value& v = step.tensors[ref.id];
    return view_of(*open_->buffers[v.buffer].storage, v.sizes, v.strides, v.offset, v.dtype);
  };
  BoxedValues out;
  for (const Result& each : step.results) {
    if (const auto* one = std::get_if<ValueRef>(&each)) {
      out.push_back(one->id == kNone ? BoxedValue() : BoxedValue(tensor(*one)));
      continue;
    }
    std::vector<Tensor> list;
    for (const ValueRef ref : std::get<ValueRefs>(each)) list.push_back(tensor(ref));
    out.emplace_back(std::move(list));
  }
  for (size_t i = 0; i < step.made.size(); ++i)
    if (!step.made[i].is_external) open_->buffers[step.first_buffer + i].storage->release();
  return out;
}

void Deferral::step_done(TraceStep& step) {
  if (!step.may_raise) return;
  const char* const op = step.op->name;
  close([op, this] { return std::string(op) + " may raise an error" + at_line(); });
}

// --- a new step ----------------------------------------------------------------------------------

// The arguments are looked at before the op runs, so that what it changes is where it was.
void Deferral::record(DeferredCall& call, const RawOp& raw) {
  run_prefix();
  recorded_ = true;
  try {
    begin_step(call, raw);
  } catch (...) {
    // What it has bound belongs to no step.
    close([this] { return "memory runs out" + at_line(); });
    throw;
  }
}

void Deferral::begin_step(DeferredCall& call, const RawOp& raw) {
  auto step = std::make_unique<TraceStep>();
  step->op = &raw;
  step->row = call.op_.row;
  step->form = call.op_.form;
  step->parent = at_;
  step->first_buffer = at_->buffers();
  step->depth = at_->depth + 1;
  const auto ref = [&](const Tensor& t) -> ValueRef {
    if (!t.defined()) return {};
    Mark* known = find(t.storage());
    if (known != nullptr && known->maker != nullptr) make_up(known->maker, known->made);
    known = find(t.storage());
    if (known == nullptr || known->open == kNone) {
      step->made.push_back({true, static_cast<int64_t>(t.storage().bytes())});
      bind_external(step->buffers() - 1, t.storage(), 0);
    }
    step->tensors.push_back(value_of(t, find(t.storage())->open));
    return {static_cast<ValueId>(step->tensors.size()) - 1};
  };
  for (const BoxedValue& each : call.arguments_) {
    if (const auto* one = std::get_if<Tensor>(&each)) {
      step->arguments.emplace_back(ref(*one));
    } else if (const auto* list = std::get_if<std::vector<Tensor>>(&each)) {
      ValueRefs refs;
      for (const Tensor& t : *list) refs.push_back(ref(t));
      step->arguments.emplace_back(std::move(refs));
    } else {
      step->arguments.emplace_back(each);
    }
  }
  // What was left out reads what this op may be about to change.
  all_tensors(call.arguments_, [&](const Tensor& t) {
    make_up_readers(t.storage());
    return true;
  });
  call.recorded_ = step.release();
  call.running_ = running_ = true;
}

void Deferral::finish(DeferredCall& call, const BoxedValues& results) {
  std::unique_ptr<TraceStep> step(std::exchange(call.recorded_, nullptr));
  if (step == nullptr) return;
  bool known = true, makes = false, gives = false;
  const auto ref = [&](const Tensor& t) -> ValueRef {
    if (!t.defined()) return {};
    const Mark* found = find(t.storage());
    BufferId buffer = found == nullptr ? kNone : found->open;
    known = known && t.device().is_cpu() && t.storage().stand_in() == nullptr;
    if (buffer == kNone || buffer >= step->first_buffer)
      makes = makes || buffer == kNone || !open_->buffers[buffer].is_external;
    else
      gives = true;
    if (buffer == kNone) {
      buffer = step->buffers();
      step->made.push_back({false, static_cast<int64_t>(t.storage().bytes())});
      mark(t.storage(), true).open = buffer;
      open_->buffers.resize(step->buffers());
      open_->buffers[buffer] = {&t.storage()};
    } else if (open_->buffers[buffer].is_external) {
      gives = true;
    }
    step->tensors.push_back(value_of(t, buffer));
    return {static_cast<ValueId>(step->tensors.size()) - 1};
  };
  for (const BoxedValue& each : results) {
    if (const auto* one = std::get_if<Tensor>(&each)) {
      step->results.emplace_back(ref(*one));
    } else if (const auto* list = std::get_if<std::vector<Tensor>>(&each)) {
      ValueRefs refs;
      for (const Tensor& t : *list) refs.push_back(ref(t));
      step->results.emplace_back(std::move(refs));
    } else {
      known = known && std::holds_alternative<std::monostate>(each);
      step->results.emplace_back(ValueRef{});
    }
  }
  const bool plain = step->form == OpInfo::Form::Plain;
  step->gives_arguments = plain && gives && !makes;
  open_->buffers.resize(std::max(open_->buffers.size(), static_cast<size_t>(step->buffers())));
  if (!known || (plain && gives && makes)) {
    const char* const name = step->op->name;
    return close([name, this] { return std::string(name) + " is not put off" + at_line(); });
  }
  step->work_out();
  ++trace_->steps;
  at_->next.push_back(std::move(step));
  at_ = at_->next.back().get();
  step_done(*at_);
}

}  // namespace moonlet::program
