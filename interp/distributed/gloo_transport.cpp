// interp/distributed/gloo_transport.cpp: groups of ranks over Gloo: what only moves elements by its
// algorithms, reductions by our own, which add up in the order of ranks.
#include "interp/distributed/transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include <gloo/allgather.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "interp/distributed/gloo_reduction.h"
#include "interp/distributed/reduce.h"
#include "interp/distributed/run.h"

namespace moonlet::distributed {

const bool kFailureEndsOthers = false;
void note_failure() noexcept {}

namespace {

// Up to so many bytes ranks send each other all that they have.
constexpr size_t kMostAtOnce = size_t{64} << 10;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(std::max(seconds, 0.001) * 1000));
}

// What the pairs of a group need to find each other, in keys of the group.
class PairStore final : public gloo::rendezvous::Store {
 public:
  PairStore(distributed::Store& store, std::string name, double timeout, Tick tick)
      : store_(store), name_(std::move(name) + "/"), timeout_(timeout), tick_(std::move(tick)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(name_ + key, {data.data(), data.size()}, tick_);
  }
  std::vector<char> get(const std::string& key) override {
    // Waited for in short requests, so that other threads can use the connection meanwhile.
    const Clock::time_point until = after(timeout_);
    for (;;) {
      if (const auto value = store_.get(name_ + key, 0.05, tick_))
        return {value->begin(), value->end()};
      tick_();
      if (Clock::now() >= until) throw gloo::IoException("Timed out waiting for other ranks");
    }
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  distributed::Store& store_;
  const std::string name_;
  const double timeout_;
  const Tick tick_;
};

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(Meeting meeting) : Transport(meeting), meeting_(std::move(meeting)) {}
  void connect(const Tick& tick) override;
  int transfer(const Call& call) override;
  void interrupt() noexcept override;

 protected:
  void exchange(const Call& call, uint32_t tag, const char* in, const std::vector<Part>& sent,
                char* out, const std::vector<Part>& received) override;
  void all_reduce(const Call& call) override;
  void all_reduce_in_order(const Call& call) override { all_reduce(call); }
  void reduce(const Call& call) override;
  void reduce_scatter(const Call& call, const std::vector<size_t>& counts, char* out) override;
  void broadcast(const Call& call) override;
  void all_gather(const Call& call) override;
  void barrier(const Call& call) override;

 private:
  void all_reduce_at_once(const Call& call);

  const Meeting meeting_;
  std::mutex mutex_;  // while a connection is made, others may interrupt it
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<char> workspace_;  // of reductions, kept for the next one
};

void GlooTransport::connect(const Tick& tick) {
  gloo::transport::tcp::attr attributes(meeting_.run.own_address().c_str());
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
  context->setTimeout(milliseconds_of(std::min(meeting_.timeout, 10.0)));
  StoreClient client(meeting_.run.endpoint(), meeting_.timeout, tick);
  PairStore store(client, meeting_.name, meeting_.timeout, tick);
  context->connectFullMesh(store, device);
  context->setTimeout(milliseconds_of(meeting_.timeout));
  const std::lock_guard<std::mutex> lock(mutex_);
  context_ = context;
}

void GlooTransport::interrupt() noexcept {
  std::shared_ptr<gloo::rendezvous::Context> context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    context = context_;
  }
  if (context == nullptr) return;
  // A wait for nothing that ends at once has Gloo end all pairs of the context.
  try {
    char nothing = 0;
    context->createUnboundBuffer(&nothing, 1)->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
  }
}

void GlooTransport::exchange(const Call&, uint32_t tag, const char* in,
                             const std::vector<Part>& sent, char* out,
                             const std::vector<Part>& received) {
  const size_t self = static_cast<size_t>(rank_), size = sent.size();
  const auto end_of = [](const std::vector<Part>& parts) {
    size_t end = 0;
    for (const Part& part : parts) end = std::max(end, part.offset + part.bytes);
    return end;
  };
  if (received[self].bytes > 0)
    std::memmove(out + received[self].offset, in + sent[self].offset, received[self].bytes);
  const Buffer from = context_->createUnboundBuffer(const_cast<char*>(in), end_of(sent));
  const Buffer to = context_->createUnboundBuffer(out, end_of(received));
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
  while (receives-- > 0) to->waitRecv(context_->getTimeout());
  while (sends-- > 0) from->waitSend(context_->getTimeout());
}

// Small tensors: all send all that they have, which is one step in place of two.
void GlooTransport::all_reduce_at_once(const Call& call) {
  const size_t self = static_cast<size_t>(rank_), size = static_cast<size_t>(size_);
  const size_t bytes = call.count * bytes_of(call.dtype);
  const std::vector<Part> sent(size, Part{0, bytes});
  std::vector<Part> received(size);
  workspace_.resize(std::max(workspace_.size(), size * bytes));
  std::vector<const char*> rows(size, call.in);
  for (size_t rank = 0; rank < size; ++rank) {
    if (rank == self) continue;
    received[rank] = {rank * bytes, bytes};
    rows[rank] = workspace_.data() + rank * bytes;
  }
  exchange(call, call.tag, call.in, sent, workspace_.data(), received);
  reduce_rows(call.reduction, call.dtype, rows, call.count, call.out);
}

void GlooTransport::all_reduce(const Call& call) {
  const auto size = static_cast<size_t>(size_);
  const size_t bytes = bytes_of(call.dtype);
  if (call.count * bytes * (size - 1) <= kMostAtOnce) return all_reduce_at_once(call);
  const std::vector<size_t> counts = shares(call.count, size);
  const Part own = parts_of(counts, bytes)[static_cast<size_t>(rank_)];
  PartReduction(*context_, call, counts, true, workspace_).run(call.out + own.offset);
}

void GlooTransport::reduce_scatter(const Call& call, const std::vector<size_t>& counts, char* out) {
  PartReduction(*context_, call, counts, false, workspace_).run(out);
}

// All elements are the root's part.
void GlooTransport::reduce(const Call& call) {
  std::vector<size_t> counts(static_cast<size_t>(size_), 0);
  counts[static_cast<size_t>(call.root)] = call.count;
  reduce_scatter(call, counts, call.out);
}

void GlooTransport::broadcast(const Call& call) {
  gloo::BroadcastOptions options(context_);
  options.setOutput(call.out, call.count * bytes_of(call.dtype));
  options.setRoot(call.root);
  options.setTag(call.tag);
  gloo::broadcast(options);
}

void GlooTransport::all_gather(const Call& call) {
  const size_t bytes = call.count * bytes_of(call.dtype);
  gloo::AllgatherOptions options(context_);
  options.setInput(call.in, bytes);
  options.setOutput(call.out, bytes * static_cast<size_t>(size_));
  options.setTag(call.tag);
  gloo::allgather(options);
}

void GlooTransport::barrier(const Call& call) {
  gloo::BarrierOptions options(context_);
  options.setTag(call.tag);
  gloo::barrier(options);
}

int GlooTransport::transfer(const Call& call) {
  const size_t bytes = call.count * bytes_of(call.dtype);
  const uint64_t slot = slot_of(kTransferSlot, call.tag);
  if (call.kind == Kind::Send) {
    const Buffer buffer = context_->createUnboundBuffer(call.in, bytes);
    buffer->send(call.root, slot);
    buffer->waitSend(context_->getTimeout());
    return rank_;
  }
  const Buffer buffer = context_->createUnboundBuffer(call.out, bytes);
  if (call.root >= 0) {
    buffer->recv(call.root, slot);
  } else {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) ranks.push_back(rank);
    buffer->recv(ranks, slot);
  }
  int source = call.root;
  buffer->waitRecv(&source, context_->getTimeout());
  return source;
}

}  // namespace

std::unique_ptr<Transport> make_transport(Meeting meeting) {
  return std::make_unique<GlooTransport>(std::move(meeting));
}

}  // namespace moonlet::distributed
