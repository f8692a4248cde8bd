// cuda/libraries/nccl.cpp: NCCL, opened at run time, and its communicators. They are made so that
// no call of the library waits for other ranks: what goes on is asked for, and can be ended.
#include "cuda/libraries/nccl.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "cuda/libraries/library.h"
#include "cuda/libraries/nccl_types.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/host_fault.h"
#include "cuda/runtime/quiet_guard.h"
#include "cuda/runtime/streams.h"
#include "tensor/runtime/communicators.h"

namespace moonlet::cuda::nccl {
namespace {

using distributed::Call;
using distributed::Reduction;
using distributed::Tick;
using Collective = distributed::Kind;

#ifdef MOONLET_CUDA_EMULATED
constexpr const char* kFile = "libmoonlet-nccl-emulated.so";
#else
constexpr const char* kFile = "libnccl.so.2";
#endif

struct Library {
#define MOONLET_NCCL_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  MOONLET_NCCL_FUNCTIONS(MOONLET_NCCL_MEMBER)
#undef MOONLET_NCCL_MEMBER
  std::string reason;  // why it cannot be used

  Library() {
    void* const from = open_library("nccl", kFile);
    if (from == nullptr) {
      reason =
          text("NCCL is not here: ", kFile, " is neither where the loader looks nor among the ",
               "CUDA toolkit's or Python's libraries");
      return;
    }
#define MOONLET_NCCL_FIND(name, result, parameters) \
  if (!find_in(from, #name, name)) reason = text("NCCL has no function ", #name);
    MOONLET_NCCL_FUNCTIONS(MOONLET_NCCL_FIND)
#undef MOONLET_NCCL_FIND
    int version = 0;
    if (reason.empty() && (ncclGetVersion(&version) != Success || version < kLeastVersion))
      reason = text("NCCL 2.14 or newer is needed, this is ", version);
  }
};

const Library& library() {
  static const Library& it = *new Library;
  return it;
}

// --- elements ------------------------------------------------------------------------------------

// What NCCL reduces a dtype as, and how many of those an element is.
struct Element {
  Type type;
  size_t count = 1;
};

std::optional<Element> element_of(DType dtype) {
  const DTypeInfo& row = info(dtype);
  const size_t bytes = kDTypeSizes[static_cast<size_t>(dtype)];
  switch (row.kind) {
    case Kind::Bool: return Element{Uint8};
    case Kind::Complex: return Element{element_of(row.real)->type, 2};
    case Kind::Floating:
      if (bytes == 8) return Element{Float64};
      if (bytes == 4) return Element{Float32};
      // Those of 8 bits are added up in float32, elsewhere.
      if (bytes == 2) return Element{row.mantissa == 10 ? Float16 : Bfloat16};
      return std::nullopt;
    case Kind::Signed:
    case Kind::Unsigned: break;
  }
  const bool has_sign = row.kind == Kind::Signed;
  if (bytes == 1) return Element{has_sign ? Int8 : Uint8};
  if (bytes == 4) return Element{has_sign ? Int32 : Uint32};
  if (bytes == 8) return Element{has_sign ? Int64 : Uint64};
  return std::nullopt;
}

std::optional<Op> op_of(Reduction reduction, DType dtype) {
  const bool is_bool = info(dtype).kind == Kind::Bool,
             is_complex = info(dtype).kind == Kind::Complex;
  switch (reduction) {
    case Reduction::Sum: return is_bool ? Max : Sum;
    case Reduction::Product:
      if (is_complex) return std::nullopt;
      return is_bool ? Min : Prod;
    case Reduction::Min:
      if (is_complex) return std::nullopt;
      return Min;
    case Reduction::Max:
      if (is_complex) return std::nullopt;
      return Max;
    case Reduction::And:
      if (is_bool) return Min;
      return std::nullopt;
    case Reduction::Or:
      if (is_bool) return Max;
      return std::nullopt;
    case Reduction::Xor: break;
  }
  return std::nullopt;
}

bool reduces(Collective kind) {
  return kind == Collective::AllReduce || kind == Collective::ReduceScatter ||
         kind == Collective::Reduce;
}

// --- a communicator ------------------------------------------------------------------------------

// Remembers the first of several results that is none of success.
class Results {
 public:
  void operator()(Result result) {
    if (first_ == Success && result != InProgress) first_ = result;
  }
  Result first() const { return first_; }

 private:
  Result first_ = Success;
};

class Rank final : public Communicator {
 public:
  Rank(int device, const std::string& id, int rank, int size, const Tick& tick);
  ~Rank() override { end(); }
  void launch(const std::vector<Call>& calls, DeviceStream stream, const Tick& tick) override;
  std::string error() override;
  void abort(const std::string& reason) noexcept override;

 private:
  void put(const Call& call, cudaStream_t stream, Results& results);
  void put_exchange(const Call& call, cudaStream_t stream, Results& results);
  void put_reduce_scatter(const Call& call, cudaStream_t stream, Results& results);
  Result state();
  void settle(const Tick& tick);
  void ensure(Result result);
  void end() noexcept;

  const int device_, rank_, size_;
  const HostFault fault_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // while the library is called
  Comm comm_ = nullptr;
};

Rank::Rank(int device, const std::string& id, int rank, int size, const Tick& tick)
    : device_(device), rank_(rank), size_(size), fault_(host_fault(device)) {
  UniqueId unique{};
  check(id.size() == sizeof unique.bytes, "distributed: an id of NCCL has ", sizeof unique.bytes,
        " bytes, got ", id.size());
  std::memcpy(unique.bytes, id.data(), id.size());
  const DeviceGuard guard(device, "distributed");
  Config config;
  try {
    {
      const std::lock_guard lock(mutex_);
      ensure(library().ncclCommInitRankConfig(&comm_, size, unique, rank, &config));
    }
    settle(tick);
  } catch (...) {
    end();
    throw;
  }
}

void Rank::ensure(Result result) {
  if (result == Success || result == InProgress) return;
  cudaGetLastError();
  const char* const more = comm_ != nullptr ? library().ncclGetLastError(comm_) : "";
  fail("NCCL error: ", library().ncclGetErrorString(result), more != nullptr && *more ? ": " : "",
       more != nullptr ? more : "");
}

Result Rank::state() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Success;
  Result out = Success;
  const Result asked = library().ncclCommGetAsyncError(comm_, &out);
  return asked != Success ? asked : out;
}

// Until what was called has been done: its work is in the stream then.
void Rank::settle(const Tick& tick) {
  auto looked = std::chrono::steady_clock::now();
  for (int round = 0;; ++round) {
    const Result now = state();
    if (now != InProgress) {
      const std::lock_guard lock(mutex_);
      check(!ended_, "the communicator has been ended");
      return ensure(now);
    }
    check(!ended_, "the communicator has been ended");
    if (round < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (tick && std::chrono::steady_clock::now() - looked > std::chrono::milliseconds(50)) {
      tick();
      looked = std::chrono::steady_clock::now();
    }
  }
}

// Parts go to others and come from them; the own one is copied.
void Rank::put_exchange(const Call& call, cudaStream_t stream, Results& results) {
  const size_t bytes = kDTypeSizes[static_cast<size_t>(call.dtype)];
  const char* in = call.in;
  char* out = call.out;
  for (int peer = 0; peer < size_; ++peer) {
    const size_t sent = call.sent[static_cast<size_t>(peer)] * bytes;
    const size_t received = call.received[static_cast<size_t>(peer)] * bytes;
    if (peer == rank_) {
      if (received > 0)
        cuda::ensure(cudaMemcpyAsync(out, in, received, cudaMemcpyDeviceToDevice, stream),
                     "distributed");
    } else {
      if (sent > 0) results(library().ncclSend(in, sent, Uint8, peer, comm_, stream));
      if (received > 0) results(library().ncclRecv(out, received, Uint8, peer, comm_, stream));
    }
    if (!call.same_to_all) in += sent;
    out += received;
  }
}

void Rank::put_reduce_scatter(const Call& call, cudaStream_t stream, Results& results) {
  const Element element = *element_of(call.dtype);
  const Op op = *op_of(call.reduction, call.dtype);
  const size_t bytes = kDTypeSizes[static_cast<size_t>(call.dtype)];
  bool even = true;
  for (const size_t count : call.sent) even = even && count == call.sent[0];
  if (even) {
    if (call.sent[0] > 0)
      results(library().ncclReduceScatter(call.in, call.out, call.sent[0] * element.count,
                                          element.type, op, comm_, stream));
    return;
  }
  const char* in = call.in;
  for (int root = 0; root < size_; ++root) {
    const size_t count = call.sent[static_cast<size_t>(root)];
    if (count > 0)
      results(library().ncclReduce(in, root == rank_ ? call.out : nullptr, count * element.count,
                                   element.type, op, root, comm_, stream));
    in += count * bytes;
  }
}

void Rank::put(const Call& call, cudaStream_t stream, Results& results) {
  const Library& nccl = library();
  if (call.kind == Collective::Exchange) return put_exchange(call, stream, results);
  if (call.kind == Collective::ReduceScatter) return put_reduce_scatter(call, stream, results);
  if (call.count == 0) return;
  if (reduces(call.kind)) {
    const Element element = *element_of(call.dtype);
    const Op op = *op_of(call.reduction, call.dtype);
    const size_t count = call.count * element.count;
    if (call.kind == Collective::AllReduce)
      results(nccl.ncclAllReduce(call.in, call.out, count, element.type, op, comm_, stream));
    else
      results(
          nccl.ncclReduce(call.in, call.out, count, element.type, op, call.root, comm_, stream));
    return;
  }
  const size_t bytes = call.count * kDTypeSizes[static_cast<size_t>(call.dtype)];
  switch (call.kind) {
    case Collective::Broadcast:
      return results(
          nccl.ncclBroadcast(call.out, call.out, bytes, Uint8, call.root, comm_, stream));
    case Collective::AllGather:
      return results(nccl.ncclAllGather(call.in, call.out, bytes, Uint8, comm_, stream));
    case Collective::Send:
      return results(nccl.ncclSend(call.in, bytes, Uint8, call.root, comm_, stream));
    case Collective::Receive:
      return results(nccl.ncclRecv(call.out, bytes, Uint8, call.root, comm_, stream));
    default: fail("distributed: NCCL has no such call");
  }
}

void Rank::launch(const std::vector<Call>& calls, DeviceStream stream, const Tick& tick) {
  const DeviceGuard guard(device_, "distributed");
  {
    const std::lock_guard lock(mutex_);
    check(!ended_ && comm_ != nullptr, "the communicator has been ended");
    Results results;
    results(library().ncclGroupStart());
    try {
      for (const Call& call : calls) put(call, stream_of(stream), results);
    } catch (...) {
      library().ncclGroupEnd();
      throw;
    }
    results(library().ncclGroupEnd());
    ensure(results.first());
  }
  settle(tick);
}

std::string Rank::error() {
  const Result now = state();
  return now == Success || now == InProgress ? "" : library().ncclGetErrorString(now);
}

void Rank::end() noexcept {
  ended_ = true;
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  const QuietDeviceGuard guard(device_);
  library().ncclCommAbort(comm_);
  comm_ = nullptr;
}

void Rank::abort(const std::string& reason) noexcept {
  if (ended_) return;
  // Before work ends without results, which a wait could take for good ones.
  if (!reason.empty()) fault_.report(reason);
  end();
}

// --- what the rest sees --------------------------------------------------------------------------

class All final : public Communicators {
 public:
  std::string missing_reason() override { return library().reason; }
  bool has(Collective kind, Reduction reduction, DType dtype) override {
    if (kind == Collective::Barrier) return false;
    return !reduces(kind) || (element_of(dtype) && op_of(reduction, dtype));
  }
  std::string new_id() override {
    check(library().reason.empty(), library().reason);
    UniqueId id{};
    const Result result = library().ncclGetUniqueId(&id);
    check(result == Success, "NCCL error: ", library().ncclGetErrorString(result));
    return {id.bytes, sizeof id.bytes};
  }
  std::unique_ptr<Communicator> join(int device, const std::string& id, int rank, int size,
                                     const Tick& tick) override {
    check(library().reason.empty(), library().reason);
    return std::make_unique<Rank>(device, id, rank, size, tick);
  }
};

}  // namespace

Communicators* communicators() noexcept {
  static Communicators& it = *new All;
  return &it;
}

}  // namespace moonlet::cuda::nccl
