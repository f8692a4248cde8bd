// interp/workers/pool.h: threads with an interpreter of their own each, that work for the script of
// another one. Messages go from it to each of them and back.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "interp/embed/options.h"
#include "interp/state/run_limits.h"
#include "interp/workers/catalog.h"
#include "interp/workers/message.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/forked.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {
struct StateData;
}

namespace moonlet::workers {

using Clock = std::chrono::steady_clock;

// What a worker says.
struct Report {
  enum class Kind : uint8_t {
    Ready,   // its libraries are loaded; `missing` of the catalog
    Values,  // a message of its code
    Output,  // what it prints, for an owner whose host takes that
    Failed   // it has ended by an error
  };
  Kind kind = Kind::Failed;
  int worker = 0;  // from 1
  std::vector<int> missing;
  MessagePtr message;
  std::string text;
  Stream stream = Stream::Output;
  StopCause cause = StopCause::None;  // of a failure by a limit that it shares with its owner
};

class Pool;

// A worker as its own thread sees it.
class Worker {
 public:
  Worker(Pool& pool, int number) : pool_(pool), number_(number) {}
  int number() const { return number_; }
  const Catalog& catalog() const;
  const std::string& module() const;
  // The next message; null when the worker is to end.
  MessagePtr receive();
  // Waits while the owner has many reports to read. Throws when the worker is to end.
  void send(MessagePtr message);
  void report(Report report);

 private:
  friend class Pool;
  class RunningState;
  void run() noexcept;
  // The messages for it, and the state that it runs, while it does; of the pool's mutex.
  std::deque<MessagePtr> inbox_;
  std::condition_variable arrived_;
  StateData* running_ = nullptr;
  int thread_id_ = 0;
  // Why it has ended, until the owner has read that: kept here, as a report must not need memory.
  std::optional<Report> failure_;
  Pool& pool_;
  const int number_;
  std::thread thread_;
};

class Pool {
 public:
  // Starts `count` threads, each of which calls `run` of a module of the standard library.
  // Throws when the system has no more threads.
  Pool(StateData& owner, int count, std::string module, Catalog catalog);
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return static_cast<int>(workers_.size()); }
  const Catalog& catalog() const { return catalog_; }
  void send(int worker, const MessagePtr& message);
  // The next report; nothing when there is none until then. Throws Interrupted when the run of the
  // calling interpreter is to end.
  std::optional<Report> receive(std::optional<Clock::time_point> until);
  // Ends and joins all threads: what they run is stopped. For the owner's thread; the end of the
  // process does the same from its own.
  void stop() noexcept;
  bool stopped() const { return stopped_ || generation_ != fork_generation(); }

 private:
  friend class Worker;
  friend class OpenPools;
  void end_threads() noexcept;
  // Throws when the workers can do nothing more for the calling process.
  void check_running() const;
  std::optional<Report> take_report();

  StateData& owner_;
  const std::string module_;
  const Catalog catalog_;
  const InterpreterOptions options_;  // of the workers' interpreters
  const ExecutionState execution_;    // of the script, which theirs begin with
  const int level_;                   // of the workers: 1, or one more than those that started them
  std::mutex mutex_;
  std::condition_variable reported_, taken_;
  std::deque<Report> reports_;
  bool ending_ = false;
  bool stopped_ = false;
  const int generation_ = fork_generation();
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Ends the threads that work for the scripts of that state: its run has ended, with its limits.
void stop_pools_of(StateData& owner) noexcept;

}  // namespace moonlet::workers
