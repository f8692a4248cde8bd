// interp/distributed/collectives.cpp: the collectives of a group, by Gloo's algorithms. Where sums
// are made in the order of ranks, or in float32 for narrower floats, all ranks exchange parts.
#include "interp/distributed/collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include "interp/distributed/reduce.h"

namespace moonlet::distributed {
namespace {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Gloo's own slots begin with smaller numbers.
constexpr uint64_t kExchangeSlot = uint64_t{0x20} << 56;
constexpr uint64_t kTransferSlot = uint64_t{0x40} << 56;
uint64_t slot_of(uint64_t first, uint32_t tag) { return first | (uint64_t{tag} << 16); }

struct Part {
  size_t offset = 0, bytes = 0;
};

std::vector<Part> parts_of(const std::vector<size_t>& counts, size_t bytes) {
  std::vector<Part> out;
  size_t offset = 0;
  for (const size_t count : counts) {
    out.push_back({offset, count * bytes});
    offset += count * bytes;
  }
  return out;
}

// Each rank sends each other one a part, and receives one.
void exchange(gloo::Context& context, uint32_t tag, const char* in, const std::vector<Part>& sent,
              char* out, const std::vector<Part>& received) {
  const size_t self = static_cast<size_t>(context.rank), size = sent.size();
  const auto end_of = [](const std::vector<Part>& parts) {
    size_t end = 0;
    for (const Part& part : parts) end = std::max(end, part.offset + part.bytes);
    return end;
  };
  if (received[self].bytes > 0)
    std::memmove(out + received[self].offset, in + sent[self].offset, received[self].bytes);
  const Buffer from = context.createUnboundBuffer(const_cast<char*>(in), end_of(sent));
  const Buffer to = context.createUnboundBuffer(out, end_of(received));
  const uint64_t slot = slot_of(kExchangeSlot, tag);
  int sends = 0, receives = 0;
  for (size_t i = 1; i < size; ++i) {
    const size_t peer = (self + size - i) % size;
    if (received[peer].bytes == 0) continue;
    to->recv(static_cast<int>(peer), slot, received[peer].offset, received[peer].bytes);
    ++receives;
  }
  for (size_t i = 1; i < size; ++i) {
    const size_t peer = (self + i) % size;
    if (sent[peer].bytes == 0) continue;
    from->send(static_cast<int>(peer), slot, sent[peer].offset, sent[peer].bytes);
    ++sends;
  }
  while (receives-- > 0) to->waitRecv(context.getTimeout());
  while (sends-- > 0) from->waitSend(context.getTimeout());
}

// Elements split over ranks as evenly as can be.
std::vector<size_t> shares(size_t count, size_t size) {
  std::vector<size_t> out(size, count / size);
  for (size_t i = 0; i < count % size; ++i) ++out[i];
  return out;
}

void reduce_scatter(gloo::Context& context, const Call& call, const std::vector<size_t>& counts,
                    const char* in, char* out) {
  const size_t self = static_cast<size_t>(context.rank), bytes = bytes_of(call.dtype);
  const size_t own = counts[self];
  std::vector<char> parts(counts.size() * own * bytes);
  exchange(context, call.tag, in, parts_of(counts, bytes), parts.data(),
           parts_of(std::vector<size_t>(counts.size(), own), bytes));
  if (own > 0) reduce_parts(call.reduction, call.dtype, parts.data(), counts.size(), own, out);
}

void all_reduce_by_parts(gloo::Context& context, const Call& call) {
  const size_t self = static_cast<size_t>(context.rank), bytes = bytes_of(call.dtype);
  const std::vector<size_t> counts = shares(call.count, static_cast<size_t>(context.size));
  const std::vector<Part> parts = parts_of(counts, bytes);
  std::vector<char> own(counts[self] * bytes);
  reduce_scatter(context, call, counts, call.in, own.data());
  exchange(context, call.tag + 1, own.data(), std::vector<Part>(counts.size(), Part{0, own.size()}),
           call.out, parts);
}

void all_reduce(const std::shared_ptr<gloo::Context>& context, const Call& call) {
  if (call.ordered || is_narrow(call.dtype)) return all_reduce_by_parts(*context, call);
  const size_t bytes = bytes_of(call.dtype);
  gloo::AllreduceOptions options(context);
  // Gloo only looks at the size of elements.
  const auto set = [&](auto unit) {
    using T = decltype(unit);
    if (call.in != call.out) options.setInput(reinterpret_cast<T*>(call.in), call.count);
    options.setOutput(reinterpret_cast<T*>(call.out), call.count);
  };
  struct Sixteen {
    uint64_t words[2];
  };
  if (bytes == 1)
    set(uint8_t{});
  else if (bytes == 2)
    set(uint16_t{});
  else if (bytes == 4)
    set(uint32_t{});
  else if (bytes == 8)
    set(uint64_t{});
  else
    set(Sixteen{});
  options.setReduceFunction(combine_of(call.reduction, call.dtype));
  options.setTag(call.tag);
  gloo::allreduce(options);
}

// All send to the root, which adds up in the order of ranks.
void reduce(gloo::Context& context, const Call& call) {
  const size_t bytes = bytes_of(call.dtype), size = static_cast<size_t>(context.size);
  const bool is_root = context.rank == call.root;
  std::vector<size_t> sent(size, 0), received(size, is_root ? call.count : 0);
  sent[static_cast<size_t>(call.root)] = call.count;
  std::vector<char> parts(is_root ? size * call.count * bytes : 0);
  exchange(context, call.tag, call.in, parts_of(sent, bytes), parts.data(),
           parts_of(received, bytes));
  if (is_root) reduce_parts(call.reduction, call.dtype, parts.data(), size, call.count, call.out);
}

void broadcast(const std::shared_ptr<gloo::Context>& context, const Call& call) {
  gloo::BroadcastOptions options(context);
  options.setOutput(call.out, call.count * bytes_of(call.dtype));
  options.setRoot(call.root);
  options.setTag(call.tag);
  gloo::broadcast(options);
}

void all_gather(const std::shared_ptr<gloo::Context>& context, const Call& call) {
  const size_t bytes = call.count * bytes_of(call.dtype);
  gloo::AllgatherOptions options(context);
  options.setInput(call.in, bytes);
  options.setOutput(call.out, bytes * static_cast<size_t>(context->size));
  options.setTag(call.tag);
  gloo::allgather(options);
}

void run_exchange(gloo::Context& context, const Call& call) {
  const size_t bytes = bytes_of(call.dtype);
  std::vector<Part> sent = parts_of(call.sent, bytes);
  if (call.same_to_all)
    for (Part& part : sent) part.offset = 0;
  exchange(context, call.tag, call.in, sent, call.out, parts_of(call.received, bytes));
}

void barrier(const std::shared_ptr<gloo::Context>& context, const Call& call) {
  gloo::BarrierOptions options(context);
  options.setTag(call.tag);
  gloo::barrier(options);
}

}  // namespace

void run_collective(const std::shared_ptr<gloo::Context>& context, const Call& call) {
  switch (call.kind) {
    case Kind::Barrier: return barrier(context, call);
    case Kind::Exchange: return run_exchange(*context, call);
    case Kind::ReduceScatter: return reduce_scatter(*context, call, call.sent, call.in, call.out);
    default: break;
  }
  if (call.count == 0) return;
  switch (call.kind) {
    case Kind::AllReduce: return all_reduce(context, call);
    case Kind::Broadcast: return broadcast(context, call);
    case Kind::Reduce: return reduce(*context, call);
    default: return all_gather(context, call);
  }
}

int run_transfer(gloo::Context& context, const Call& call) {
  const size_t bytes = call.count * bytes_of(call.dtype);
  const uint64_t slot = slot_of(kTransferSlot, call.tag);
  if (call.kind == Kind::Send) {
    const Buffer buffer = context.createUnboundBuffer(call.in, bytes);
    buffer->send(call.root, slot);
    buffer->waitSend(context.getTimeout());
    return context.rank;
  }
  const Buffer buffer = context.createUnboundBuffer(call.out, bytes);
  if (call.root >= 0) {
    buffer->recv(call.root, slot);
  } else {
    std::vector<int> ranks;
    for (int rank = 0; rank < context.size; ++rank)
      if (rank != context.rank) ranks.push_back(rank);
    buffer->recv(ranks, slot);
  }
  int source = call.root;
  buffer->waitRecv(&source, context.getTimeout());
  return source;
}

}  // namespace moonlet::distributed
