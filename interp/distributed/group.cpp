// interp/distributed/group.cpp: a group of ranks, whose collectives run on a thread.
#include "interp/distributed/group.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <utility>

namespace moonlet::distributed {
namespace {

// Libraries write to connections whose other side may have ended: on this thread, and those it
// starts, that is an error of the call instead of the signal that ends the process.
void block_pipe_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// --- work ----------------------------------------------------------------------------------------

void GroupWork::begin() { began_ = now_in_seconds(); }

bool GroupWork::wait(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_until(lock, after(seconds), [this] { return done_; });
}

std::string GroupWork::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

bool GroupWork::finished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

void GroupWork::finish(std::string error, int source) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return;
    done_ = true;
    ended_at_ = now_in_seconds();
    error_ = std::move(error);
    source_ = source;
  }
  ended_.notify_all();
}

// --- the group -----------------------------------------------------------------------------------

RankGroup::RankGroup(std::shared_ptr<RankRun> run, const std::string& name,
                     std::vector<int> members, int position, double timeout)
    : run_(std::move(run)),
      members_(std::move(members)),
      timeout_(timeout),
      transport_(make_transport({*run_, name, members_, position, timeout})) {
  thread_ = std::thread([this] { serve(); });
}

RankGroup::~RankGroup() {
  run_->forget(this);
  bool busy = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    busy = !jobs_.empty();
    for (const Transfer& each : transfers_) busy = busy || !each.work->finished();
  }
  if (busy) abort("its process group has been destroyed");
  changed_.notify_all();
  thread_.join();
  for (Transfer& each : transfers_) each.thread.join();
}

std::string RankGroup::aborted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return abort_reason_;
}

void RankGroup::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!abort_reason_.empty()) return;
    abort_reason_ = reason;
  }
  transport_->interrupt();
}

std::string RankGroup::failure(const Call& call, const std::exception& e) {
  std::string reason = aborted();
  if (!reason.empty()) return reason;
  std::string text = e.what();
  const bool timed_out = text.find("Timed out") != text.npos;
  if (const size_t end = text.find("] "); text.rfind("[", 0) == 0 && end != text.npos)
    text.erase(0, end + 2);
  reason = dynamic_cast<const Disagreement*>(&e) != nullptr
               ? text
               : run_->explain(members_, call.what, timed_out, timeout_, text);
  // The connections have ended: what comes later fails for the same reason.
  abort(reason);
  return reason;
}

void RankGroup::connect_all() {
  transport_->connect([this] {
    const std::string reason = aborted();
    if (!reason.empty()) throw std::runtime_error(reason);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) throw std::runtime_error("its process group has been destroyed");
  });
}

std::shared_ptr<Work> RankGroup::connect() {
  Call call;
  call.what = "init_process_group";
  const auto work = std::make_shared<GroupWork>(std::move(call));
  const std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back({work, [this] { connect_all(); }});
  changed_.notify_all();
  return work;
}

std::shared_ptr<Work> RankGroup::start(Call call) {
  const bool transfers = call.kind == Kind::Send || call.kind == Kind::Receive;
  const auto work = std::make_shared<GroupWork>(std::move(call));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!abort_reason_.empty()) {
    work->finish(abort_reason_);
  } else if (transfers) {
    start_transfer(work);
  } else {
    jobs_.push_back({work, [this, work] { transport_->run(work->call); }});
    changed_.notify_all();
  }
  return work;
}

// With the lock held.
void RankGroup::start_transfer(const std::shared_ptr<GroupWork>& work) {
  for (auto each = transfers_.begin(); each != transfers_.end();) {
    if (!each->work->finished()) {
      ++each;
      continue;
    }
    each->thread.join();
    each = transfers_.erase(each);
  }
  transfers_.push_back({work, std::thread([this, work] {
                          block_pipe_signal();
                          try {
                            run_->doing(work->call.what);
                            work->begin();
                            const int source = transport_->transfer(work->call);
                            run_->doing("");
                            work->finish("", source);
                          } catch (const std::exception& e) {
                            work->finish(failure(work->call, e));
                          }
                        })});
}

void RankGroup::run_job(Job& job) {
  const std::string reason = aborted();
  if (!reason.empty()) return job.work->finish(reason);
  try {
    run_->doing(job.work->call.what);
    job.work->begin();
    job.run();
    run_->doing("");
    job.work->finish("");
  } catch (const std::exception& e) {
    job.work->finish(failure(job.work->call, e));
  }
}

void RankGroup::serve() {
  block_pipe_signal();
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = jobs_.front();
    lock.unlock();
    run_job(job);
    job = {};
    lock.lock();
    jobs_.pop_front();
  }
}

}  // namespace moonlet::distributed
