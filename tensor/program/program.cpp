// tensor/program/program.cpp: programs, and runs of them in the memory of a thread.
#include "tensor/program/program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <set>

#include "tensor/core/dispatch.h"
#include "tensor/core/error.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/file/program_file.h"
#include "tensor/program/program_text.h"
#include "tensor/program/runner.h"
#include "tensor/program/same.h"
#include "tensor/program/shapes/check_graph.h"
#include "tensor/program/shapes/dynamic.h"
#include "tensor/program/unseen.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

using program::Plan;
using program::ProgramData;
using program::Runner;

// Plans of so many different sizes are kept.
constexpr size_t kMostPlans = 8;

struct Program::Shared {
  using PlanOf = std::shared_ptr<const Plan>;

  explicit Shared(ProgramData given) : data(std::move(given)) {
    find_state();
    describe_ends();
    if (data.dynamic.sizes.empty()) plan_for(data.dynamic.example);
  }

  void find_state();
  void describe_ends();
  bool is_state(size_t parameter) const {
    return std::find(state.begin(), state.end(), parameter) != state.end();
  }
  // The plan for such sizes. Threads wait for each other here.
  PlanOf plan_for(const std::vector<int64_t>& sizes) {
    const std::lock_guard lock(mutex);
    for (auto at = plans.begin(); at != plans.end(); ++at) {
      if (at->first != sizes) continue;
      plans.splice(plans.begin(), plans, at);
      return at->second;
    }
    program::Graph graph = data.graph;
    if (!data.dynamic.sizes.empty()) {
      graph = program::with_sizes(data, sizes);
      program::check_graph(graph, data.default_dtype);
    }
    plans.emplace_front(sizes, Plan::make(std::move(graph)));
    if (plans.size() > kMostPlans) plans.pop_back();
    return plans.front().second;
  }

  ProgramData data;
  std::vector<Description> inputs, outputs;
  std::vector<size_t> state;  // the parameters that runs write
  std::mutex mutex;           // of what follows, and of the parameters
  std::list<std::pair<std::vector<int64_t>, PlanOf>> plans;  // by sizes, the last used first
  // Goes up when a parameter is replaced: plans from before hold the old one.
  std::atomic<uint64_t> generation{0};
};

// A name for each, and memory that nobody else writes.
void Program::Shared::find_state() {
  std::set<std::string> names;
  for (const program::Parameter& p : data.graph.parameters) names.insert(p.name);
  for (size_t i = 0; i < data.graph.parameters.size(); ++i) {
    program::Parameter& p = data.graph.parameters[i];
    if (!program::is_written(data.graph, data.graph.values[p.value].buffer)) continue;
    for (int k = 1; p.name.empty(); ++k)
      if (names.insert(text("state.", k)).second) p.name = text("state.", k);
    p.tensor = program::copy_with_storage(p.tensor);
    state.push_back(i);
  }
}

void Program::Shared::describe_ends() {
  const program::Graph& graph = data.graph;
  const auto add = [&](std::vector<Description>& to, program::ValueId id, const std::string& name) {
    const program::Value& value = graph.values[id];
    const program::Buffer& buffer = graph.buffers[value.buffer];
    to.push_back(
        {name, value.dtype, value.sizes, buffer.device,
         buffer.kind == program::Buffer::Kind::Input && program::is_written(graph, value.buffer)});
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    add(inputs, graph.inputs[i], data.input_names[i]);
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    add(outputs, graph.outputs[i], data.output_names[i]);
  for (const program::DynamicSize& each : data.dynamic.sizes)
    inputs[each.input].sizes[each.dim] = -1;
  if (data.dynamic.sizes.empty()) return;
  // Which sizes of outputs follow those of the inputs is seen at others, which have the divisors
  // that the program may need.
  std::vector<int64_t> other = data.dynamic.example;
  for (int64_t& size : other) size = std::max<int64_t>(2 * size, 2);
  program::Graph larger;
  try {
    larger = program::with_sizes(data, other);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return;  // the program does not take these; its runs say what they take
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Dims& there = larger.values[graph.outputs[i]].sizes;
    for (int d = 0; d < outputs[i].sizes.size(); ++d)
      if (there[d] != outputs[i].sizes[d]) outputs[i].sizes[d] = -1;
  }
}

// --- the program ---------------------------------------------------------------------------------

Program::Program(ProgramData data) {
  program::check_graph(data.graph, data.default_dtype);
  program::check_dynamic(data);
  shared_ = std::make_shared<Shared>(std::move(data));
}

Program Program::load(const std::string& path, int64_t max_bytes) {
  constexpr const char* kOp = "load";
  ProgramData data = program::load_program(path, max_bytes, kOp);
  try {
    return Program(std::make_shared<Shared>(std::move(data)));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(kOp, ": '", path, "': ", e.what());
  }
}

void Program::save(const std::string& path, const std::string& weights) const {
  const std::lock_guard lock(shared_->mutex);
  program::save_program(path, shared_->data, weights, "save");
}

const std::vector<Program::Description>& Program::inputs() const { return shared_->inputs; }
const std::vector<Program::Description>& Program::outputs() const { return shared_->outputs; }
const ProgramData& Program::data() const { return shared_->data; }

std::vector<std::string> Program::ops() const { return program::ops_of(shared_->data.graph); }
std::string Program::to_dot() const { return program::dot_of(shared_->data); }
std::string Program::to_string() const { return program::to_string(shared_->data.graph); }
std::string Program::describe() const {
  const auto plan = shared_->plan_for(shared_->data.dynamic.example);
  return program::description_of(*this, *plan);
}

std::vector<Program::NamedTensor> Program::parameters() const {
  const std::lock_guard lock(shared_->mutex);
  const std::vector<program::Parameter>& all = shared_->data.graph.parameters;
  std::vector<NamedTensor> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].name.empty() && !shared_->is_state(i)) out.emplace_back(all[i].name, all[i].tensor);
  return out;
}

std::vector<Program::NamedTensor> Program::initial_state() const {
  std::vector<NamedTensor> out;
  for (const size_t i : shared_->state) {
    const program::Parameter& p = shared_->data.graph.parameters[i];
    out.emplace_back(p.name, program::copy_with_storage(p.tensor));
  }
  return out;
}

void Program::set_parameter(const std::string& name, const Tensor& tensor) {
  constexpr const char* kOp = "set_parameter";
  const std::lock_guard lock(shared_->mutex);
  program::Graph& graph = shared_->data.graph;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    program::Parameter& p = graph.parameters[i];
    if (name.empty() || p.name != name) continue;
    check(!shared_->is_state(i), kOp, ": '", name,
          "' is state, which runs change; copy into the tensor of that name in the state");
    check(tensor.defined(), kOp, ": the tensor for '", name, "' is undefined");
    const Tensor& old = p.tensor;
    check(tensor.dtype() == old.dtype() && tensor.sizes() == old.sizes(), kOp, ": expected '", name,
          "' to be ", old.dtype(), " of shape ", old.sizes(), ", got ", tensor.dtype(),
          " of shape ", tensor.sizes());
    check(tensor.device() == old.device(), kOp, ": expected '", name, "' on ", old.device(),
          ", got ", tensor.device());
    // At the same position in as much memory, since views may be of all of it.
    check(tensor.strides() == old.strides() && tensor.offset() == old.offset() &&
              tensor.storage().bytes() == old.storage().bytes(),
          kOp, ": expected '", name, "' with strides ", old.strides(), " at ", old.offset(), " in ",
          old.storage().bytes(), " bytes, got ", tensor.strides(), " at ", tensor.offset(), " in ",
          tensor.storage().bytes());
    // The leaf itself where it gets gradients.
    p.tensor = shared_->data.gradients.empty() ? shallow_copy(tensor) : tensor;
    shared_->plans.clear();
    shared_->generation.fetch_add(1, std::memory_order_release);
    return;
  }
  fail(kOp, ": the program has no parameter '", name, "'");
}

// --- runs ----------------------------------------------------------------------------------------

namespace {

// Ops of a program are none of the modes', and compute with integers as where it was captured.
class RunScope {
 public:
  explicit RunScope(DType default_dtype) : before_(execution) {
    execution.modes = nullptr;
    execution.grad_mode = false;
    execution.default_dtype = default_dtype;
    execution.vmap = 0;
    execution.capture = nullptr;
  }
  ~RunScope() {
    execution.modes = before_.modes;
    execution.grad_mode = before_.grad_mode;
    execution.default_dtype = before_.default_dtype;
    execution.vmap = before_.vmap;
    execution.capture = before_.capture;
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  const ExecutionState before_;
};

// Holds no tensor of a caller's beyond a run.
struct LetGo {
  std::vector<Tensor>& tensors;
  ~LetGo() {
    for (Tensor& each : tensors) each = Tensor();
  }
};

std::string name_of(const std::vector<Program::Description>& list, size_t i, const char* what) {
  const std::string& name = list[i].name;
  return name.empty() ? text(what, " ", i + 1) : text(what, " '", name, "'");
}

void check_end(const std::vector<Program::Description>& list, size_t i, const char* what,
               DType dtype, const Dims& sizes) {
  const Program::Description& wanted = list[i];
  bool fits = dtype == wanted.dtype && sizes.size() == wanted.sizes.size();
  for (int d = 0; fits && d < sizes.size(); ++d)
    fits = wanted.sizes[d] < 0 || wanted.sizes[d] == sizes[d];
  if (!fits) [[unlikely]]
    fail("program: expected ", name_of(list, i, what), " to be ", wanted.dtype, " of shape ",
         wanted.sizes, ", got ", dtype, " of shape ", sizes);
}

void check_count(const char* what, size_t wanted, size_t got) {
  check(wanted == got, "program: expected ", wanted, " ", what, ", got ", got);
}

}  // namespace

struct Program::Context::State {
  explicit State(std::shared_ptr<Shared> from)
      : shared(std::move(from)),
        copies(shared->inputs.size()),
        own_inputs(shared->inputs.size()),
        own_outputs(shared->outputs.size()) {
    for (const size_t i : shared->state)
      own_state.push_back(program::copy_with_storage(shared->data.graph.parameters[i].tensor));
  }

  Runner& runner_for(std::span<const Tensor> inputs);
  void take_inputs(std::span<const Tensor> inputs);
  // Between the host's memory and tensors of its own.
  void read(size_t i, const Input& from);
  void write(size_t i, const Output& to);
  void write_back(size_t i, const Input& to);

  const std::shared_ptr<Shared> shared;
  uint64_t generation = 0;
  std::list<std::pair<std::vector<int64_t>, Runner>> runners;  // by sizes, the last used first
  Runner* ran = nullptr;
  std::vector<Dims> input_sizes;
  std::vector<int64_t> sizes;
  std::vector<Tensor> own_state;                // by Shared::state
  std::vector<Tensor> copies;                   // of inputs that lie in memory in another way
  std::vector<Tensor> given;                    // what the runner gets
  std::vector<Tensor> own_inputs, own_outputs;  // of runs on the host's memory
  std::vector<Tensor> results;
};

// The runner of these sizes. Without dynamic sizes there is one.
Runner& Program::Context::State::runner_for(std::span<const Tensor> inputs) {
  const uint64_t now = shared->generation.load(std::memory_order_acquire);
  if (now != generation) runners.clear();
  generation = now;
  if (!shared->data.dynamic.sizes.empty()) {
    input_sizes.clear();
    for (const Tensor& each : inputs) input_sizes.push_back(each.sizes());
    sizes = program::sizes_of(shared->data, input_sizes);
  }
  for (auto at = runners.begin(); at != runners.end(); ++at) {
    if (at->first != sizes) continue;
    runners.splice(runners.begin(), runners, at);
    return runners.front().second;
  }
  runners.emplace_front(std::piecewise_construct, std::forward_as_tuple(sizes),
                        std::forward_as_tuple(shared->plan_for(sizes), true));
  for (size_t i = 0; i < own_state.size(); ++i)
    runners.front().second.set_parameter(shared->state[i], own_state[i]);
  if (runners.size() > kMostPlans) runners.pop_back();
  return runners.front().second;
}

void Program::Context::State::take_inputs(std::span<const Tensor> inputs) {
  const program::Graph& graph = ran->plan().graph();
  given.assign(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const program::Value& value = graph.values[graph.inputs[i]];
    if (inputs[i].strides() == value.strides) continue;
    if (shared->inputs[i].changed)
      fail("program: expected ", name_of(shared->inputs, i, "input"),
           ", which the program changes, to have strides ", value.strides, ", got ",
           inputs[i].strides());
    Tensor& copy = copies[i];
    if (!copy.defined() || !(copy.sizes() == value.sizes) || !(copy.strides() == value.strides))
      copy = empty_strided(value.sizes, value.strides, options_of(inputs[i]), "program");
    copy_plain(copy, inputs[i], "program");
    given[i] = copy;
  }
}

void Program::Context::State::read(size_t i, const Input& from) {
  check_end(shared->inputs, i, "input", from.dtype, from.sizes);
  const Device device = shared->inputs[i].device;
  if (!device.is_cpu())
    fail("program: ", name_of(shared->inputs, i, "input"), " is on ", device,
         ", and not in the host's memory; give tensors");
  Tensor& own = own_inputs[i];
  if (!own.defined() || !(own.sizes() == from.sizes))
    own = empty_plain(from.sizes, {from.dtype, {}}, "program");
  const size_t bytes = static_cast<size_t>(own.numel()) * size_of(from.dtype);
  if (bytes == 0) return;
  if (from.data == nullptr)
    fail("program: ", name_of(shared->inputs, i, "input"), " has no memory");
  if (shared->inputs[i].changed && from.changed == nullptr)
    fail("program: ", name_of(shared->inputs, i, "input"),
         " is changed by the program, and no memory is given for what it becomes (Input::changed)");
  std::memcpy(own.raw(), from.data, bytes);
}

void Program::Context::State::write_back(size_t i, const Input& to) {
  const Tensor& own = own_inputs[i];
  const size_t bytes = static_cast<size_t>(own.numel()) * size_of(to.dtype);
  if (shared->inputs[i].changed && bytes > 0) std::memcpy(to.changed, own.raw(), bytes);
}

void Program::Context::State::write(size_t i, const Output& to) {
  const Tensor& made = results[i];
  if (!(made.sizes() == to.sizes))
    fail("program: ", name_of(shared->outputs, i, "output"), " has shape ", made.sizes(),
         ", got memory for ", to.sizes);
  const size_t bytes = static_cast<size_t>(made.numel()) * size_of(to.dtype);
  if (bytes == 0) return;
  if (to.data == nullptr)
    fail("program: ", name_of(shared->outputs, i, "output"), " has no memory");
  const bool rows = made.is_contiguous() && made.device().is_cpu();
  Tensor& own = own_outputs[i];
  if (!rows) {
    if (!own.defined() || !(own.sizes() == to.sizes))
      own = empty_plain(to.sizes, {to.dtype, {}}, "program");
    copy_plain(own, made, "program");
  }
  std::memcpy(to.data, rows ? made.raw() : own.raw(), bytes);
}

Program::Context::Context(const Program& program)
    : state_(std::make_unique<State>(program.shared_)) {}
Program::Context::~Context() = default;
Program::Context::Context(Context&&) noexcept = default;
Program::Context& Program::Context::operator=(Context&&) noexcept = default;

const std::string& Program::Context::line() const {
  static const std::string none;
  return state_->ran == nullptr ? none : state_->ran->line();
}

std::vector<Program::NamedTensor> Program::Context::state() const {
  std::vector<NamedTensor> out;
  const Shared& shared = *state_->shared;
  for (size_t i = 0; i < shared.state.size(); ++i)
    out.emplace_back(shared.data.graph.parameters[shared.state[i]].name, state_->own_state[i]);
  return out;
}

void Program::Context::reset() {
  const Shared& shared = *state_->shared;
  for (size_t i = 0; i < shared.state.size(); ++i) {
    Tensor& own = state_->own_state[i];
    mark_changed(own, "reset");
    program::copy_storage(own, shared.data.graph.parameters[shared.state[i]].tensor);
  }
}

void Program::Context::save(const std::string& path, const std::string& weights) const {
  Shared& shared = *state_->shared;
  const std::lock_guard lock(shared.mutex);
  ProgramData data = shared.data;
  for (size_t i = 0; i < shared.state.size(); ++i)
    data.graph.parameters[shared.state[i]].tensor = state_->own_state[i];
  program::save_program(path, data, weights, "save");
}

void Program::Context::check(std::span<const Tensor> inputs) const {
  const std::vector<Description>& wanted = state_->shared->inputs;
  check_count("inputs", wanted.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) fail("program: ", name_of(wanted, i, "input"), " is undefined");
    check_end(wanted, i, "input", inputs[i].dtype(), inputs[i].sizes());
    if (inputs[i].device() != wanted[i].device)
      fail("program: expected ", name_of(wanted, i, "input"), " on ", wanted[i].device, ", got ",
           inputs[i].device());
  }
}

void Program::Context::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  check(inputs);
  State& state = *state_;
  const program::UnseenWork& known = program::unseen_work;
  if (execution.capture != nullptr) known.stop_capture("a program", "runs in it");
  if (known.run_deferred != nullptr) known.run_deferred();
  const RunScope scope(state.shared->data.default_dtype);
  state.ran = nullptr;
  state.ran = &state.runner_for(inputs);
  state.take_inputs(inputs);
  const LetGo at_end{state.given};
  state.ran->run(state.given, outputs);
}

void Program::Context::run(std::span<const Input> inputs, std::span<const Output> outputs) {
  State& state = *state_;
  const Shared& shared = *state.shared;
  check_count("inputs", shared.inputs.size(), inputs.size());
  check_count("outputs", shared.outputs.size(), outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) state.read(i, inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    check_end(shared.outputs, i, "output", outputs[i].dtype, outputs[i].sizes);
  run(state.own_inputs, state.results);
  for (size_t i = 0; i < outputs.size(); ++i) state.write(i, outputs[i]);
  for (size_t i = 0; i < inputs.size(); ++i) state.write_back(i, inputs[i]);
}

}  // namespace moonlet
