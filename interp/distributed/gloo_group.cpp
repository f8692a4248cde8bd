// interp/distributed/gloo_group.cpp: a group of ranks over Gloo.
#include "interp/distributed/gloo_group.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <utility>

#include <gloo/common/error.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "interp/distributed/collectives.h"

namespace moonlet::distributed {
namespace {

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

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(std::max(seconds, 0.001) * 1000));
}

double now_in_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Gloo writes to connections whose other side may have ended: on this thread, and those it starts,
// that is an error of the call instead of the signal that ends the process.
void block_pipe_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

// --- work ----------------------------------------------------------------------------------------

void GlooWork::begin() { began_ = now_in_seconds(); }

bool GlooWork::wait(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_until(lock, after(seconds), [this] { return done_; });
}

std::string GlooWork::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

bool GlooWork::finished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

void GlooWork::finish(std::string error, int source) {
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

GlooGroup::GlooGroup(std::shared_ptr<RankRun> run, std::string name, std::vector<int> members,
                     int position, double timeout)
    : run_(std::move(run)),
      name_(std::move(name)),
      members_(std::move(members)),
      position_(position),
      timeout_(timeout) {
  thread_ = std::thread([this] { serve(); });
}

GlooGroup::~GlooGroup() {
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

std::string GlooGroup::aborted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return abort_reason_;
}

void GlooGroup::abort(const std::string& reason) noexcept {
  std::shared_ptr<gloo::rendezvous::Context> context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!abort_reason_.empty()) return;
    abort_reason_ = reason;
    if (connected_) context = context_;
  }
  if (context == nullptr) return;
  // A wait for nothing that ends at once has Gloo end all pairs of the context.
  try {
    char nothing = 0;
    context->createUnboundBuffer(&nothing, 1)->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
  }
}

std::string GlooGroup::failure(const std::exception& e) {
  std::string reason = aborted();
  if (!reason.empty()) return reason;
  std::string text = e.what();
  const bool timed_out = text.find("Timed out") != text.npos;
  if (const size_t end = text.find("] "); text.rfind("[", 0) == 0 && end != text.npos)
    text.erase(0, end + 2);
  reason = run_->explain(members_, timed_out, timeout_, text);
  // The pairs have ended: what comes later fails for the same reason.
  abort(reason);
  return reason;
}

void GlooGroup::connect_all() {
  gloo::transport::tcp::attr attributes(run_->own_address().c_str());
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  const auto context =
      std::make_shared<gloo::rendezvous::Context>(position_, static_cast<int>(members_.size()));
  context->setTimeout(milliseconds_of(std::min(timeout_, 10.0)));
  const Tick tick = [this] {
    const std::string reason = aborted();
    if (!reason.empty()) throw std::runtime_error(reason);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) throw std::runtime_error("its process group has been destroyed");
  };
  StoreClient client(run_->endpoint(), timeout_, tick);
  PairStore store(client, name_, timeout_, tick);
  context->connectFullMesh(store, device);
  context->setTimeout(milliseconds_of(timeout_));
  const std::lock_guard<std::mutex> lock(mutex_);
  context_ = context;
  connected_ = true;
}

std::shared_ptr<Work> GlooGroup::connect() {
  Call call;
  call.what = "init_process_group";
  const auto work = std::make_shared<GlooWork>(std::move(call));
  const std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back({work, [this] { connect_all(); }});
  changed_.notify_all();
  return work;
}

std::shared_ptr<Work> GlooGroup::start(Call call) {
  const bool transfers = call.kind == Kind::Send || call.kind == Kind::Receive;
  const auto work = std::make_shared<GlooWork>(std::move(call));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!abort_reason_.empty()) {
    work->finish(abort_reason_);
  } else if (transfers) {
    start_transfer(work);
  } else {
    jobs_.push_back({work, [this, work] { run_collective(context_, work->call); }});
    changed_.notify_all();
  }
  return work;
}

// With the lock held.
void GlooGroup::start_transfer(const std::shared_ptr<GlooWork>& work) {
  for (auto each = transfers_.begin(); each != transfers_.end();) {
    if (!each->work->finished()) {
      ++each;
      continue;
    }
    each->thread.join();
    each = transfers_.erase(each);
  }
  transfers_.push_back({work, std::thread([this, work, context = context_] {
                          block_pipe_signal();
                          try {
                            run_->doing(work->call.what);
                            work->begin();
                            const int source = run_transfer(*context, work->call);
                            run_->doing("");
                            work->finish("", source);
                          } catch (const std::exception& e) {
                            work->finish(failure(e));
                          }
                        })});
}

void GlooGroup::run_job(Job& job) {
  const std::string reason = aborted();
  if (!reason.empty()) return job.work->finish(reason);
  try {
    run_->doing(job.work->call.what);
    job.work->begin();
    job.run();
    run_->doing("");
    job.work->finish("");
  } catch (const std::exception& e) {
    job.work->finish(failure(e));
  }
}

void GlooGroup::serve() {
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
