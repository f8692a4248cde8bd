// interp/distributed/transport.cpp: collectives that are made of exchanges of parts: those whose
// sums are made in the order of ranks, or in float32 for narrower floats.
#include "interp/distributed/transport.h"

#include "interp/distributed/reduce.h"

namespace moonlet::distributed {
std::vector<Part> parts_of(const std::vector<size_t>& counts, size_t bytes) {
  std::vector<Part> out;
  size_t offset = 0;
  for (const size_t count : counts) {
    out.push_back({offset, count * bytes});
    offset += count * bytes;
  }
  return out;
}

// Elements split over ranks as evenly as can be.
std::vector<size_t> shares(size_t count, size_t size) {
  std::vector<size_t> out(size, count / size);
  for (size_t i = 0; i < count % size; ++i) ++out[i];
  return out;
}

namespace {

// Parts of one size that lie one behind the other.
std::vector<const char*> rows_of(const char* parts, size_t count, size_t bytes) {
  std::vector<const char*> out;
  for (size_t i = 0; i < count; ++i) out.push_back(parts + i * bytes);
  return out;
}

}  // namespace

char* Transport::scratch(size_t bytes) {
  const auto memory = std::make_shared<std::vector<char>>(bytes);
  scratch_.push_back(memory);
  return memory->data();
}

void Transport::reduce_scatter(const Call& call, const std::vector<size_t>& counts, char* out) {
  const size_t bytes = bytes_of(call.dtype), own = counts[static_cast<size_t>(rank_)];
  char* const parts = scratch(counts.size() * own * bytes);
  exchange(call, call.tag, call.in, parts_of(counts, bytes), parts,
           parts_of(std::vector<size_t>(counts.size(), own), bytes));
  if (own > 0)
    reduce_rows(call.reduction, call.dtype, rows_of(parts, counts.size(), own * bytes), own, out);
}

void Transport::all_reduce_in_order(const Call& call) {
  const std::vector<size_t> counts = shares(call.count, static_cast<size_t>(size_));
  const size_t bytes = bytes_of(call.dtype), own = counts[static_cast<size_t>(rank_)] * bytes;
  char* const sum = scratch(own);
  reduce_scatter(call, counts, sum);
  exchange(call, call.tag + 1, sum, std::vector<Part>(counts.size(), Part{0, own}), call.out,
           parts_of(counts, bytes));
}

// All send to the root, which adds up in the order of ranks.
void Transport::reduce(const Call& call) {
  const size_t bytes = bytes_of(call.dtype), size = static_cast<size_t>(size_);
  const bool is_root = rank_ == call.root;
  std::vector<size_t> sent(size, 0), received(size, is_root ? call.count : 0);
  sent[static_cast<size_t>(call.root)] = call.count;
  char* const parts = scratch(is_root ? size * call.count * bytes : 0);
  exchange(call, call.tag, call.in, parts_of(sent, bytes), parts, parts_of(received, bytes));
  if (is_root)
    reduce_rows(call.reduction, call.dtype, rows_of(parts, size, call.count * bytes), call.count,
                call.out);
}

void Transport::exchange_all(const Call& call) {
  const size_t bytes = bytes_of(call.dtype);
  std::vector<Part> sent = parts_of(call.sent, bytes);
  if (call.same_to_all)
    for (Part& part : sent) part.offset = 0;
  exchange(call, call.tag, call.in, sent, call.out, parts_of(call.received, bytes));
}

void Transport::run(const Call& call) {
  scratch_.clear();
  agree(call);
  switch (call.kind) {
    case Kind::Barrier: return barrier(call);
    case Kind::Exchange: return exchange_all(call);
    case Kind::ReduceScatter: return reduce_scatter(call, call.sent, call.out);
    default: break;
  }
  if (call.count == 0) return;
  switch (call.kind) {
    case Kind::AllReduce:
      return call.ordered || is_narrow(call.dtype) ? all_reduce_in_order(call) : all_reduce(call);
    case Kind::Broadcast: return broadcast(call);
    case Kind::Reduce: return reduce(call);
    default: return all_gather(call);
  }
}

}  // namespace moonlet::distributed
