// tensor/program/parts/deferral.cpp: parts open with a function's first op and end where contents
// are asked for; then what was put off runs.
#include "tensor/program/parts/deferral.h"

#include <algorithm>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/interpret_raw.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/unseen.h"

namespace moonlet::program {

constinit thread_local Deferral* deferral = nullptr;
constinit thread_local bool any_deferred = false;
constinit thread_local size_t Deferral::least_left_out = size_t{1} << 20;

namespace {

// After so many runs of a program that were for what it had left out, it computes all.
constexpr int kMostWasted = 2;
// So many programs are made for what ends at one place; then ops run one by one.
constexpr int kMostPlans = 24;

// Marks a storage that has memory.
void watch(Storage& storage, DeferredContents& contents) {
  storage.settle(Storage::deferred(0, storage.device(), contents));
}
void unwatch(Storage& storage) noexcept { storage.settle(nullptr); }

// The first tensor in a buffer of a part.
const Value& first_value(const TraceStep& last, BufferId buffer) {
  const TraceStep* step = &last;
  while (step->first_buffer > buffer) step = step->parent;
  for (const Value& v : step->tensors)
    if (v.buffer == buffer) return v;
  fail("program: a part does not know a buffer of its own");
}

// `t`, as memory that nobody else holds, where the value lies in it.
Storage* own_storage(Tensor& t, const Value& v, size_t bytes) {
  Storage& storage = t.storage();
  const bool own = t.impl()->references.load() == 1 && storage.sole_owner() &&
                   storage.bytes() == bytes && t.offset() == v.offset && !storage.is_foreign();
  if (own) {
    storage.retain();
    t = Tensor();
    return &storage;
  }
  Storage* const out = Storage::allocate(bytes, storage.device());
  Tensor to = view_of(*out, v.sizes, v.strides, v.offset, v.dtype);
  copy_plain(to, t, "program");
  return out;
}

struct Holder {
  Deferral* const it = new Deferral;
  Holder() = default;
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
};

}  // namespace

// Ops of our own: they find contents as they are, no capture sees them, and their memory is of no
// mode: that of the results is known already.
class Deferral::Running {
 public:
  explicit Running(Deferral& of)
      : of_(of),
        before_(std::exchange(of.running_, true)),
        capture_(std::exchange(execution.capture, nullptr)),
        inference_(std::exchange(execution.inference_mode, false)) {}
  ~Running() {
    of_.running_ = before_;
    execution.capture = capture_;
    execution.inference_mode = inference_;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Deferral& of_;
  const bool before_;
  Capture* const capture_;
  const bool inference_;
};

Deferral::Deferral() = default;
Deferral::~Deferral() = default;

Deferral& Deferral::of_thread() {
  static thread_local Holder holder;
  return *holder.it;
}

// --- the function --------------------------------------------------------------------------------

bool Deferral::enter(std::shared_ptr<Trace> trace, Script script) {
  if (trace_ != nullptr) return false;
  trace_ = std::move(trace);
  script_ = std::move(script);
  start_ = &trace_->start;
  recorded_ = false;
  deferral = this;
  any_deferred = true;
  ++below_tape;
  return true;
}

void Deferral::leave() {
  if (trace_ == nullptr) return;
  const auto end = [this] {
    ++trace_->runs;
    trace_->in_vain = recorded_ ? trace_->in_vain + 1 : 0;
    deferral = nullptr;
    --below_tape;
    trace_.reset();
    script_ = {};
  };
  try {
    close([] { return std::string("the function returns"); });
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Deferral::end_part(const std::string& reason) {
  close([&] { return reason + at_line(); });
}

std::string Deferral::at_line() const {
  const std::string line = script_.line ? script_.line() : "";
  return line.empty() ? line : " (" + line + ")";
}

void Deferral::run_all() {
  close([this] { return "what was put off is asked for" + at_line(); });
  while (!groups_.empty()) make_up(groups_.front(), kNone);
  // What is only noted from now on is not worth a mark that another thread may meet.
  std::vector<Storage*> storages;
  for (auto& [storage, known] : marks_) {
    known.learner = nullptr;
    if (known.idle()) storages.push_back(const_cast<Storage*>(storage));
  }
  for (Storage* each : storages) unmark_if_idle(*each);
}

size_t Deferral::waiting_bytes() const {
  size_t out = 0;
  if (open_ == nullptr || !open_->waits) return out;
  for (const Bound& bound : open_->buffers)
    if (bound.storage != nullptr && !bound.is_external) out += bound.storage->bytes();
  return out;
}

bool Deferral::may_collect() const {
  constexpr int kMostInVain = 3;
  return at_ != nullptr && (at_->end == nullptr || at_->end->collected_in_vain < kMostInVain);
}

void Deferral::note_collected(size_t before) {
  if (at_ != nullptr && at_->end != nullptr && waiting_bytes() > before - before / 8)
    ++at_->end->collected_in_vain;
}

// --- contents that are asked for -----------------------------------------------------------------

void Deferral::asked(Storage& storage, bool has_memory) {
  if (this != &of_thread()) {
    // Another thread reads what we only read, too.
    check(has_memory, "a tensor whose ops were put off is used by another thread");
    return;
  }
  if (running_) return;
  Mark* known = find(storage);
  if (known != nullptr && known->open != kNone) {
    const BufferId buffer = known->open;
    close(
        [this] {
          const std::string by = script_.reader ? script_.reader() : "";
          return (by.empty() ? "elements are read" : by + " reads values") + at_line();
        },
        open_->buffers[buffer].is_external ? kNone : buffer);
  }
  known = find(storage);
  if (known != nullptr && known->maker != nullptr) make_up(known->maker, known->made);
  make_up_readers(storage);
  known = find(storage);
  if (known == nullptr) return;
  if (known->learner != nullptr) known->learner->wanted[known->learned_buffer] = true;
  known->learner = nullptr;
  unmark_if_idle(storage);
}

void Deferral::dropped(Storage& storage) noexcept {
  const auto found = marks_.find(&storage);
  if (found == marks_.end()) return;
  const Mark known = std::move(found->second);
  marks_.erase(found);
  if (known.open != kNone && open_ != nullptr) open_->buffers[known.open].storage = nullptr;
  if (known.maker == nullptr) return;
  Group& maker = *known.maker;
  maker.buffers[known.made].storage = nullptr;
  const bool any = std::any_of(maker.buffers.begin(), maker.buffers.end(), [](const Bound& each) {
    return each.storage != nullptr && !each.is_external;
  });
  if (!any) let_go(known.maker);
}

Deferral::Mark& Deferral::mark(Storage& storage, bool has_memory) {
  const auto [found, is_new] = marks_.try_emplace(&storage);
  if (is_new) {
    found->second.has_memory = has_memory;
    if (has_memory) watch(storage, watched_);
  }
  return found->second;
}

void Deferral::unmark_if_idle(Storage& storage) noexcept {
  const auto found = marks_.find(&storage);
  if (found == marks_.end() || !found->second.idle()) return;
  if (found->second.has_memory) unwatch(storage);
  marks_.erase(found);
}

// --- parts ---------------------------------------------------------------------------------------

void Deferral::open() {
  open_ = std::make_shared<Group>();
  open_->trace = trace_;
  if (start_->next == nullptr) start_->next = std::make_unique<TraceStep>();
  at_ = start_->next.get();
}

void Deferral::close(const std::function<std::string()>& reason, BufferId wanted) {
  if (open_ == nullptr) return;
  if (at_->op == nullptr) return drop_open();
  if (at_->end == nullptr) {
    at_->end = std::make_unique<PartEnd>();
    at_->end->reason = reason();
    at_->end->ops = static_cast<size_t>(at_->depth);
  }
  PartEnd& end = *at_->end;
  const GroupRef group = std::exchange(open_, nullptr);
  group->last = std::exchange(at_, nullptr);
  group->end = &end;
  group->buffers.resize(
      std::max(group->buffers.size(), static_cast<size_t>(group->last->buffers())));
  end.wanted.resize(group->last->buffers());
  if (wanted != kNone && static_cast<size_t>(wanted) < end.wanted.size()) end.wanted[wanted] = true;
  start_ = &end;
  ++end.runs;
  for (size_t b = 0; b < group->buffers.size(); ++b) {
    Bound& bound = group->buffers[b];
    if (bound.storage == nullptr) continue;
    Mark& known = *find(*bound.storage);
    known.open = kNone;
    // Who asks later for what has run?
    if (group->waits || bound.is_external || b >= end.wanted.size() || end.wanted[b]) continue;
    known.learned = group->trace;
    known.learner = &end;
    known.learned_buffer = static_cast<BufferId>(b);
  }
  if (group->waits)
    execute(group);
  else
    let_go(group);
}

void Deferral::drop_open() noexcept {
  const GroupRef group = std::exchange(open_, nullptr);
  at_ = nullptr;
  for (const Bound& bound : group->buffers)
    if (bound.storage != nullptr) find(*bound.storage)->open = kNone;
  let_go(group);
}

void Deferral::execute(const GroupRef& group) {
  const std::vector<bool> outputs = outputs_of(*group);
  const bool any = std::find(outputs.begin(), outputs.end(), true) != outputs.end();
  if (any || group->must_run) try {
      for (const Bound& bound : group->buffers)
        if (bound.is_changed && bound.is_external) make_up_readers(*bound.storage);
      run_outputs(*group, outputs);
    } catch (const std::exception& e) {
      // An op that raises an error gives nothing; what came before it is as it was.
      if (group->last->may_raise) group->last = group->last->parent;
      // What it may have changed cannot be done twice.
      if (group->acts)
        group->broken =
            text("the ops that compute this tensor were put off, and failed: ", e.what());
      keep(group);
      throw;
    }
  keep(group);
}

// The made memory that is computed when the part ends.
std::vector<bool> Deferral::outputs_of(Group& group) const {
  std::vector<bool> out(group.last->buffers());
  PartEnd* const end = group.end;
  size_t left_out = 0;
  for (size_t b = 0; b < out.size(); ++b) {
    const Bound& bound = group.buffers[b];
    if (end == nullptr || bound.storage == nullptr || bound.is_external) continue;
    if (!end->wanted[b]) left_out += bound.storage->bytes();
  }
  const bool all = end == nullptr || end->keeps_all || group.acts || left_out < least_left_out;
  for (size_t b = 0; b < out.size(); ++b) {
    const Bound& bound = group.buffers[b];
    if (bound.storage == nullptr || bound.is_external) continue;
    if (end != nullptr && all) end->wanted[b] = true;
    out[b] = all || end->wanted[b];
  }
  return out;
}

std::vector<Tensor> Deferral::inputs_of(const Group& group, const std::vector<BufferId>& buffers,
                                        const Graph& graph) {
  const auto left_out = [&](BufferId b) {
    const Mark* const known = find(*group.buffers[b].storage);
    return known != nullptr && known->maker != nullptr ? known : nullptr;
  };
  for (const BufferId b : buffers)
    if (const Mark* const known = left_out(b); known != nullptr && known->maker->broken.empty())
      known->maker->end->wanted[known->made] = true;
  for (const BufferId b : buffers)
    if (const Mark* const known = left_out(b)) make_up(known->maker, known->made);
  const Running running(*this);
  std::vector<Tensor> out;
  out.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Bound& bound = group.buffers[buffers[i]];
    const Value& v = graph.values[graph.inputs[i]];
    // A storage of its own over the same memory, where the value lies as it did.
    const auto bytes = static_cast<int64_t>(bound.storage->bytes()) - bound.shift;
    Storage* const alias =
        Storage::foreign(bound.storage->data() + bound.shift, static_cast<size_t>(bytes),
                         bound.storage->device(), {});
    out.push_back(view_of(*alias, v.sizes, v.strides, v.offset, v.dtype));
    alias->release();
  }
  return out;
}

void Deferral::make_plan(Group& group) const {
  PartEnd& end = *group.end;
  end.runner.reset();
  ++end.plans;
  PartGraph made = graph_of(*group.last, end.wanted, group.numbers);
  end.inputs = std::move(made.inputs);
  end.outputs = std::move(made.outputs);
  end.varied = group.trace->varied;
  end.runner = std::make_unique<Runner>(Plan::make(std::move(made.graph)));
}

// False where the ops are to run one by one.
bool Deferral::run_plan(Group& group, const std::vector<bool>& outputs) {
  if (group.end == nullptr || group.end->runs < 3) return false;
  PartEnd& end = *group.end;
  std::vector<bool> missing = outputs;
  for (const BufferId b : end.outputs) missing[b] = false;
  const bool fits = end.runner != nullptr && end.varied == group.trace->varied &&
                    std::find(missing.begin(), missing.end(), true) == missing.end();
  if (!fits && end.plans >= kMostPlans) return false;
  if (!fits) make_plan(group);
  std::vector<Tensor> inputs = inputs_of(group, end.inputs, end.runner->plan().graph());
  std::vector<Tensor> made;
  {
    const Running running(*this);
    for (size_t i = 0; i < group.numbers.size(); ++i)
      end.runner->set_numbers(static_cast<int32_t>(i), group.numbers[i].numbers);
    end.runner->run(inputs, made);
  }
  give(group, end.outputs, made);
  return true;
}

void Deferral::run_outputs(Group& group, const std::vector<bool>& outputs) {
  if (run_plan(group, outputs)) return;
  PartGraph part = graph_of(*group.last, outputs, group.numbers);
  drop_dead_code(part.graph);
  const std::vector<Tensor> inputs = inputs_of(group, part.inputs, part.graph);
  std::vector<Tensor> made;
  {
    const Running running(*this);
    made = interpret_raw(part.graph, inputs);
  }
  give(group, part.outputs, made);
}

// Memory for what has none yet and is still there.
void Deferral::give(Group& group, const std::vector<BufferId>& buffers, std::vector<Tensor>& made) {
  const Running running(*this);
  for (size_t i = 0; i < buffers.size(); ++i) {
    Storage* const storage = group.buffers[buffers[i]].storage;
    Tensor t = std::move(made[i]);
    if (storage == nullptr) continue;
    Mark& known = *find(*storage);
    if (known.has_memory) continue;
    storage->settle(own_storage(t, first_value(*group.last, buffers[i]), storage->bytes()));
    known.has_memory = true;
    known.maker.reset();
    watch(*storage, watched_);
    if (known.idle()) unmark_if_idle(*storage);
  }
}

void Deferral::run_prefix() {
  if (!open_->waits) return;
  const GroupRef group = open_;
  ++trace_->mismatches;
  group->last = at_;
  try {
    for (const Bound& bound : group->buffers)
      if (bound.is_changed && bound.is_external) make_up_readers(*bound.storage);
    run_outputs(*group, outputs_of(*group));
  } catch (const std::exception& e) {
    open_.reset();
    at_ = nullptr;
    for (const Bound& bound : group->buffers)
      if (bound.storage != nullptr) find(*bound.storage)->open = kNone;
    group->broken = text("the ops that compute this tensor were put off, and failed: ", e.what());
    keep(group);
    throw;
  }
  group->waits = group->acts = group->must_run = false;
  group->numbers.clear();
}

// --- what was left out ---------------------------------------------------------------------------

// Lets go of a group that has run, but for what it left out and what that reads.
void Deferral::keep(const GroupRef& group) {
  bool left_out = false;
  for (size_t b = 0; b < group->buffers.size(); ++b) {
    Storage* const storage = group->buffers[b].storage;
    if (storage == nullptr || group->buffers[b].is_external) continue;
    Mark* const known = find(*storage);
    if (known == nullptr || known->has_memory) {
      group->buffers[b].storage = nullptr;
      continue;
    }
    known->maker = group;
    known->made = static_cast<BufferId>(b);
    left_out = true;
  }
  if (!left_out || !group->broken.empty()) return let_go(group);
  for (const Bound& bound : group->buffers)
    if (bound.is_external && bound.storage != nullptr)
      mark(*bound.storage, true).readers.push_back(group);
  groups_.push_back(group);
  if (groups_.size() > 2 * kManyGroups) make_up(groups_.front(), kNone);
}

void Deferral::let_go(const GroupRef& from) noexcept {
  const GroupRef group = from;
  std::erase(groups_, group);
  const std::vector<Bound> buffers =
      group->broken.empty() ? std::exchange(group->buffers, {}) : group->buffers;
  for (const Bound& bound : buffers) {
    if (bound.storage == nullptr || (!bound.is_external && !group->broken.empty())) continue;
    if (Mark* const known = find(*bound.storage)) std::erase(known->readers, group);
    unmark_if_idle(*bound.storage);
    if (bound.is_external) bound.storage->release();
  }
  if (!group->broken.empty())
    for (Bound& bound : group->buffers)
      if (bound.is_external) bound.storage = nullptr;
}

void Deferral::make_up(GroupRef group, BufferId wanted) {
  check(group->broken.empty(), group->broken);
  PartEnd& end = *group->end;
  std::vector<bool> outputs(group->last->buffers());
  for (size_t b = 0; b < outputs.size(); ++b)
    outputs[b] = group->buffers[b].storage != nullptr && !group->buffers[b].is_external;
  if (wanted != kNone)
    end.wanted[wanted] = true;
  else if (++end.wasted >= kMostWasted)
    end.keeps_all = true;
  PartGraph part = graph_of(*group->last, outputs, group->numbers);
  drop_dead_code(part.graph);
  const std::vector<Tensor> inputs = inputs_of(*group, part.inputs, part.graph);
  std::vector<Tensor> made;
  {
    const Running running(*this);
    made = interpret_raw(part.graph, inputs);
  }
  for (size_t b = 0; b < outputs.size(); ++b) {
    Storage* const storage = group->buffers[b].storage;
    if (!outputs[b] || storage == nullptr || end.wanted[b]) continue;
    Mark& known = *find(*storage);
    known.learned = group->trace;
    known.learner = &end;
    known.learned_buffer = static_cast<BufferId>(b);
  }
  give(*group, part.outputs, made);
  let_go(group);
}

void Deferral::make_up_readers(Storage& storage) {
  for (const Mark* known = find(storage); known != nullptr && !known->readers.empty();
       known = find(storage))
    make_up(known->readers.front(), kNone);
}

// --- calls ---------------------------------------------------------------------------------------

DeferredCall::DeferredCall(const OpInfo& op, BoxedValues arguments)
    : deferral_(*deferral), op_(op), arguments_(std::move(arguments)) {
  deferral_.meet(*this);
}

DeferredCall::~DeferredCall() {
  if (running_) deferral_.running_ = false;
  if (recorded_ == nullptr) return;
  delete recorded_;
  // The op raises an error: what ran before it is a part.
  try {
    deferral_.close([this] { return std::string(op_.name) + " raises an error"; });
  } catch (const std::exception&) {
    deferral_.drop_open();
  }
}

void DeferredCall::finish(const BoxedValues& results) {
  if (std::exchange(running_, false)) deferral_.running_ = false;
  deferral_.finish(*this, results);
}

void end_part_before(const OpInfo& op) {
  deferral->end_part(std::string(op.name) + " is not put off");
}

void run_all_deferred() {
  Deferral& all = Deferral::of_thread();
  all.run_all();
  any_deferred = all.is_entered() || !all.is_idle();
}
namespace {
[[gnu::constructor]] void know_unseen_work() { unseen_work.run_deferred = run_deferred; }
}  // namespace

namespace {
// Storages may outlive the thread, and ask.
Holder::~Holder() {
  if (it->is_idle()) delete it;
}
}  // namespace

}  // namespace moonlet::program
