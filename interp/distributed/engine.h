// interp/distributed/engine.h: what the plugin of processes that work together offers: stores of
// keys, the run of which a process is a rank, groups of ranks with their collectives, and the start
// of the processes. The plugin knows sockets and Gloo; this side of it knows Lua.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/dtype.h"
#include "tensor/runtime/collective_call.h"
#include "tensor/runtime/streams.h"

namespace moonlet::distributed {

// Texts by keys that several processes see. All throw std::exception; `seconds` bounds a wait.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(std::string_view key, std::string_view value, const Tick& tick) = 0;
  // Waits until the key is there; nothing where it is not in that time.
  virtual std::optional<std::string> get(std::string_view key, double seconds,
                                         const Tick& tick) = 0;
  // Adds to the number of that key, which is 0 where it is not there; the sum.
  virtual int64_t add(std::string_view key, int64_t amount, const Tick& tick) = 0;
  virtual bool wait(const std::vector<std::string>& keys, double seconds, const Tick& tick) = 0;
  // Whether it was there.
  virtual bool remove(std::string_view key, const Tick& tick) = 0;
  // Sets the key to `desired` where its value is `expected`, or it is not there and `expected` is
  // empty. The value that it has then; nothing where it is still not there.
  virtual std::optional<std::string> compare_set(std::string_view key, std::string_view expected,
                                                 std::string_view desired, const Tick& tick) = 0;
  virtual int64_t count(const Tick& tick) = 0;
};

// How a rank is no longer one of its run. Left: it said goodbye.
enum class End : uint8_t { None, Left, Died, Failed, Silent };
struct Peer {
  int rank = 0;
  End end = End::None;
  std::string text{};   // why it failed
  std::string doing{};  // the call that it is in, or was in when it was last heard of
  double age = 0;       // seconds since that
};

// A store that other processes reach by TCP, served by a thread until it is destroyed.
class Server {
 public:
  virtual ~Server() = default;
  virtual int port() const = 0;
  // The ranks of a run that are there no more, the first one first.
  virtual std::vector<Peer> gone(std::string_view run) = 0;
  // Waits until the ranks that have come have ended, `seconds` at most.
  virtual void wait_for_ranks(double seconds, const Tick& tick) = 0;
};

class Work {
 public:
  virtual ~Work() = default;
  // Whether it is done in that time.
  virtual bool wait(double seconds) = 0;
  // Once it is done: why it failed, empty where it did not; who sent what was received.
  virtual std::string error() const = 0;
  virtual int source() const = 0;
  // What is put into the current stream from now on waits for it, and the host does not; false
  // where that takes the host.
  virtual bool join() { return false; }
  // When the ranks began with it and when it ended, in seconds of the steady clock; 0 before.
  virtual double began() const = 0;
  virtual double ended() const = 0;
};

// Ranks that have collectives of their own, one after the other on a thread of the group, or on a
// stream of a device.
class Group {
 public:
  virtual ~Group() = default;
  virtual std::shared_ptr<Work> start(Call call) = 0;
  // Of a group whose tensors are on a device.
  virtual std::optional<DeviceStream> stream() const { return std::nullopt; }
  // What goes on and what is started later fails with that reason.
  virtual void abort(const std::string& reason) noexcept = 0;
};

// This process as a rank of a run. A thread tells the store that it lives, and hears from it who
// does no longer; groups with such a rank are aborted.
class Run {
 public:
  virtual ~Run() = default;
  virtual Store& store() = 0;
  // `members` are ranks of the run, this one at `position`. The address that others reach this
  // process at is that by which it reaches the store. Its first work is the connection.
  virtual std::shared_ptr<Group> group(const std::string& name, std::vector<int> members,
                                       int position, double timeout,
                                       std::shared_ptr<Work>& connected) = 0;
  virtual std::vector<Peer> peers(const Tick& tick) = 0;
  // Calls `ended` with the reason when one of the members has ended, on a thread of the run, until
  // the result is destroyed.
  virtual std::shared_ptr<void> watch(std::vector<int> members,
                                      std::function<void(const std::string&)> ended) = 0;
  // What this process does, which others hear when they wait for it in vain.
  virtual void doing(const std::string& what) = 0;
  // Why `call` has failed for these members: who of them has ended, which this waits for a moment
  // to hear, or what they do. Others hear that it has been given up where its time is over.
  virtual std::string explain(const std::vector<int>& members, const std::string& call,
                              bool timed_out, double timeout, const std::string& error) = 0;
  // Says goodbye, or why this rank fails.
  virtual void leave(bool failed, const std::string& reason) noexcept = 0;
};

struct Endpoint {
  std::string host;
  int port = 0;
  std::string secret{};
};

// A program that is started as a rank.
struct Rank {
  int number = 0;
  std::vector<std::string> arguments, environment;
};
struct RankEnd {
  int number = 0;
  int status = 0;  // as ProgramResult
  bool first = false;
  std::string errors;  // the end of what it wrote to standard error
};

// The plugin's functions; they throw std::exception.
struct Engine {
  uint64_t version;  // kVersion of its build
  std::unique_ptr<Server> (*serve)(const Endpoint& endpoint);
  std::shared_ptr<Store> (*connect)(const Endpoint& endpoint, double seconds, const Tick& tick);
  std::shared_ptr<Store> (*open_file)(const std::string& path);
  std::shared_ptr<Run> (*join)(const Endpoint& endpoint, const std::string& run, int rank, int size,
                               double timeout, bool keeps_store, const Tick& tick);
  // Runs all to their ends, with each line of output passed to `line`. The first that fails, or an
  // exception of `tick`, ends the others.
  std::vector<RankEnd> (*launch)(
      const std::vector<Rank>& ranks,
      const std::function<void(int rank, bool error, std::string_view line)>& line,
      const Tick& tick);
};
inline constexpr uint64_t kVersion = 2;
// The plugin's one exported object.
inline constexpr const char* kEngine = "moonlet_distributed_engine";

}  // namespace moonlet::distributed
