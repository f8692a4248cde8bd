// tensor/core/written_lists.cpp: which of the tensors that an op writes share memory: sorted by
// where they lie, each is compared with those alone that begin before it ends.
#include "tensor/core/written_lists.h"

#include <algorithm>

#include "tensor/core/dispatch.h"

namespace moonlet {

WrittenLists::WrittenLists(const char* op, Lists lists) : op_(op) {
  size_t count = 0;
  for (const auto& each : lists) count += each.second->size();
  all_.reserve(count);
  positions_.reserve(count);
  for (const auto& [name, list] : lists)
    for (const Tensor& x : *list) {
      if (!x.defined()) continue;
      check_writable(op, name, x);
      all_.push_back(&x);
      if (x.numel() > 0) positions_.push_back({byte_span(x), &x});
    }
  std::sort(positions_.begin(), positions_.end(),
            [](const Position& a, const Position& b) { return a.span.first < b.span.first; });
  ends_.reserve(positions_.size());
  for (const Position& position : positions_)
    ends_.push_back(ends_.empty() ? position.span.last
                                  : std::max(ends_.back(), position.span.last));
  check_apart();
}

void WrittenLists::check_apart() const {
  for (size_t i = 0; i < positions_.size(); ++i) {
    for (size_t j = i + 1;
         j < positions_.size() && positions_[j].span.first < positions_[i].span.last; ++j)
      check(!overlap(*positions_[i].tensor, *positions_[j].tensor), op_,
            ": two of the tensors that it writes to share memory");
  }
}

bool WrittenLists::meets(const Tensor& x) const {
  if (!x.defined() || x.numel() == 0) return false;
  const ByteSpan span = byte_span(x);
  // From the last that begins before its end back to where nothing reaches its beginning.
  auto at = std::lower_bound(positions_.begin(), positions_.end(), span.last,
                             [](const Position& p, const char* end) { return p.span.first < end; });
  while (at != positions_.begin()) {
    --at;
    if (ends_[static_cast<size_t>(at - positions_.begin())] <= span.first) return false;
    if (may_overlap(x, *at->tensor)) return true;
  }
  return false;
}

const Tensor& WrittenLists::unshared(const Tensor& x, Tensor& copy) const {
  return meets(x) ? copy = clone_plain(x) : x;
}

const std::vector<Tensor>& WrittenLists::unshared(const std::vector<Tensor>& list,
                                                  std::vector<Tensor>& copy) const {
  for (size_t i = 0; i < list.size(); ++i) {
    if (!meets(list[i])) continue;
    if (copy.empty()) copy = list;
    copy[i] = clone_plain(list[i]);
  }
  return copy.empty() ? list : copy;
}

void WrittenLists::mark_changed() const {
  for (const Tensor* x : all_) moonlet::mark_changed(*x, op_);
}

}  // namespace moonlet
