// interp/distributed/gloo_reduction.cpp: reductions over Gloo, whose parts are on their way while
// others are reduced.
#include "interp/distributed/gloo_reduction.h"

#include <algorithm>

#include "interp/distributed/reduce.h"

namespace moonlet::distributed {
namespace {

// Bytes of a part that are reduced at once: few enough for the first ones to be on their way back
// while the next ones come. With many ranks they are fewer, down to the least.
constexpr size_t kChunk = size_t{1} << 20, kLeastChunk = size_t{16} << 10;
constexpr size_t kChunksOfAll = size_t{2} << 20;
// How many chunks are under way ahead of the one that is reduced.
constexpr size_t kAhead = 3;

}  // namespace

PartReduction::PartReduction(gloo::Context& context, const Call& call,
                             const std::vector<size_t>& counts, bool gathers,
                             std::vector<char>& workspace)
    : context_(context),
      call_(call),
      self_(static_cast<size_t>(context.rank)),
      size_(counts.size()),
      width_(bytes_of(call.dtype)),
      step_(std::clamp(kChunksOfAll / size_, kLeastChunk, kChunk) / width_ * width_),
      gathers_(gathers),
      parts_(parts_of(counts, width_)),
      received_(kAhead + 1) {
  const size_t bytes = parts_.back().offset + parts_.back().bytes;
  in_ = context.createUnboundBuffer(call.in, bytes);
  if (gathers) out_ = context.createUnboundBuffer(call.out, bytes);
  const size_t most = size_ * std::min(step_, parts_[self_].bytes);
  workspace.resize(std::max(workspace.size(), received_.size() * most));
  for (size_t i = 0; i < received_.size(); ++i) {
    received_[i].memory = workspace.data() + i * most;
    received_[i].buffer = context.createUnboundBuffer(received_[i].memory, most);
  }
}

Part PartReduction::chunk_of(size_t rank, size_t number) const {
  const Part& part = parts_[rank];
  const size_t from = std::min(number * step_, part.bytes);
  return {part.offset + from, std::min(step_, part.bytes - from)};
}

// Results of a chunk come when all have sent theirs, so they may go where those were.
void PartReduction::start(size_t number) {
  const uint64_t slot = slot_of(kExchangeSlot, call_.tag),
                 result_slot = slot_of(kExchangeSlot, call_.tag + 1);
  const Part own = chunk_of(self_, number);
  for (size_t i = 1; i < size_; ++i) {
    const size_t peer = (self_ + size_ - i) % size_;
    const int rank = static_cast<int>(peer);
    if (own.bytes > 0)
      received_[number % received_.size()].buffer->recv(rank, slot, peer * own.bytes, own.bytes);
    const Part theirs = chunk_of(peer, number);
    if (gathers_ && theirs.bytes > 0) {
      out_->recv(rank, result_slot, theirs.offset, theirs.bytes);
      ++result_receives_;
    }
  }
  for (size_t i = 1; i < size_; ++i) {
    const size_t peer = (self_ + i) % size_;
    const Part theirs = chunk_of(peer, number);
    if (theirs.bytes == 0) continue;
    in_->send(static_cast<int>(peer), slot, theirs.offset, theirs.bytes);
    ++sends_;
  }
}

void PartReduction::finish(size_t number, char* out) {
  const Part own = chunk_of(self_, number);
  if (own.bytes == 0) return;
  const Received& received = received_[number % received_.size()];
  std::vector<const char*> rows(size_);
  for (size_t rank = 0; rank < size_; ++rank) {
    rows[rank] = rank == self_ ? call_.in + own.offset : received.memory + rank * own.bytes;
    if (rank != self_) received.buffer->waitRecv(context_.getTimeout());
  }
  reduce_rows(call_.reduction, call_.dtype, rows, own.bytes / width_,
              out + (own.offset - parts_[self_].offset));
  if (!gathers_) return;
  for (size_t i = 1; i < size_; ++i) {
    out_->send(static_cast<int>((self_ + i) % size_), slot_of(kExchangeSlot, call_.tag + 1),
               own.offset, own.bytes);
    ++result_sends_;
  }
}

void PartReduction::run(char* out) {
  size_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.bytes);
  const size_t chunks = (most + step_ - 1) / step_;
  for (size_t number = 0; number < chunks + kAhead; ++number) {
    if (number < chunks) start(number);
    if (number >= kAhead) finish(number - kAhead, out);
  }
  while (sends_-- > 0) in_->waitSend(context_.getTimeout());
  while (result_receives_-- > 0) out_->waitRecv(context_.getTimeout());
  while (result_sends_-- > 0) out_->waitSend(context_.getTimeout());
}

}  // namespace moonlet::distributed
