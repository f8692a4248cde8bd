// interp/workers/pool.cpp: starting and ending the threads, and their queues.
#include "interp/workers/pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "interp/state/state.h"
#include "interp/workers/worker_state.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/threads.h"
#include "tensor/runtime/threads.h"

namespace moonlet::workers {
namespace {

// Reports that wait for each worker before it waits itself.
constexpr size_t kReports = 64;
// Workers may start workers, whose number grows with the power of how deep they lie.
constexpr int kMostLevels = 4;
thread_local int level = 0;  // of this thread: 0 where it is no worker

// How soon a wait sees that the run is to end; what arrives is seen at once.
constexpr auto kLook = std::chrono::milliseconds(20);

}  // namespace

// All pools that have threads, the oldest first: when the process exits without closing an
// interpreter, their threads must not run on while what they use ends.
class OpenPools {
 public:
  static OpenPools& all() {
    static OpenPools& value = *new OpenPools;
    return value;
  }

  void add(Pool* pool) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.push_back(pool);
  }
  // The pool may be destroyed afterwards.
  void remove(Pool* pool) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    std::erase(open_, pool);
    ended_.wait(lock, [&] { return ending_ != pool; });
  }
  // A pool that belongs to that state, or null.
  Pool* find(const StateData& owner) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Pool* pool : open_)
      if (&pool->owner_ == &owner) return pool;
    return nullptr;
  }
  // For the end of the process. Workers close their own pools, as they end: these are younger than
  // the pool that they belong to.
  void end_all() noexcept {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (open_.empty()) return;
      ending_ = open_.front();
      open_.erase(open_.begin());
      lock.unlock();
      ending_->end_threads();
      lock.lock();
      ending_ = nullptr;
      ended_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Pool*> open_;
  Pool* ending_ = nullptr;  // whose threads are ended now by another one than its owner's
};

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
void set_failure(Report& report, const char* message) noexcept {
  report.kind = Report::Kind::Failed;
  try {
    report.text = message;
  } catch (const std::bad_alloc&) {
    report.text.clear();
  }
}
}  // namespace

// While a worker runs that state, its owner can stop it.
class Worker::RunningState {
 public:
  RunningState(Worker& worker, StateData& data) : worker_(worker) {
    const std::lock_guard<std::mutex> lock(worker.pool_.mutex_);
    worker.running_ = &data;
    worker.thread_id_ = moonlet::thread_id();
    if (worker.pool_.ending_) request_stop(data, StopCause::Closed);
  }
  ~RunningState() {
    const std::lock_guard<std::mutex> lock(worker_.pool_.mutex_);
    worker_.running_ = nullptr;
  }
  RunningState(const RunningState&) = delete;
  RunningState& operator=(const RunningState&) = delete;

 private:
  Worker& worker_;
};

void Worker::run() noexcept {
  Report failure;
  failure.kind = Report::Kind::Ready;
  try {
    level = pool_.level_;
    use_this_thread_alone();
    WorkerState state(*this, pool_.owner_, pool_.options_, pool_.execution_);
    const RunningState running(*this, state.data());
    state.run(failure);
  } catch (const std::exception& e) {
    set_failure(failure, e.what());
  }
  if (failure.kind != Report::Kind::Failed) return;
  failure.worker = number_;
  {
    const std::lock_guard<std::mutex> lock(pool_.mutex_);
    failure_ = std::move(failure);
  }
  pool_.reported_.notify_one();
}

// --- pools ---------------------------------------------------------------------------------------

Pool::Pool(StateData& owner, int count, std::string module, Catalog catalog)
    : owner_(owner),
      module_(std::move(module)),
      catalog_(std::move(catalog)),
      options_(options_of_workers(owner)),
      execution_(execution),
      level_(level + 1) {
  check(level_ <= kMostLevels, "DataLoader: workers may start workers ", kMostLevels,
        " levels deep at most");
  static const int at_exit = std::atexit([] { OpenPools::all().end_all(); });
  (void)at_exit;
  OpenPools::all().add(this);
  try {
    const std::lock_guard<std::mutex> lock(mutex_);  // the end of the process waits for all of them
    for (int number = 1; number <= count; ++number)
      workers_.push_back(std::make_unique<Worker>(*this, number));
    // Threads start with the mask of who makes them: Ctrl-C is for the thread of the script.
    const platform::SignalMask mask(true);
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

// What has been reported, in that order, and then who has failed; under the lock.
std::optional<Report> Pool::take_report() {
  if (!reports_.empty()) {
    std::optional<Report> report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  for (const auto& worker : workers_)
    if (worker->failure_) return std::exchange(worker->failure_, std::nullopt);
  return std::nullopt;
}

std::optional<Report> Pool::receive(std::optional<Clock::time_point> until) {
  check_running();
  std::unique_lock<std::mutex> lock(mutex_);
  std::optional<Report> report;
  while (!(report = take_report())) {
    const Clock::time_point now = Clock::now();
    if (until && now >= *until) return std::nullopt;
    const Clock::time_point look = now + kLook;
    reported_.wait_until(lock, until ? std::min(look, *until) : look);
    if (execution.stop->requested()) {
      lock.unlock();
      throw_interrupted();
    }
  }
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
  // A library may end the process from one of them.
  const std::thread::id own = std::this_thread::get_id();
  for (const auto& worker : workers_)
    if (worker->thread_.joinable() && worker->thread_.get_id() != own) worker->thread_.join();
}

void Pool::stop() noexcept {
  OpenPools::all().remove(this);
  if (std::exchange(stopped_, true)) return;
  end_threads();
  reports_.clear();
  for (const auto& worker : workers_) worker->inbox_.clear();
}

void stop_pools_of(StateData& owner) noexcept {
  while (Pool* pool = OpenPools::all().find(owner)) pool->stop();
}

}  // namespace moonlet::workers
