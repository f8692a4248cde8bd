// tensor/program/fusion/strip.cpp: finds strips: a number of rows that all parts can have, and
// which no part reads before it is written, or writes while another still needs it.
#include "tensor/program/fusion/strip.h"

#include <algorithm>
#include <numeric>

#include "tensor/core/geometry.h"
#include "tensor/program/fusion/loop_builder.h"
#include "tensor/program/fusion/strip_rows.h"

namespace moonlet::program {

namespace {

using Kind = StripPart::Kind;

constexpr size_t kMostParts = 16;

// Whether parts may go on from strip to strip though both use that memory: no row of one is in
// another row of the other.
bool agree(const RowAccess& a, const RowAccess& b, int64_t rows) {
  if (a.buffer != b.buffer || !(a.is_write || b.is_write)) return true;
  if (a.low >= b.end(rows) || b.low >= a.end(rows)) return true;
  return a.stride == b.stride && a.stride > 0 &&
         std::max(a.high, b.high) - std::min(a.low, b.low) <= a.stride;
}

class StripFinder {
 public:
  StripFinder(const Graph& graph, const GraphUses& uses, std::vector<Group>& groups, size_t first,
              int64_t bytes)
      : graph_(graph), uses_(uses), groups_(groups), first_(first), bytes_(bytes) {}

  Strip find() {
    Strip out;
    while (first_ + members_.size() < groups_.size() && members_.size() < kMostParts && grow()) {
    }
    forget_loops(members_.size() < 2 ? 0 : members_.size());
    if (members_.size() < 2) return out;
    out.rows = rows_;
    out.step = step_;
    for (size_t i = 0; i < members_.size(); ++i) out.parts.push_back(part(i));
    find_local(out);
    return out;
  }

 private:
  struct Member {
    RowGroup is;
    RowPlan plan;
  };

  // Takes one more group, if there is a number of rows for all.
  bool grow() {
    Group& group = groups_[first_ + members_.size()];
    if (!as_loop(group)) return false;
    std::optional<RowGroup> is = row_group(graph_, group);
    if (!is || (members_.empty() && is->elements < least_elements())) return false;
    if (!may_raise(*is, group)) return false;
    members_.push_back({*std::move(is), {}});
    if (members_.size() == 1) return true;
    if (choose_rows()) return true;
    members_.pop_back();
    return false;
  }

  // A single pointwise node is a loop, too.
  bool as_loop(Group& group) const {
    const auto& node = uses_.loop_nodes[group.nodes.front()];
    if (group.loop || !node) return true;
    if (members_.empty() && node->extent.numel() < least_elements()) return false;
    std::vector<BufferId> slots;
    Loop loop = build_loop(uses_, group.nodes, node->extent, slots);
    if (loop.numel == 0) return false;
    group.loop = std::move(loop);
    group.slots = std::move(slots);
    return true;
  }

  // Smaller groups fit the caches whole.
  int64_t least_elements() const { return bytes_ / 64; }

  // Of single nodes that no strip has taken.
  void forget_loops(size_t from) {
    for (size_t i = first_ + from; i < groups_.size() && i <= first_ + members_.size(); ++i) {
      if (groups_[i].nodes.size() > 1) continue;
      groups_[i].loop.reset();
      groups_[i].slots.clear();
    }
  }

  // Where an op may raise an error, nothing that is seen afterwards has been written or drawn in
  // part.
  bool may_raise(const RowGroup& is, const Group& group) {
    checks_ = checks_ || is.checks;
    changes_ = changes_ || is.kind == Kind::Mask;
    for (const int32_t node : group.nodes)
      each_written(graph_.nodes[node], [&](ValueId id) {
        changes_ =
            changes_ || graph_.buffers[graph_.values[id].buffer].kind != Buffer::Kind::Internal;
      });
    return !(checks_ && changes_);
  }

  bool choose_rows() {
    std::vector<int64_t> candidates;
    for (const Member& m : members_)
      if (!m.is.any_rows) candidates = m.is.rows;
    if (candidates.empty())
      for (const Member& m : members_)
        if (m.is.kind == Kind::Loop) candidates = m.is.rows;
    for (const int64_t rows : candidates)
      if (try_rows(rows)) return true;
    return false;
  }

  bool try_rows(int64_t rows) {
    std::vector<RowPlan> plans;
    for (size_t i = 0; i < members_.size(); ++i) {
      auto plan = row_plan(graph_, groups_[first_ + i], members_[i].is, rows);
      if (!plan) return false;
      for (const RowPlan& before : plans)
        for (const RowAccess& a : before.accesses)
          for (const RowAccess& b : plan->accesses)
            if (!agree(a, b, rows)) return false;
      plans.push_back(*std::move(plan));
    }
    // A mask reads nothing, and is read by what comes next.
    if (members_.back().is.kind != Kind::Mask && !is_read_on(plans)) return false;
    const int64_t step = step_of(plans, rows);
    if (step == 0) return false;
    rows_ = rows;
    step_ = step;
    for (size_t i = 0; i < plans.size(); ++i) members_[i].plan = std::move(plans[i]);
    return true;
  }

  // Whether the last part reads rows that another one has written or read.
  static bool is_read_on(const std::vector<RowPlan>& plans) {
    for (const RowAccess& b : plans.back().accesses)
      for (size_t i = 0; i + 1 < plans.size() && !b.is_write; ++i)
        for (const RowAccess& a : plans[i].accesses)
          if (a.buffer == b.buffer && a.stride > 0 && b.stride > 0) return true;
    return false;
  }

  // Rows at once: as many as a cache holds; 0 where that is not possible or all fit.
  int64_t step_of(const std::vector<RowPlan>& plans, int64_t rows) const {
    std::vector<std::pair<BufferId, int64_t>> buffers;
    int64_t multiple = 1, divides = 0;
    for (const RowPlan& plan : plans) {
      multiple = std::lcm(multiple, plan.multiple);
      divides = std::gcd(divides, plan.divides);
      for (const RowAccess& a : plan.accesses)
        if (std::ranges::find(buffers, a.buffer, &std::pair<BufferId, int64_t>::first) ==
            buffers.end())
          buffers.emplace_back(a.buffer, a.stride);
    }
    int64_t row = 0;
    for (const auto& [buffer, stride] : buffers) row += stride;
    int64_t step = bytes_ / std::max<int64_t>(row, 1) / multiple * multiple;
    if (step == 0 && multiple * row <= 4 * bytes_) step = multiple;
    if (divides > 0) {
      step = std::min(step, divides / multiple * multiple);
      while (step > 0 && divides % step != 0) step -= multiple;
      if (4 * step * row < bytes_) return 0;  // too few to pay for the calls
    }
    return step >= rows ? 0 : step;
  }

  StripPart part(size_t i) {
    StripPart out;
    out.kind = members_[i].is.kind;
    out.group = std::move(groups_[first_ + i]);
    out.by_rows = members_[i].is.by_rows;
    out.dims = members_[i].is.dims;
    const Node& node = graph_.nodes[out.node()];
    if (out.kind == Kind::Loop) {
      make_loops(out);
    } else if (out.kind == Kind::Fold) {
      const Value& x = graph_.values[std::get<ValueRef>(node.arguments[0]).id];
      const Value& y = graph_.values[std::get<ValueRef>(node.results[0]).id];
      out.fold = cpu::run_fold_of(node.op->name, x.dtype, y.dtype, members_[i].is.elements);
    }
    return out;
  }

  // The loop over the elements of as many rows as a strip has, its operands at addresses of their
  // own.
  void make_loops(StripPart& to) const {
    const Loop& loop = *to.group.loop;
    const SplitLoop split = *split_loop(loop, rows_);
    to.outer = split.outer;
    std::copy_n(split.sizes + split.inner, split.outer, to.outer_sizes);
    for (const Loop::Memory& m : split.operands) {
      StripPart::Operand& operand = to.operands.emplace_back();
      operand.buffer = to.group.slots[m.slot];
      std::copy_n(m.strides + split.inner, split.outer, operand.strides);
    }
    to.whole = make_executor(loop_of_rows(loop, split, step_));
    if (rows_ % step_ != 0) to.last = make_executor(loop_of_rows(loop, split, rows_ % step_));
  }

  static Loop loop_of_rows(const Loop& from, const SplitLoop& split, int64_t rows) {
    Loop out = from;
    std::fill_n(out.sizes, kMaxDims, 0);
    std::copy_n(split.sizes, split.inner, out.sizes);
    out.sizes[split.inner] = rows;
    const size_t loads = out.loads.size();
    const auto each = [&](auto&& f) {
      for (size_t i = 0; i < split.operands.size(); ++i)
        f(i < loads ? out.loads[i] : out.stores[i - loads].to, static_cast<int32_t>(i));
    };
    each([&](Loop::Memory& m, int32_t i) {
      m = split.operands[i];
      m.slot = i;
      std::fill(m.strides + split.inner + 1, m.strides + kMaxDims, 0);
    });
    out.ndim = join_dims<Innermost::First>(split.inner + 1, out.sizes, [&](auto&& f) {
      each([&](Loop::Memory& m, int32_t) { f(m.strides); });
    });
    each([&](Loop::Memory& m, int32_t) {
      std::fill(m.strides + out.ndim, m.strides + kMaxDims, 0);
    });
    std::fill(out.sizes + out.ndim, out.sizes + kMaxDims, 0);
    out.numel = 1;
    for (int d = 0; d < out.ndim; ++d) out.numel *= out.sizes[d];
    return out;
  }

  // Memory that nothing else uses, and that all parts have by the same rows.
  void find_local(Strip& to) const {
    std::vector<int> users(graph_.buffers.size());
    std::vector<BufferId> seen;
    const auto use = [&](BufferId b) {
      if (std::ranges::find(seen, b) == seen.end()) seen.push_back(b);
    };
    std::vector<BufferId> all;
    for (const StripPart& part : to.parts)
      for (const int32_t n : part.group.nodes) {
        seen.clear();
        const auto each = [&](ValueId id) { use(graph_.values[id].buffer); };
        each_argument(graph_.nodes[n], each);
        each_result(graph_.nodes[n], each);
        for (const BufferId b : seen)
          if (users[b]++ == 0) all.push_back(b);
      }
    for (const BufferId b : all) {
      if (uses_.stays[b] || users[b] != uses_.users[b]) continue;
      if (const int64_t bytes = local_bytes(b); bytes > 0) to.local.push_back({b, bytes});
    }
  }

  // What a strip needs of a buffer; 0 where it needs all.
  int64_t local_bytes(BufferId buffer) const {
    int64_t stride = 0, bytes = 0;
    for (const Member& m : members_)
      for (const RowAccess& a : m.plan.accesses) {
        if (a.buffer != buffer) continue;
        if (a.stride <= 0 || (stride != 0 && stride != a.stride)) return 0;
        stride = a.stride;
        bytes = std::max(bytes, a.end(step_));
      }
    return bytes;
  }

  const Graph& graph_;
  const GraphUses& uses_;
  std::vector<Group>& groups_;
  const size_t first_;
  const int64_t bytes_;
  std::vector<Member> members_;
  int64_t rows_ = 0, step_ = 0;
  bool checks_ = false, changes_ = false;
};

}  // namespace

bool Strip::is_local(BufferId buffer) const {
  return std::ranges::find(local, buffer, &Local::buffer) != local.end();
}

Strip find_strip(const Graph& graph, const GraphUses& uses, std::vector<Group>& groups,
                 size_t first, int64_t bytes) {
  return StripFinder(graph, uses, groups, first, bytes).find();
}

}  // namespace moonlet::program
