// tensor/cpu/common/abandonable.cpp: threads for calls that cannot be stopped.
#include "tensor/cpu/common/abandonable.h"

#include <omp.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "tensor/core/platform/threads.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/signals.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::cpu {

namespace {

using namespace std::chrono_literals;

constexpr int kMostAbandoned = thresholds::kMostAbandoned;
constexpr auto kLook = 5ms;
std::atomic<int> abandoned{0};

struct Job {
  std::function<void()> work;
  StopFlag stop;
  int threads = 1;
  memory::Budget* budget = nullptr;
  std::exception_ptr failure;

  std::mutex mutex;
  std::condition_variable ended;
  bool is_done = false, is_abandoned = false;

  void run() noexcept {
    execution.stop = &stop;
    omp_set_num_threads(threads);
    memory::switch_account(budget, nullptr);
    try {
      work();
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    work = nullptr;  // its memory ends here, whoever waits
    memory::switch_account(nullptr, nullptr);
    if (budget != nullptr) budget->release();
    const std::lock_guard lock(mutex);
    is_done = true;
    if (is_abandoned) --abandoned;
    ended.notify_all();
  }
};

std::atomic<bool> leaves_at_exit{false};

// A library that is unloaded, or ends with its process, takes what the threads use away.
void wait_for_all() {
  while (abandoned > 0 && !leaves_at_exit) std::this_thread::sleep_for(kLook);
}

void note_abandoned() {
  static const bool registered = [] {
    // A child process has none of the threads.
    platform::at_fork(nullptr, [] { abandoned = 0; });
    return std::atexit(wait_for_all) == 0;
  }();
  static_cast<void>(registered);
  ++abandoned;
}

// False where there is no thread to be had.
bool start(const std::shared_ptr<Job>& job) {
  const SignalsBlocked blocked;  // signals are for threads that run interpreters
  if (job->budget != nullptr) job->budget->retain();
  try {
    std::thread([job] { job->run(); }).detach();
    return true;
  } catch (const std::system_error&) {
    if (job->budget != nullptr) job->budget->release();
    return false;
  }
}

}  // namespace

void leave_abandoned_at_exit() noexcept {
  leaves_at_exit = true;
  platform::at_exit([](int code) {
    if (abandoned == 0) return;
    std::fflush(nullptr);
    platform::leave("", 0, code);
  });
}

void run_abandonable(std::function<void()> work) {
  const bool is_stoppable = execution.stop != &never_stopped && !omp_in_parallel();
  if (!is_stoppable || memory::shortage.load(std::memory_order_relaxed)) return work();
  while (abandoned >= kMostAbandoned) {
    stop_if_requested();
    std::this_thread::sleep_for(kLook);
  }
  stop_if_requested();
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  job->threads = omp_get_max_threads();
  job->budget = memory::account.budget;
  if (!start(job)) return job->work();
  std::unique_lock lock(job->mutex);
  while (!job->is_done && !execution.stop->requested()) job->ended.wait_for(lock, kLook);
  if (!job->is_done) {
    note_abandoned();
    job->is_abandoned = true;
    job->stop.request_until_cancelled("interrupted!");
    lock.unlock();
    throw_interrupted();
  }
  if (job->failure) std::rethrow_exception(job->failure);
}

}  // namespace moonlet::cpu
