// tensor/program/fusion/loop_builder.cpp: from nodes to a loop: what one node gives the next
// becomes a value of the loop, and what is used elsewhere is stored.
#include "tensor/program/fusion/loop_builder.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/geometry.h"

namespace moonlet::program {

namespace {

class Builder {
 public:
  Builder(const GraphUses& uses, const std::vector<int32_t>& nodes, const Extent& extent)
      : uses_(uses), nodes_(nodes), extent_(extent) {}

  void build() {
    for (const int32_t node : nodes_) add(*uses_.loop_nodes[node]);
    add_stores();
    drop_dead();
  }
  size_t operands() const { return loads_.size() + stores_.size(); }
  Loop take(std::vector<BufferId>& slots);

 private:
  using Source = Loop::Source;
  // What is in some elements: read from memory, or computed since.
  struct Content {
    Elements elements;
    Source source;
    bool is_written;
  };
  struct Store {
    int op;
    Elements elements;
  };

  Elements refined(const LoopNode& node, Elements elements) const {
    refine(node.extent, extent_, elements.strides);
    return elements;
  }
  Content* find(const Elements& elements) {
    for (Content& each : contents_)
      if (same_elements(each.elements, elements, extent_.ndim)) return &each;
    return nullptr;
  }
  Source read(const Elements& elements);
  Source number(const Scalar& value);
  void add(const LoopNode& node);
  Source add_copy(Source source, DType dtype);
  bool is_seen(BufferId buffer) const;
  void add_stores();
  void drop_dead();
  int32_t slot(BufferId buffer, std::vector<BufferId>& slots) const;

  const GraphUses& uses_;
  const std::vector<int32_t>& nodes_;
  const Extent& extent_;
  Loop loop_;
  std::vector<Elements> loads_;
  std::vector<Content> contents_;
  std::vector<Store> stores_;
};

Loop::Source Builder::read(const Elements& elements) {
  if (const Content* known = find(elements)) return known->source;
  const Source source = {Source::Load, static_cast<int16_t>(loads_.size())};
  loads_.push_back(elements);
  contents_.push_back({elements, source, false});
  return source;
}

// Equal numbers of another kind, or zeros of another sign, are other ones.
Loop::Source Builder::number(const Scalar& value) {
  const auto same = [&](const Scalar& each) {
    const complex128 a = each.to_complex(), b = value.to_complex();
    return each.kind() == value.kind() && each.to_int() == value.to_int() &&
           std::memcmp(&a, &b, sizeof a) == 0;
  };
  const auto at = std::find_if(loop_.numbers.begin(), loop_.numbers.end(), same);
  const auto index = static_cast<int16_t>(at - loop_.numbers.begin());
  if (at == loop_.numbers.end()) loop_.numbers.push_back(value);
  return {Source::Number, index};
}

Loop::Source Builder::add_copy(Source source, DType dtype) {
  Loop::Op copy;
  copy.inputs = 1;
  copy.in[0] = source;
  copy.compute = copy.dtype = dtype;
  loop_.ops.push_back(copy);
  return {Source::Op, static_cast<int16_t>(loop_.ops.size() - 1)};
}

void Builder::add(const LoopNode& node) {
  Loop::Op op;
  op.op = node.op;
  op.inputs = node.inputs;
  for (int i = 0; i < node.inputs; ++i)
    op.in[i] =
        node.in[i].is_number ? number(node.in[i].number) : read(refined(node, node.in[i].elements));
  op.first_param = static_cast<int>(loop_.params.size());
  op.param_count = static_cast<int>(node.params.size());
  loop_.params.insert(loop_.params.end(), node.params.begin(), node.params.end());
  op.compute = node.compute;
  op.dtype = node.out.dtype;
  const Elements out = refined(node, node.out);
  Source source = {Source::Op, static_cast<int16_t>(loop_.ops.size())};
  // A copy that changes nothing is its source.
  const bool is_same =
      !op.op && op.in[0].kind != Source::Number &&
      (op.in[0].kind == Source::Load ? loads_[op.in[0].index].dtype
                                     : loop_.ops[op.in[0].index].dtype) == op.dtype;
  if (is_same)
    source = op.in[0];
  else
    loop_.ops.push_back(op);
  if (Content* known = find(out)) {
    known->source = source;
    known->is_written = true;
  } else {
    contents_.push_back({out, source, true});
  }
}

// Whether something looks at the buffer after the loop.
bool Builder::is_seen(BufferId buffer) const {
  if (uses_.stays[buffer]) return true;
  int inside = 0;
  for (const int32_t node : nodes_) {
    const LoopNode& each = *uses_.loop_nodes[node];
    bool uses = each.out.buffer == buffer;
    for (int i = 0; i < each.inputs; ++i)
      uses = uses || (!each.in[i].is_number && each.in[i].elements.buffer == buffer);
    inside += uses ? 1 : 0;
  }
  return inside < uses_.users[buffer];
}

void Builder::add_stores() {
  for (const Content& each : contents_) {
    if (!each.is_written || !is_seen(each.elements.buffer)) continue;
    Source source = each.source;
    if (source.kind == Source::Load) {
      if (same_elements(loads_[source.index], each.elements, extent_.ndim)) continue;
      source = add_copy(source, each.elements.dtype);
    }
    stores_.push_back({source.index, each.elements});
  }
}

// Drops ops and loads that no store needs.
void Builder::drop_dead() {
  std::vector<int> ops(loop_.ops.size(), -1), loads(loads_.size(), -1);
  for (const Store& each : stores_) ops[each.op] = 0;
  for (int i = static_cast<int>(ops.size()) - 1; i >= 0; --i) {
    if (ops[i] < 0) continue;
    for (int k = 0; k < loop_.ops[i].inputs; ++k) {
      const Source s = loop_.ops[i].in[k];
      if (s.kind == Source::Op) ops[s.index] = 0;
      if (s.kind == Source::Load) loads[s.index] = 0;
    }
  }
  const auto keep = [](auto& list, std::vector<int>& indices) {
    int count = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0) continue;
      list[count] = list[i];
      indices[i] = count++;
    }
    list.resize(static_cast<size_t>(count));
  };
  keep(loop_.ops, ops);
  keep(loads_, loads);
  for (Loop::Op& op : loop_.ops) {
    for (int k = 0; k < op.inputs; ++k) {
      if (op.in[k].kind == Source::Number) continue;
      const auto& indices = op.in[k].kind == Source::Op ? ops : loads;
      op.in[k].index = static_cast<int16_t>(indices[op.in[k].index]);
    }
  }
  for (Store& each : stores_) each.op = ops[each.op];
}

int32_t Builder::slot(BufferId buffer, std::vector<BufferId>& slots) const {
  const auto at = std::find(slots.begin(), slots.end(), buffer);
  if (at == slots.end()) return slots.push_back(buffer), static_cast<int32_t>(slots.size() - 1);
  return static_cast<int32_t>(at - slots.begin());
}

Loop Builder::take(std::vector<BufferId>& slots) {
  const auto memory = [&](const Elements& e) {
    Loop::Memory m;
    m.slot = slot(e.buffer, slots);
    m.dtype = e.dtype;
    m.offset = e.offset;
    std::copy_n(e.strides, extent_.ndim, m.strides);
    return m;
  };
  for (const Elements& each : loads_) loop_.loads.push_back(memory(each));
  for (const Store& each : stores_) loop_.stores.push_back({each.op, memory(each.elements)});
  const auto each = [&](auto&& f) {
    for (Loop::Memory& m : loop_.loads) f(m);
    for (Loop::Store& s : loop_.stores) f(s.to);
  };
  std::copy_n(extent_.sizes, extent_.ndim, loop_.sizes);
  loop_.numel = loop_.stores.empty() ? 0 : extent_.numel();
  loop_.device = uses_.graph.buffers[uses_.loop_nodes[nodes_[0]]->out.buffer].device;
  loop_.ndim = join_dims<Innermost::First>(
      extent_.ndim, loop_.sizes, [&](auto&& f) { each([&](Loop::Memory& m) { f(m.strides); }); });
  const int ndim = loop_.ndim;
  each([&](Loop::Memory& m) { std::fill(m.strides + ndim, m.strides + kMaxDims, 0); });
  std::fill(loop_.sizes + ndim, loop_.sizes + kMaxDims, 0);
  if (ndim == 0) {
    loop_.ndim = 1;
    loop_.sizes[0] = 1;
    each([&](Loop::Memory& m) { m.strides[0] = static_cast<int64_t>(size_of(m.dtype)); });
  }
  return std::move(loop_);
}

}  // namespace

Loop build_loop(const GraphUses& uses, const std::vector<int32_t>& nodes, const Extent& extent,
                std::vector<BufferId>& slots) {
  Builder builder(uses, nodes, extent);
  builder.build();
  return builder.take(slots);
}

bool fits(const GraphUses& uses, const std::vector<int32_t>& nodes, const Extent& extent) {
  Builder builder(uses, nodes, extent);
  builder.build();
  return builder.operands() <= Loop::kMaxOperands;
}

}  // namespace moonlet::program
