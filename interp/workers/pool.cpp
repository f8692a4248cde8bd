// interp/workers/pool.cpp: starting and ending the threads, and their queues.
#include "interp/workers/pool.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "interp/state.h"
#include "interp/workers/worker_state.h"
#include "tensor/error.h"
#include "tensor/threads.h"

namespace moonlet::workers {
namespace {

// Reports that wait for each worker before it waits itself.
constexpr size_t kReports = 64;
// How soon a wait sees that the run is to end; what arrives is seen at once.
constexpr auto kLook = std::chrono::milliseconds(20);

// All pools: when the process exits without closing an interpreter, their threads must not run on
// while what they use ends.
struct Pools {
  std::mutex mutex;
  std::set<Pool*> open;
};

Pools& pools() {
  static Pools& value = *new Pools;
  return value;
}

void stop_all() {
  for (;;) {
    Pool* pool = nullptr;
    {
      const std::lock_guard<std::mutex> lock(pools().mutex);
      if (pools().open.empty()) return;
      pool = *pools().open.begin();
    }
    pool->stop();
  }
}

// Blocks all signals but those of faults and the one that wakes interpreters, while threads are
// made, which start with the mask of who makes them: Ctrl-C is for the thread of the script.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigfillset(&set);
    for (const int signal : {SIGURG, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
      sigdelset(&set, signal);
    pthread_sigmask(SIG_SETMASK, &set, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// --- workers -------------------------------------------------------------------------------------

const Catalog& Worker::catalog() const { return pool_.catalog_; }
const std::string& Worker::module() const { return pool_.module_; }

MessagePtr Worker::receive() {
  std::unique_lock<std::mutex> lock(pool_.mutex_);
  arrived_.wait(lock, [this] { return pool_.ending_ || !inbox_.empty(); });
  if (pool_.ending_) return nullptr;
  MessagePtr message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

void Worker::send(MessagePtr message) {
  Report report;
  report.kind = Report::Kind::Values;
  report.message = std::move(message);
  this->report(std::move(report));
}

void Worker::report(Report report) {
  report.worker = number_;
  std::unique_lock<std::mutex> lock(pool_.mutex_);
  const size_t room = kReports * pool_.workers_.size();
  pool_.taken_.wait(lock, [&] { return pool_.ending_ || pool_.reports_.size() < room; });
  if (pool_.ending_) fail("the worker was stopped");
  pool_.reports_.push_back(std::move(report));
  lock.unlock();
  pool_.reported_.notify_one();
}

namespace {
// Short of memory it goes without a text.
void set_text(Report& failure, const char* text) noexcept {
  try {
    failure.text = text;
  } catch (const std::bad_alloc&) {
  }
}
}  // namespace

void Worker::run() noexcept {
  use_this_thread_alone();
  Report failure;
  failure.kind = Report::Kind::Ready;
  try {
    WorkerState state(*this, pool_.owner_, pool_.options_, pool_.execution_);
    {
      const std::lock_guard<std::mutex> lock(pool_.mutex_);
      running_ = &state.data();
      thread_id_ = moonlet::thread_id();
      if (pool_.ending_) request_stop(*running_, StopCause::Closed);
    }
    state.run(failure);
    const std::lock_guard<std::mutex> lock(pool_.mutex_);
    running_ = nullptr;
  } catch (const std::exception& e) {
    failure.kind = Report::Kind::Failed;
    set_text(failure, e.what());
  }
  if (failure.kind != Report::Kind::Failed) return;
  failure.worker = number_;
  {
    const std::lock_guard<std::mutex> lock(pool_.mutex_);
    try {
      pool_.reports_.push_back(std::move(failure));
    } catch (const std::bad_alloc&) {  // which leaves it as it was
      failed_ = true;
      failure_ = std::move(failure);
    }
  }
  pool_.reported_.notify_one();
}

// --- pools ---------------------------------------------------------------------------------------

Pool::Pool(StateData& owner, int count, std::string module, Catalog catalog)
    : owner_(owner),
      module_(std::move(module)),
      catalog_(std::move(catalog)),
      options_(options_of_workers(owner)),
      execution_(execution) {
  static const int at_exit = std::atexit(stop_all);
  (void)at_exit;
  {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().open.insert(this);
  }
  try {
    for (int number = 1; number <= count; ++number)
      workers_.push_back(std::make_unique<Worker>(*this, number));
    const SignalsBlocked blocked;
    for (const auto& worker : workers_)
      worker->thread_ = std::thread([w = worker.get()] { w->run(); });
  } catch (const std::exception& e) {
    stop();
    fail("DataLoader: a thread for a worker cannot be started: ", e.what());
  }
}

void Pool::check_running() const {
  if (generation_ != fork_generation())
    fail(
        "DataLoader: this process was forked after the workers of this pass had started, and has "
        "none of them; begin another pass here");
  if (stopped_) fail("DataLoader: the workers of this pass were stopped");
}

void Pool::send(int worker, const MessagePtr& message) {
  check_running();
  Worker& to = *workers_[static_cast<size_t>(worker) - 1];
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    to.inbox_.push_back(message);
  }
  to.arrived_.notify_one();
}

std::optional<Report> Pool::unreported_failure() {
  for (const auto& worker : workers_)
    if (std::exchange(worker->failed_, false)) return std::move(worker->failure_);
  return std::nullopt;
}

std::optional<Report> Pool::receive(std::optional<Clock::time_point> until) {
  check_running();
  std::unique_lock<std::mutex> lock(mutex_);
  while (reports_.empty()) {
    if (auto failure = unreported_failure()) return failure;
    const Clock::time_point now = Clock::now();
    if (until && now >= *until) return std::nullopt;
    const Clock::time_point look = now + kLook;
    reported_.wait_until(lock, until ? std::min(look, *until) : look);
    if (execution.stop->requested()) {
      lock.unlock();
      throw_interrupted();
    }
  }
  Report report = std::move(reports_.front());
  reports_.pop_front();
  lock.unlock();
  taken_.notify_all();
  return report;
}

void Pool::end_threads() noexcept {
  if (generation_ != fork_generation()) {
    // What threads of the parent may have locked, or wait for, is not ended but left, or made anew.
    for (auto& worker : workers_) static_cast<void>(worker.release());
    workers_.clear();
    new (&mutex_) std::mutex;
    new (&taken_) std::condition_variable;
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    for (const auto& worker : workers_) {
      if (worker->running_ != nullptr)
        request_stop_from_outside(*worker->running_, StopCause::Closed, worker->thread_id_);
      worker->arrived_.notify_one();
    }
    taken_.notify_all();
  }
  for (const auto& worker : workers_)
    if (worker->thread_.joinable()) worker->thread_.join();
}

void Pool::stop() noexcept {
  {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().open.erase(this);
  }
  if (std::exchange(stopped_, true)) return;
  end_threads();
  reports_.clear();
  for (const auto& worker : workers_) worker->inbox_.clear();
}

void stop_pools_of(StateData& owner) noexcept {
  for (;;) {
    Pool* found = nullptr;
    {
      const std::lock_guard<std::mutex> lock(pools().mutex);
      for (Pool* pool : pools().open)
        if (&pool->owner_ == &owner) found = pool;
    }
    if (found == nullptr) return;
    found->stop();
  }
}

}  // namespace moonlet::workers
