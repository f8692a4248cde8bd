// tensor/program/plan.cpp: chooses how each node runs, and where buffers lie, by when they are
// used.
#include "tensor/program/plan.h"

#include <omp.h>

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/program/arena.h"
#include "tensor/program/fusion/block_sizes.h"
#include "tensor/program/fusion/cluster.h"
#include "tensor/program/passes/passes.h"

namespace moonlet::program {

namespace {

using Kind = Allocation::Kind;

// When a buffer is made and used last, as indices of steps.
struct Life {
  int begin = kNone, end = kNone;
  void use(int step) {
    if (begin == kNone) begin = step;
    end = step;
  }
};

bool has_one_result(const Node& node) {
  return node.results.size() == 1 && std::holds_alternative<ValueRef>(node.results[0]) &&
         std::get<ValueRef>(node.results[0]).id != kNone;
}

// Whether all results are tensors that the node makes, on buffers of their own.
bool makes_all_results(const Graph& graph, const Node& node) {
  for (const Result& r : node.results) {
    const auto* one = std::get_if<ValueRef>(&r);
    if (!one || one->id == kNone) return false;
    const BufferId made = graph.values[one->id].buffer;
    bool shared = graph.buffers[made].kind != Buffer::Kind::Internal;
    each_argument(node, [&](ValueId a) { shared = shared || graph.values[a].buffer == made; });
    if (shared) return false;
  }
  return !node.results.empty();
}

Step::Kind kind_of(const Graph& graph, const Node& node) {
  using Form = OpInfo::Form;
  const bool computes =
      node.form == Form::Plain ? makes_all_results(graph, node) : node.form == Form::InPlace;
  if (node.op->pointwise != nullptr && node.numbers == kNone && computes && has_one_result(node))
    return Step::Kind::Pointwise;
  if (node.form != Form::Plain || !computes) return Step::Kind::AsIs;
  if (node.op->kernel != nullptr) return Step::Kind::Kernel;
  if (node.op->out != nullptr) return Step::Kind::Out;
  const bool copied = node.op->kind == OpKind::Update && node.op->inplace != nullptr &&
                      has_one_result(node) && std::holds_alternative<ValueRef>(node.arguments[0]);
  return copied ? Step::Kind::Copied : Step::Kind::AsIs;
}

bool covers(const Graph& graph, ValueId id) {
  const Value& v = graph.values[id];
  int64_t numel = 1;
  for (const int64_t n : v.sizes) numel *= n;
  return v.offset == 0 && is_dense(v.sizes, v.strides) &&
         numel * static_cast<int64_t>(size_of(v.dtype)) == graph.buffers[v.buffer].bytes;
}

bool lie_alike(const Graph& graph, ValueId a, ValueId b) {
  const Value &x = graph.values[a], &y = graph.values[b];
  return x.sizes == y.sizes && x.strides == y.strides && size_of(x.dtype) == size_of(y.dtype) &&
         covers(graph, a) && covers(graph, b);
}

// The buffer that the result of a step may take over: a pointwise kernel may write where it reads,
// element by element. It ends here, and is read as the result is written.
BufferId reusable(const Graph& graph, const Step& step, const std::vector<Life>& lives, int at) {
  const Node& node = graph.nodes[step.node];
  if (step.kind != Step::Kind::Pointwise || node.form != OpInfo::Form::Plain) return kNone;
  const ValueId made = std::get<ValueRef>(node.results[0]).id;
  const auto fits = [&](BufferId b) {
    bool alike = true;
    each_argument(node, [&](ValueId id) {
      alike = alike && (graph.values[id].buffer != b || lie_alike(graph, id, made));
    });
    return alike;
  };
  BufferId found = kNone;
  each_argument(node, [&](ValueId id) {
    const BufferId b = graph.values[id].buffer;
    if (found == kNone && lives[b].end == at && lives[b].begin != at && fits(b)) found = b;
  });
  return found;
}

// For as many threads as share the rows of one strip.
int64_t bytes_of_strips() {
  return thresholds::fusion::kStripBytes *
         std::min(omp_get_max_threads(), thresholds::fusion::kStripThreads);
}

}  // namespace

std::shared_ptr<const Plan> Plan::make(Graph graph, const PlanOptions& options) {
  std::shared_ptr<Plan> plan(new Plan);
  plan->graph_ = std::move(graph);
  if (options.optimize) run_passes(plan->graph_);
  plan->choose_steps(options);
  plan->allocate_buffers();
  plan->find_reaches();
  return plan;
}

void Plan::find_reaches() {
  reaches_.resize(graph_.buffers.size());
  std::vector<bool> seen(graph_.buffers.size());
  for (const Value& v : graph_.values) {
    int64_t last = v.offset;
    bool empty = false;
    for (int d = 0; d < v.sizes.size(); ++d) {
      empty = empty || v.sizes[d] == 0;
      last += (v.sizes[d] - 1) * v.strides[d];
    }
    if (empty) continue;
    const auto size = static_cast<int64_t>(size_of(v.dtype));
    Reach& reach = reaches_[v.buffer];
    reach.begin = seen[v.buffer] ? std::min(reach.begin, v.offset * size) : v.offset * size;
    reach.end = std::max(reach.end, (last + 1) * size);
    seen[v.buffer] = true;
  }
}

void Plan::choose_steps(const PlanOptions& options) {
  bool fuse = options.optimize, on_host = true;
  for (const Buffer& buffer : graph_.buffers) {
    fuse = fuse && has_executor(buffer.device.type);
    on_host = on_host && buffer.device.is_cpu();
  }
  if (fuse) {
    const GraphUses uses(graph_);
    const int64_t bytes = options.strip_bytes > 0 ? options.strip_bytes : bytes_of_strips();
    std::vector<Group> groups = group(uses);
    for (size_t i = 0; i < groups.size(); ++i) {
      Strip strip = on_host ? find_strip(graph_, uses, groups, i, bytes) : Strip();
      if (strip.parts.empty()) {
        add_step(std::move(groups[i]));
        continue;
      }
      i += strip.parts.size() - 1;
      add_strip(std::move(strip));
    }
  } else {
    for (int32_t i = 0; i < static_cast<int32_t>(graph_.nodes.size()); ++i)
      if (!is_view(graph_.nodes[i])) add_step({{i}, std::nullopt, {}});
  }
}

void Plan::note_written(int32_t i) {
  const Node& node = graph_.nodes[i];
  check(node.op->form(node.form) != nullptr, node.op->name, ": a program has no such form of it");
  each_written(node, [&](ValueId id) {
    const BufferId b = graph_.values[id].buffer;
    const bool internal = graph_.buffers[b].kind == Buffer::Kind::Internal;
    if (!internal && std::find(written_.begin(), written_.end(), b) == written_.end())
      written_.push_back(b);
  });
}

void Plan::add_strip(Strip strip) {
  for (const StripPart& part : strip.parts)
    for (const int32_t node : part.group.nodes) note_written(node);
  steps_.push_back(
      {Step::Kind::Strip, strip.parts.front().node(), static_cast<int32_t>(strips_.size())});
  strips_.push_back(std::move(strip));
}

void Plan::add_step(Group group) {
  const int32_t first = group.nodes.front();
  for (const int32_t node : group.nodes) note_written(node);
  auto executor = group.loop ? make_executor(*group.loop) : nullptr;
  if (!executor) {
    for (const int32_t i : group.nodes) steps_.push_back({kind_of(graph_, graph_.nodes[i]), i});
    return;
  }
  steps_.push_back({Step::Kind::Loop, first, static_cast<int32_t>(loops_.size())});
  loops_.push_back({std::move(group), std::move(executor)});
}

template <class F>
void Plan::each_buffer(const Step& step, F&& f) const {
  if (step.kind == Step::Kind::Loop) {
    for (const BufferId b : loops_[step.loop].group.slots) f(b);
    return;
  }
  if (step.kind == Step::Kind::Strip) return strips_[step.loop].each_buffer(graph_, f);
  const Node& node = graph_.nodes[step.node];
  each_argument(node, [&](ValueId id) { f(graph_.values[id].buffer); });
  each_result(node, [&](ValueId id) { f(graph_.values[id].buffer); });
}

void Plan::allocate_buffers() {
  const size_t count = graph_.buffers.size();
  allocations_.resize(count);
  std::vector<Life> lives(count);
  std::vector<bool> escapes(count);
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    each_buffer(steps_[s], [&](BufferId b) { lives[b].use(s); });
    const Node& node = graph_.nodes[steps_[s].node];
    if (steps_[s].kind != Step::Kind::AsIs || node.form != OpInfo::Form::Plain) continue;
    each_result(node, [&](ValueId id) {
      Allocation& given = allocations_[graph_.values[id].buffer];
      if (graph_.buffers[graph_.values[id].buffer].kind == Buffer::Kind::Internal &&
          given.kind == Kind::None && lives[graph_.values[id].buffer].begin == s)
        given.kind = Kind::Node;
    });
  }
  for (const ValueId id : graph_.outputs) escapes[graph_.values[id].buffer] = true;

  std::vector<std::vector<BufferId>> begin_at(steps_.size()), end_at(steps_.size());
  for (size_t b = 0; b < count; ++b) {
    Allocation& given = allocations_[b];
    const Buffer& buffer = graph_.buffers[b];
    if (buffer.kind == Buffer::Kind::Input) given.kind = Kind::Input;
    if (buffer.kind == Buffer::Kind::Parameter) given.kind = Kind::Parameter;
    if (buffer.kind != Buffer::Kind::Internal || given.kind == Kind::Node) continue;
    device_ = buffer.device;
    if (escapes[b]) given.kind = Kind::Output;
    if (escapes[b] || lives[b].begin == kNone) continue;
    given.kind = Kind::Arena;
    begin_at[lives[b].begin].push_back(static_cast<BufferId>(b));
    end_at[lives[b].end].push_back(static_cast<BufferId>(b));
  }

  std::vector<int64_t> bytes(count);
  for (size_t b = 0; b < count; ++b) bytes[b] = graph_.buffers[b].bytes;
  for (const Strip& strip : strips_)
    for (const Strip::Local& local : strip.local) bytes[local.buffer] = local.bytes;
  // What an op writes in place of what it reads is one block with that.
  std::vector<ArenaBlock> blocks;
  std::vector<size_t> block_of(count);
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    auto& ended = end_at[s];
    for (const BufferId made : begin_at[s]) {
      const BufferId taken = reusable(graph_, steps_[s], lives, s);
      const auto ends = std::find(ended.begin(), ended.end(), taken);
      if (ends == ended.end()) {
        block_of[made] = blocks.size();
        blocks.push_back({bytes[made], s, lives[made].end});
      } else {
        ArenaBlock& block = blocks[block_of[made] = block_of[taken]];
        block.last = lives[made].end;
        block.bytes = std::max(block.bytes, bytes[made]);
        ended.erase(ends);
      }
    }
  }
  arena_bytes_ = place(blocks);
  for (size_t b = 0; b < count; ++b)
    if (allocations_[b].kind == Kind::Arena) allocations_[b].offset = blocks[block_of[b]].offset;
}

}  // namespace moonlet::program
