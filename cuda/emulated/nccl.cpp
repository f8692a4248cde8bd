// cuda/emulated/nccl.cpp: NCCL between processes of one machine, by sockets. Work is a part of its
// stream; where streams run work when it is issued, a thread does it, so that no call waits. Ranks
// whose calls differ are an error, which the real library would not find.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "cuda/libraries/nccl_types.h"
#include "queue.h"
#include "tensor/core/half.h"

using namespace moonlet::cuda::nccl;

namespace {

using Bytes = std::shared_ptr<std::vector<char>>;

/// What goes to a rank, or comes from one, behind its size.
struct Message {
  int peer = 0;
  char* data = nullptr;
  std::size_t bytes = 0;
  Bytes keeps{};
  std::uint64_t size = 0;
  std::size_t done = 0;  // of the size and the data
};
/// Messages of calls that go on together, and what is made of them then.
struct Step {
  std::vector<Message> sent, received;
  std::vector<std::function<void()>> after;
};

constexpr int kTypes = Bfloat16 + 1;
constexpr std::size_t kWidths[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

template <class T>
void combine(char* to, const char* from, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    if (op == Sum) a = static_cast<T>(a + b);
    if (op == Prod) a = static_cast<T>(a * b);
    if ((op == Max && b > a) || (op == Min && b < a)) a = b;
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

void combine(char* to, const char* from, std::size_t count, Type type, Op op) {
  switch (type) {
    case Int8: return combine<std::int8_t>(to, from, count, op);
    case Uint8: return combine<std::uint8_t>(to, from, count, op);
    case Int32: return combine<std::int32_t>(to, from, count, op);
    case Uint32: return combine<std::uint32_t>(to, from, count, op);
    case Int64: return combine<std::int64_t>(to, from, count, op);
    case Uint64: return combine<std::uint64_t>(to, from, count, op);
    case Float16: return combine<moonlet::half>(to, from, count, op);
    case Float32: return combine<float>(to, from, count, op);
    case Float64: return combine<double>(to, from, count, op);
    case Bfloat16: return combine<moonlet::bfloat16>(to, from, count, op);
  }
}

}  // namespace

namespace moonlet::cuda::nccl {

/// Shared with its work, which may run when the communicator is no more.
struct Shared {
  int rank = 0, size = 0, device = 0;
  std::string name;
  std::vector<int> sockets;  // by rank; -1 for the own one
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};
  std::atomic<Result> error{Success};
  ~Shared() {
    for (const int socket : sockets)
      if (socket >= 0) ::close(socket);
  }
};
struct CommRecord {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::vector<std::thread> threads{};
};

}  // namespace moonlet::cuda::nccl

namespace {

using SharedRef = std::shared_ptr<Shared>;

// --- connections ---------------------------------------------------------------------------------

/// The address of a rank, in the namespace that has no files.
socklen_t address_of(const std::string& name, int rank, sockaddr_un& out) {
  out = {};
  out.sun_family = AF_UNIX;
  const std::string text = name + "/" + std::to_string(rank);
  std::memcpy(out.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

bool wait_for(const SharedRef& shared, int socket, short events) {
  while (!shared->aborted) {
    pollfd look{socket, events, 0};
    if (::poll(&look, 1, 20) > 0) return true;
  }
  return false;
}

int dial(const SharedRef& shared, int peer) {
  while (!shared->aborted) {
    const int out = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address;
    const socklen_t size = address_of(shared->name, peer, address);
    if (::connect(out, reinterpret_cast<sockaddr*>(&address), size) == 0) {
      const auto own = static_cast<std::int32_t>(shared->rank);
      if (::send(out, &own, sizeof own, MSG_NOSIGNAL) == sizeof own) return out;
    }
    ::close(out);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return -1;
}

/// Connects to the ranks before this one, and is called by those behind it.
Result connect_all(const SharedRef& shared) {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t size = address_of(shared->name, shared->rank, address);
  Result result = Success;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, shared->size) != 0)
    result = SystemError;
  for (int peer = 0; peer < shared->rank && result == Success; ++peer) {
    shared->sockets[static_cast<std::size_t>(peer)] = dial(shared, peer);
    if (shared->aborted) result = RemoteError;
  }
  for (int left = shared->size - 1 - shared->rank; left > 0 && result == Success; --left) {
    std::int32_t peer = -1;
    const int from = wait_for(shared, listener, POLLIN)
                         ? ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)
                         : -1;
    if (from < 0 || ::recv(from, &peer, sizeof peer, MSG_WAITALL) != sizeof peer || peer < 0 ||
        peer >= shared->size) {
      if (from >= 0) ::close(from);
      result = RemoteError;
    } else {
      shared->sockets[static_cast<std::size_t>(peer)] = from;
    }
  }
  ::close(listener);
  return result;
}

// --- steps ---------------------------------------------------------------------------------------

/// Moves some bytes of a message; false where the connection has ended.
bool move(int socket, Message& message, bool sends) {
  constexpr std::size_t kHead = sizeof message.size;
  const bool head = message.done < kHead;
  char* const at = head ? reinterpret_cast<char*>(&message.size) + message.done
                        : message.data + (message.done - kHead);
  const std::size_t left = head ? kHead - message.done : message.bytes + kHead - message.done;
  const ssize_t moved = sends ? ::send(socket, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : ::recv(socket, at, left, MSG_DONTWAIT);
  if (moved < 0) return errno == EAGAIN || errno == EINTR;
  if (moved == 0) return false;
  message.done += static_cast<std::size_t>(moved);
  return true;
}

bool is_done(const Message& message) { return message.done == sizeof message.size + message.bytes; }

/// Messages to a rank, and from one, go one behind the other.
Result run_messages(const SharedRef& shared, Step& step) {
  for (Message& each : step.sent) each.size = each.bytes;
  for (;;) {
    if (shared->aborted) return RemoteError;
    std::vector<pollfd> looks;
    std::vector<Message*> open;
    const auto collect = [&](std::vector<Message>& list, short events) {
      std::vector<bool> busy(static_cast<std::size_t>(shared->size), false);
      for (Message& each : list) {
        if (is_done(each) || busy[static_cast<std::size_t>(each.peer)]) continue;
        busy[static_cast<std::size_t>(each.peer)] = true;
        looks.push_back({shared->sockets[static_cast<std::size_t>(each.peer)], events, 0});
        open.push_back(&each);
      }
    };
    collect(step.sent, POLLOUT);
    const std::size_t sends = open.size();
    collect(step.received, POLLIN);
    if (open.empty()) return Success;
    ::poll(looks.data(), looks.size(), 20);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (looks[i].revents == 0) continue;
      if (!move(looks[i].fd, *open[i], i < sends)) return RemoteError;
      if (i >= sends && open[i]->done >= sizeof open[i]->size && open[i]->size != open[i]->bytes)
        return InvalidUsage;
    }
  }
}

void run(const SharedRef& shared, Step& step) {
  if (shared->error != Success) return;
  const Result result = run_messages(shared, step);
  if (result != Success) {
    // As the real one's kernels, it goes on until it is ended, whatever has gone wrong.
    shared->error = result;
    while (!shared->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  for (const auto& each : step.after) each();
}

// --- groups of calls -----------------------------------------------------------------------------

/// The calls of this thread's group.
struct Group {
  int depth = 0;
  Comm comm = nullptr;
  cudaStream_t stream = nullptr;
  Step step{};
};
thread_local Group group;

Result issue() {
  Step step = std::move(group.step);
  group.step = {};
  const Comm comm = group.comm;
  group.comm = nullptr;
  if (comm == nullptr) return Success;
  if (comm->shared->error != Success) return comm->shared->error;
  const auto work = std::make_shared<Step>(std::move(step));
  if (moonlet::emulated::runs_later()) {
    moonlet::emulated::enqueue(group.stream, [shared = comm->shared, work] { run(shared, *work); });
    return Success;
  }
  for (std::thread& each : comm->threads) each.join();
  comm->threads.clear();
  ++comm->shared->running;
  comm->threads.emplace_back([shared = comm->shared, work] {
    run(shared, *work);
    --shared->running;
  });
  return InProgress;
}

/// Adds what `fill` puts into the step of a call; ends the group where there is none.
template <class Fill>
Result add(Comm comm, cudaStream_t stream, Type type, Fill fill) {
  if (comm == nullptr || type < 0 || type >= kTypes) return InvalidArgument;
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream)) return InvalidUsage;
  group.comm = comm;
  group.stream = stream;
  fill(*comm->shared, group.step, kWidths[type]);
  return group.depth == 0 ? issue() : Success;
}

char* writable(const void* data) { return const_cast<char*>(static_cast<const char*>(data)); }

bool usable(const void* data, std::size_t bytes) {
  return moonlet::emulated::on_device(data, bytes);
}

void send_all(const Shared& shared, Step& step, const void* in, std::size_t bytes) {
  for (int peer = 0; peer < shared.size; ++peer)
    if (peer != shared.rank) step.sent.push_back({peer, writable(in), bytes});
}

/// Receives a part of each rank, and reduces them in their order.
void reduce_here(const Shared& shared, Step& step, const void* own, void* out, std::size_t count,
                 Type type, Op op) {
  const std::size_t bytes = count * kWidths[type];
  const auto parts =
      std::make_shared<std::vector<char>>(bytes * static_cast<std::size_t>(shared.size));
  for (int peer = 0; peer < shared.size; ++peer)
    if (peer != shared.rank)
      step.received.push_back(
          {peer, parts->data() + static_cast<std::size_t>(peer) * bytes, bytes, parts});
  step.after.emplace_back([=, rank = shared.rank, size = shared.size] {
    if (bytes == 0) return;
    std::memcpy(parts->data() + static_cast<std::size_t>(rank) * bytes, own, bytes);
    for (int peer = 1; peer < size; ++peer)
      combine(parts->data(), parts->data() + static_cast<std::size_t>(peer) * bytes, count, type,
              op);
    std::memcpy(out, parts->data(), bytes);
  });
}

}  // namespace

#define NCCL extern "C" [[gnu::visibility("default")]]

NCCL Result ncclGetVersion(int* version) {
  *version = 22809;
  return Success;
}

NCCL Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> made{0};
  std::random_device random;
  const std::string text = "moonlet-nccl-" + std::to_string(::getpid()) + "-" +
                           std::to_string(++made) + "-" + std::to_string(random());
  *id = {};
  std::memcpy(id->bytes, text.data(), text.size());
  return Success;
}

NCCL Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  if (rank < 0 || rank >= size) return InvalidArgument;
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0)
    return InvalidArgument;
  *comm = new CommRecord;
  const SharedRef& shared = (*comm)->shared;
  shared->rank = rank;
  shared->size = size;
  shared->name.assign(id.bytes, strnlen(id.bytes, sizeof id.bytes));
  shared->sockets.assign(static_cast<std::size_t>(size), -1);
  ++shared->running;
  (*comm)->threads.emplace_back([shared] {
    if (const Result result = connect_all(shared); result != Success) shared->error = result;
    --shared->running;
  });
  return InProgress;
}

NCCL Result ncclCommAbort(Comm comm) {
  comm->shared->aborted = true;
  for (std::thread& each : comm->threads) each.join();
  delete comm;
  return Success;
}

NCCL Result ncclCommGetAsyncError(Comm comm, Result* error) {
  *error = comm->shared->error;
  if (*error == Success && comm->shared->running > 0) *error = InProgress;
  return Success;
}

NCCL const char* ncclGetErrorString(Result result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return kTexts[result];
}

NCCL const char* ncclGetLastError(Comm) { return ""; }

NCCL Result ncclGroupStart() {
  ++group.depth;
  return Success;
}

NCCL Result ncclGroupEnd() {
  if (group.depth == 0) return InvalidUsage;
  return --group.depth == 0 ? issue() : Success;
}

NCCL Result ncclAllReduce(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                          cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    if (!usable(in, count * width) || !usable(out, count * width)) shared.error = InvalidArgument;
    send_all(shared, step, in, count * width);
    reduce_here(shared, step, in, out, count, type, op);
  });
}

NCCL Result ncclBroadcast(const void* in, void* out, std::size_t count, Type type, int root,
                          Comm comm, cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    const std::size_t bytes = count * width;
    if (!usable(out, bytes)) shared.error = InvalidArgument;
    if (shared.rank != root) {
      step.received.push_back({root, writable(out), bytes});
      return;
    }
    send_all(shared, step, in, bytes);
    if (in != out) step.after.emplace_back([=] { std::memcpy(out, in, bytes); });
  });
}

NCCL Result ncclReduce(const void* in, void* out, std::size_t count, Type type, Op op, int root,
                       Comm comm, cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    if (!usable(in, count * width)) shared.error = InvalidArgument;
    if (shared.rank == root)
      reduce_here(shared, step, in, out, count, type, op);
    else
      step.sent.push_back({root, writable(in), count * width});
  });
}

NCCL Result ncclAllGather(const void* in, void* out, std::size_t count, Type type, Comm comm,
                          cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    const std::size_t bytes = count * width;
    if (!usable(in, bytes) || !usable(out, bytes * static_cast<std::size_t>(shared.size)))
      shared.error = InvalidArgument;
    send_all(shared, step, in, bytes);
    for (int peer = 0; peer < shared.size; ++peer)
      if (peer != shared.rank)
        step.received.push_back(
            {peer, static_cast<char*>(out) + static_cast<std::size_t>(peer) * bytes, bytes});
    char* const own = static_cast<char*>(out) + static_cast<std::size_t>(shared.rank) * bytes;
    step.after.emplace_back([=] { std::memmove(own, in, bytes); });
  });
}

NCCL Result ncclReduceScatter(const void* in, void* out, std::size_t count, Type type, Op op,
                              Comm comm, cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    const std::size_t bytes = count * width;
    if (!usable(out, bytes) || !usable(in, bytes * static_cast<std::size_t>(shared.size)))
      shared.error = InvalidArgument;
    char* const from = writable(in);
    for (int peer = 0; peer < shared.size; ++peer)
      if (peer != shared.rank)
        step.sent.push_back({peer, from + static_cast<std::size_t>(peer) * bytes, bytes});
    reduce_here(shared, step, from + static_cast<std::size_t>(shared.rank) * bytes, out, count,
                type, op);
  });
}

NCCL Result ncclSend(const void* in, std::size_t count, Type type, int peer, Comm comm,
                     cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    if (!usable(in, count * width)) shared.error = InvalidArgument;
    step.sent.push_back({peer, writable(in), count * width});
  });
}

NCCL Result ncclRecv(void* out, std::size_t count, Type type, int peer, Comm comm,
                     cudaStream_t stream) {
  return add(comm, stream, type, [&](Shared& shared, Step& step, std::size_t width) {
    if (!usable(out, count * width)) shared.error = InvalidArgument;
    step.received.push_back({peer, static_cast<char*>(out), count * width});
  });
}
