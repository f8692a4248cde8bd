// tensor/program/runner.cpp: binds the buffers of a plan to memory, and runs its steps.
#include "tensor/program/runner.h"

#include <algorithm>

#include "tensor/core/byte_count.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/arena.h"
#include "tensor/program/reclaim.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::program {

namespace {

using Kind = Allocation::Kind;

int64_t byte_offset(const Value& v) { return v.offset * static_cast<int64_t>(size_of(v.dtype)); }
int64_t byte_offset(const Tensor& t) {
  return t.offset() * static_cast<int64_t>(size_of(t.dtype()));
}

// What tensors lie on while no run gives them memory: 64 bytes, so that they have an address.
Storage* make_idle_storage(Device device) { return Storage::allocate(Arena::kAlignment, device); }

bool has_geometry(const Tensor& t, const Value& v) {
  return t.dtype() == v.dtype && t.sizes() == v.sizes && t.strides() == v.strides;
}

// A number among the arguments that is no operand.
bool scalar_of(const BoxedValue& value, Scalar& to) {
  if (const auto* scalar = std::get_if<Scalar>(&value))
    to = *scalar;
  else if (const auto* integer = std::get_if<int64_t>(&value))
    to = *integer;
  else if (const auto* number = std::get_if<double>(&value))
    to = *number;
  else if (const auto* truth = std::get_if<bool>(&value))
    to = *truth;
  else
    return false;
  return true;
}

}  // namespace

// Lets go of what belongs to one run, when it ends or throws.
class Runner::Unbind {
 public:
  explicit Unbind(Runner& runner) : runner_(runner) {}
  ~Unbind() {
    runner_.results_.clear();
    for (const BufferId b : runner_.loose_) {
      OnBuffer& on = runner_.on_[b];
      if (on.storage == nullptr) continue;
      if (!on.tensors.empty()) {
        runner_.bind(b, *on.idle, 0);
      } else {
        on.storage->release();
        on.storage = nullptr;
      }
    }
  }
  Unbind(const Unbind&) = delete;
  Unbind& operator=(const Unbind&) = delete;

 private:
  Runner& runner_;
};

Runner::Runner(std::shared_ptr<const Plan> plan, bool prepares)
    : plan_(std::move(plan)),
      tensors_(plan_->graph().values.size()),
      on_(plan_->graph().buffers.size()),
      pointwise_(plan_->steps().size()),
      calls_(plan_->steps().size()),
      loops_(plan_->steps().size()),
      strips_(plan_->steps().size()) {
  for (const Parameter& p : plan_->graph().parameters) parameters_.push_back(p.tensor);
  for (size_t b = 0; b < on_.size(); ++b) {
    const Kind kind = plan_->allocation(static_cast<BufferId>(b)).kind;
    if (kind == Kind::Output) made_.push_back(static_cast<BufferId>(b));
    if (kind != Kind::Arena && kind != Kind::Parameter && kind != Kind::None)
      loose_.push_back(static_cast<BufferId>(b));
  }
  for (size_t s = 0; s < plan_->steps().size(); ++s) {
    const Step& step = plan_->steps()[s];
    const int32_t source = step.node == kNone ? kNone : plan_->graph().nodes[step.node].numbers;
    if (source != kNone) numbered_.emplace_back(source, static_cast<int32_t>(s));
  }
  note_outputs();
  if (prepares) allow_prepared();
}

// Parameters that no run writes keep what kernels make of them.
void Runner::allow_prepared() {
  const Graph& graph = plan_->graph();
  const std::vector<BufferId>& written = plan_->written();
  for (const Parameter& p : graph.parameters) {
    const BufferId buffer = graph.values[p.value].buffer;
    if (std::find(written.begin(), written.end(), buffer) == written.end())
      prepared_operands_.allow(p.tensor.storage());
  }
}

void Runner::note_outputs() {
  const Graph& graph = plan_->graph();
  for (const ValueId id : graph.outputs) {
    using From = OutputFrom::Kind;
    OutputFrom from;
    if (plan_->allocation(graph.values[id].buffer).kind == Kind::Output) from.kind = From::Made;
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (input != graph.inputs.end())
      from = {From::Input, static_cast<int32_t>(input - graph.inputs.begin())};
    for (size_t p = 0; p < graph.parameters.size(); ++p)
      if (graph.parameters[p].value == id) from = {From::Parameter, static_cast<int32_t>(p)};
    outputs_from_.push_back(from);
  }
}

Runner::~Runner() {
  for (OnBuffer& on : on_) {
    if (on.storage) on.storage->release();
    if (on.idle) on.idle->release();
  }
}

const std::string& Runner::line() const {
  static const std::string none;
  const Graph& graph = plan_->graph();
  if (at_ == kNone || graph.nodes[at_].line == kNone) return none;
  return graph.lines[graph.nodes[at_].line];
}

void Runner::check_inputs(std::span<const Tensor> inputs) const {
  const Graph& graph = plan_->graph();
  check(inputs.size() == graph.inputs.size(), "program: expected ", graph.inputs.size(),
        " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    const Value& v = graph.values[graph.inputs[i]];
    check(t.defined(), "program: input ", i + 1, " is undefined");
    check(has_geometry(t, v), "program: expected input ", i + 1, " to be ", v.dtype, " of shape ",
          v.sizes, " and strides ", v.strides, ", got ", t.dtype(), " of shape ", t.sizes(),
          " and strides ", t.strides());
    const Device expected = graph.buffers[v.buffer].device;
    check(t.device() == expected, "program: expected input ", i + 1, " on ", expected, ", got ",
          t.device());
  }
}

// What the program writes is read through no other input.
void Runner::check_apart(std::span<const Tensor> inputs) const {
  const Graph& graph = plan_->graph();
  for (const BufferId written : plan_->written())
    for (size_t i = 0; i < inputs.size(); ++i)
      check(
          graph.values[graph.inputs[i]].buffer == written ||
              on_[written].storage != &inputs[i].storage(),
          "program: input ", i + 1,
          " shares memory with a tensor that the program changes, which it did not when captured");
}

// The buffer lies in that storage from now on. `given`: it takes over one reference.
void Runner::bind(BufferId buffer, Storage& storage, int64_t shift, bool given) {
  OnBuffer& on = on_[buffer];
  if (on.storage != &storage) {
    if (!given) storage.retain();
    if (on.storage) on.storage->release();
    on.storage = &storage;
  } else if (on.shift == shift &&
             (on.patches.empty() ||
              *on.patches[0].where == storage.data() + shift + on.patches[0].offset)) {
    return;  // as before: a parameter's
  }
  on.shift = shift;
  const Graph& graph = plan_->graph();
  for (const ValueId id : on.tensors) {
    TensorImpl* impl = tensors_[id].impl();
    const Value& v = graph.values[id];
    if (impl->storage != &storage) {
      storage.retain();
      impl->storage->release();
      impl->storage = &storage;
    }
    impl->offset = (byte_offset(v) + shift) / static_cast<int64_t>(size_of(v.dtype));
  }
  for (const Patch& patch : on.patches) *patch.where = storage.data() + shift + patch.offset;
}

void Runner::bind_arena() {
  if (plan_->arena_bytes() == 0) return;
  Storage* const arena =
      Storage::allocate(byte_count(plan_->arena_bytes(), "program"), plan_->device());
  for (size_t b = 0; b < on_.size(); ++b) {
    const Allocation& given = plan_->allocation(static_cast<BufferId>(b));
    if (given.kind == Kind::Arena) bind(static_cast<BufferId>(b), *arena, given.offset);
  }
  arena->release();
}

void Runner::bind_outputs(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Graph& graph = plan_->graph();
  const auto is_input = [&](const Tensor& t) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Tensor& each) { return &each.storage() == &t.storage(); });
  };
  for (size_t i = 0; i < outputs.size() && i < graph.outputs.size(); ++i) {
    const Value& v = graph.values[graph.outputs[i]];
    const Tensor& t = outputs[i];
    if (plan_->allocation(v.buffer).kind != Kind::Output || !t.defined() || !has_geometry(t, v))
      continue;
    const bool whole =
        byte_offset(v) == 0 && is_dense(v.sizes, v.strides) &&
        t.numel() * static_cast<int64_t>(size_of(v.dtype)) == graph.buffers[v.buffer].bytes;
    const bool taken =
        on_[v.buffer].storage != nullptr && on_[v.buffer].storage != on_[v.buffer].idle;
    if (whole && !taken && t.device() == graph.buffers[v.buffer].device && !is_input(t)) {
      check_writable("program", "an output", t);
      bind(v.buffer, t.storage(), byte_offset(t));
    }
  }
  for (const BufferId b : made_) {
    const OnBuffer& on = on_[b];
    if (on.storage != nullptr && on.storage != on.idle) continue;
    const Buffer& buffer = graph.buffers[b];
    Storage* const made = Storage::allocate(byte_count(buffer.bytes, "program"), buffer.device);
    bind(b, *made, 0, true);
  }
}

void Runner::bind_all(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Graph& graph = plan_->graph();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& t = parameters_[i];
    const Value& v = graph.values[graph.parameters[i].value];
    check(has_geometry(t, v), "program: the parameter ", graph.parameters[i].name, " has ",
          t.dtype(), " and shape ", t.sizes(), ", expected ", v.dtype, " and ", v.sizes);
    bind(v.buffer, t.storage(), byte_offset(t) - byte_offset(v));
  }
  check_inputs(inputs);
  std::vector<bool>& seen = seen_;
  seen.assign(on_.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = graph.values[graph.inputs[i]];
    const int64_t shift = byte_offset(inputs[i]) - byte_offset(v);
    if (plan_->allocation(v.buffer).kind != Kind::Input) continue;
    const Reach reach = plan_->reach(v.buffer);
    const auto bytes = static_cast<int64_t>(inputs[i].storage().bytes());
    check(reach.begin >= -shift && reach.end <= bytes - shift, "program: input ", i + 1,
          " has too little memory: the program looks at more than the input");
    if (seen[v.buffer])
      check(on_[v.buffer].storage == &inputs[i].storage() && on_[v.buffer].shift == shift,
            "program: input ", i + 1, " no longer shares memory with another input");
    else
      bind(v.buffer, inputs[i].storage(), shift);
    seen[v.buffer] = true;
  }
  check_apart(inputs);
  bind_outputs(inputs, outputs);
}

Tensor Runner::make_tensor(ValueId id) {
  const Value& v = plan_->graph().values[id];
  OnBuffer& on = on_[v.buffer];
  if (!on.idle) on.idle = make_idle_storage(plan_->graph().buffers[v.buffer].device);
  Tensor t = view_of(*on.idle, {0}, {1}, 0, v.dtype);
  TensorImpl* impl = t.impl();
  impl->sizes = v.sizes;
  impl->strides = v.strides;
  impl->numel = 1;
  for (const int64_t n : v.sizes) impl->numel *= n;
  impl->contiguous = is_contiguous(v.sizes, v.strides);
  return t;
}

// On the memory that the buffer lies in now.
Tensor Runner::placed(ValueId id) {
  Tensor t = make_tensor(id);
  const Value& v = plan_->graph().values[id];
  const OnBuffer& on = on_[v.buffer];
  if (!on.storage) return t;
  on.storage->retain();
  t.impl()->storage->release();
  t.impl()->storage = on.storage;
  t.impl()->offset = (byte_offset(v) + on.shift) / static_cast<int64_t>(size_of(v.dtype));
  return t;
}

// One that is placed anew at each run.
const Tensor& Runner::tensor(ValueId id) {
  Tensor& t = tensors_[id];
  if (t.defined()) return t;
  t = placed(id);
  on_[plan_->graph().values[id].buffer].tensors.push_back(id);
  return t;
}

BoxedValue Runner::boxed(const Argument& argument) {
  if (const auto* one = std::get_if<ValueRef>(&argument))
    return one->id == kNone ? BoxedValue() : BoxedValue(tensor(one->id));
  if (const auto* list = std::get_if<ValueRefs>(&argument)) {
    std::vector<Tensor> all;
    for (const ValueRef& each : *list) all.push_back(each.id == kNone ? Tensor() : tensor(each.id));
    return all;
  }
  return std::get<BoxedValue>(argument);
}

bool Runner::prepare_pointwise_call(int step) {
  const Graph& graph = plan_->graph();
  const Node& node = graph.nodes[plan_->steps()[step].node];
  auto call = std::make_unique<PointwiseCall>();
  // The layout is that of tensors as they lie now; later only addresses follow.
  std::vector<Operand> operands;
  std::vector<ValueId> read;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const auto* one = std::get_if<ValueRef>(&node.arguments[i]);
    if (one) {
      operands.emplace_back(placed(one->id));
      read.push_back(one->id);
      continue;
    }
    const auto* value = std::get_if<BoxedValue>(&node.arguments[i]);
    Scalar number;
    if (!value || !scalar_of(*value, number)) return false;
    if ((node.op->tensors >> i & 1u) != 0) {
      operands.emplace_back(number);
      read.push_back(kNone);
    } else {
      call->params.push_back(number);
    }
  }
  const ValueId made = std::get<ValueRef>(node.results[0]).id;
  std::vector<const Operand*> all;
  for (const Operand& each : operands) {
    all.push_back(&each);
    call->numbers.push_back(each.scalar());
  }
  PreparedPointwise& prepared = call->prepared;
  if (!prepare_pointwise(*node.op->pointwise, all, call->params, placed(made), prepared))
    return false;
  const auto patch = [&](char** where, ValueId id) {
    const Value& v = graph.values[id];
    on_[v.buffer].patches.push_back({where, byte_offset(v)});
  };
  if (prepared.kernel) {
    patch(&prepared.plan.out.data, made);
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i] != kNone)
        patch(&prepared.plan.in[i].data, read[i]);
      else
        prepared.plan.in[i].scalar = &call->numbers[i];
    }
  }
  if (graph.buffers[graph.values[made].buffer].kind != Buffer::Kind::Internal)
    call->changed = tensor(made);
  pointwise_[step] = std::move(call);
  return true;
}

void Runner::prepare_loop(int step) {
  const Group& group = plan_->loops()[plan_->steps()[step].loop].group;
  auto call = std::make_unique<LoopCall>();
  call->addresses.resize(group.slots.size());
  for (size_t i = 0; i < group.slots.size(); ++i)
    on_[group.slots[i]].patches.push_back({&call->addresses[i], 0});
  add_changes(group.nodes, call->changed);
  loops_[step] = std::move(call);
}

void Runner::add_changes(const std::vector<int32_t>& nodes, Changes& to) {
  const Graph& graph = plan_->graph();
  for (const int32_t i : nodes)
    each_written(graph.nodes[i], [&](ValueId id) {
      if (graph.buffers[graph.values[id].buffer].kind == Buffer::Kind::Internal) return;
      const PointwiseOp* const op = graph.nodes[i].op->pointwise;
      to.emplace_back(op ? op->inplace_name : graph.nodes[i].op->name, tensor(id));
    });
}

void Runner::prepare_strip(int step) {
  const Strip& strip = plan_->strips()[plan_->steps()[step].loop];
  strips_[step].reset(new OfStrip{
      {strip, plan_->graph(), [&](ValueId id) -> const Tensor& { return tensor(id); }}, {}, {}});
  for (const StripPart& part : strip.parts) add_changes(part.group.nodes, strips_[step]->changed);
}

void Runner::prepare_call(int step) {
  const Step& plan = plan_->steps()[step];
  const Node& node = plan_->graph().nodes[plan.node];
  auto call = std::make_unique<Call>();
  const bool plain = node.form == OpInfo::Form::Plain;
  const bool into = plain && (plan.kind == Step::Kind::Out || plan.kind == Step::Kind::Pointwise);
  call->form = into ? node.op->out : node.op->form(node.form);
  if (plan.kind == Step::Kind::Kernel) {
    call->kernel = node.op->kernel;
    for (const Result& r : node.results) call->results.push_back(tensor(std::get<ValueRef>(r).id));
  }
  if (plan.kind == Step::Kind::Copied) {
    const ValueId made = std::get<ValueRef>(node.results[0]).id;
    call->form = node.op->inplace;
    call->copy = find_raw_op("copy")->inplace;
    call->copied = {BoxedValue(tensor(made)), boxed(node.arguments[0])};
  }
  if (into)
    for (const Result& r : node.results)
      call->arguments.emplace_back(tensor(std::get<ValueRef>(r).id));
  for (const Argument& each : node.arguments) call->arguments.push_back(boxed(each));
  if (plan.kind == Step::Kind::Copied) call->arguments[0] = call->copied[0];
  if (node.numbers != kNone) give_numbers(*call, node.numbers);
  calls_[step] = std::move(call);
}

void Runner::give_numbers(Call& call, int32_t source) const {
  if (source >= static_cast<int32_t>(numbers_.size())) return;
  size_t next = 0;
  const std::vector<BoxedValue>& given = numbers_[source];
  for (BoxedValue& each : call.arguments)
    if (is_number(each) && next < given.size()) each = given[next++];
}

void Runner::set_numbers(int32_t source, std::span<const BoxedValue> numbers) {
  if (source >= static_cast<int32_t>(numbers_.size())) numbers_.resize(source + 1);
  numbers_[source].assign(numbers.begin(), numbers.end());
  for (const auto& [of, step] : numbered_)
    if (of == source && calls_[step]) give_numbers(*calls_[step], source);
}

void Runner::prepare() {
  for (OnBuffer& on : on_) on.patches.clear();  // of an attempt that threw
  for (int s = 0; s < static_cast<int>(plan_->steps().size()); ++s) {
    if (plan_->steps()[s].kind == Step::Kind::Loop) {
      prepare_loop(s);
      continue;
    }
    if (plan_->steps()[s].kind == Step::Kind::Strip) {
      prepare_strip(s);
      continue;
    }
    const bool done = plan_->steps()[s].kind == Step::Kind::Pointwise && prepare_pointwise_call(s);
    if (!done) prepare_call(s);
  }
  prepared_ = true;
}

void Runner::take_result(ValueId id, const Tensor& made) {
  const Value& v = plan_->graph().values[id];
  const char* const op = plan_->graph().nodes[at_].op->name;
  check(made.defined() && has_geometry(made, v), op,
        ": the result has another dtype or shape than when the program was captured");
  const int64_t shift = byte_offset(made) - byte_offset(v);
  if (plan_->allocation(v.buffer).kind == Kind::Node) return bind(v.buffer, made.storage(), shift);
  check(on_[v.buffer].storage == &made.storage() && on_[v.buffer].shift == shift, op,
        ": the result shares other memory than when the program was captured");
}

// Of ops that allocate their results.
void Runner::take_results(const Node& node) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (const auto* one = std::get_if<ValueRef>(&node.results[i])) {
      if (one->id != kNone) take_result(one->id, std::get<Tensor>(results_[i]));
      continue;
    }
    const auto& refs = std::get<ValueRefs>(node.results[i]);
    const auto& made = std::get<std::vector<Tensor>>(results_[i]);
    for (size_t k = 0; k < refs.size(); ++k)
      if (refs[k].id != kNone) take_result(refs[k].id, made[k]);
  }
}

// An error of a loop is of the node that it names.
int32_t Runner::blamed(const std::vector<int32_t>& nodes, const Error& e) const {
  const std::string_view what = e.what();
  for (const int32_t i : nodes)
    if (what.starts_with(std::string(plan_->graph().nodes[i].op->name) + ':')) return i;
  return at_;
}

void Runner::run_loop(const LoopStep& loop, LoopCall& call) {
  note_changes(call.changed);
  try {
    loop.executor->run(call.addresses.data());
  } catch (const Error& e) {
    at_ = blamed(loop.group.nodes, e);
    throw;
  }
}

void Runner::run_strip(const Strip& strip, OfStrip& own) {
  note_changes(own.changed);
  own.homes.clear();
  for (const BufferId b : own.call.buffers()) own.homes.push_back({on_[b].storage, on_[b].shift});
  try {
    own.call.run(own.homes, at_);
  } catch (const Error& e) {
    for (const StripPart& part : strip.parts)
      if (part.node() == at_) at_ = blamed(part.group.nodes, e);
    throw;
  }
}

void Runner::note_changes(const Changes& changes) {
  for (const auto& [op, changed] : changes) {
    check_writable(op, changed);
    mark_changed(changed, op);
  }
}

void Runner::run_step(int step) {
  const Step& plan = plan_->steps()[step];
  at_ = plan.node;
  stop_if_requested();
  if (LoopCall* const call = loops_[step].get()) return run_loop(plan_->loops()[plan.loop], *call);
  if (OfStrip* const own = strips_[step].get()) return run_strip(plan_->strips()[plan.loop], *own);
  if (PointwiseCall* const call = pointwise_[step].get()) {
    if (call->changed.defined()) {
      const char* const op = plan_->graph().nodes[plan.node].op->pointwise->inplace_name;
      check_writable(op, call->changed);
      mark_changed(call->changed, op);
    }
    if (call->prepared.kernel) call->prepared.kernel(call->prepared.plan);
    return;
  }
  Call& call = *calls_[step];
  if (call.kernel) return call.kernel(call.arguments, call.results);
  results_.clear();
  if (call.copy) call.copy(call.copied, results_);
  results_.clear();
  call.form(call.arguments, results_);
  const Node& node = plan_->graph().nodes[plan.node];
  if (plan.kind == Step::Kind::AsIs && node.form == OpInfo::Form::Plain) take_results(node);
}

Tensor Runner::output(size_t i, std::span<const Tensor> inputs) const {
  using From = OutputFrom::Kind;
  const Graph& graph = plan_->graph();
  const OutputFrom from = outputs_from_[i];
  if (from.kind == From::Input) return inputs[from.index];
  if (from.kind == From::Parameter) return parameters_[from.index];
  const Value& v = graph.values[graph.outputs[i]];
  const OnBuffer& on = on_[v.buffer];
  const int64_t offset = (byte_offset(v) + on.shift) / static_cast<int64_t>(size_of(v.dtype));
  if (from.kind == From::View)
    return view_of(*on.storage, v.sizes, v.strides, offset, v.dtype, "program");
  // The plan has made the memory for it: there is nothing to check.
  on.storage->retain();
  Tensor made = on_stand_in(on.storage, v.sizes, v.strides, v.dtype);
  made.impl()->offset = offset;
  return made;
}

void Runner::give_outputs(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  const Graph& graph = plan_->graph();
  outputs.resize(graph.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& out = outputs[i];
    if (!out.defined()) {
      out = output(i, inputs);
      continue;
    }
    const Value& v = graph.values[graph.outputs[i]];
    const OnBuffer& on = on_[v.buffer];
    const int64_t offset = (byte_offset(v) + on.shift) / static_cast<int64_t>(size_of(v.dtype));
    const bool given = has_geometry(out, v);
    if (given && &out.storage() == on.storage && out.offset() == offset) continue;
    Tensor made = output(i, inputs);
    if (!given) {
      out = std::move(made);
    } else {
      check_writable("program", "an output", out);
      mark_changed(out, "program");
      copy_plain(out, made, "program");
    }
  }
}

void Runner::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  at_ = kNone;
  const Unbind at_end(*this);
  with_memory([&] { bind_all(inputs, outputs); });
  if (!prepared_) {
    with_memory([&] {
      bind_arena();
      prepare();
    });
    // The layouts have addresses from now on.
    for (size_t b = 0; b < on_.size(); ++b)
      if (on_[b].storage)
        for (const Patch& patch : on_[b].patches)
          *patch.where = on_[b].storage->data() + on_[b].shift + patch.offset;
  }
  const cpu::PreparedScope scope(prepared_operands_.empty() ? nullptr : &prepared_operands_);
  for (int s = 0; s < static_cast<int>(plan_->steps().size()); ++s)
    with_memory([&] { run_step(s); });
  give_outputs(inputs, outputs);
}

}  // namespace moonlet::program
