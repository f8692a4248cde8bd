// interp/distributed/device_group.cpp: groups of ranks whose tensors are on devices.
#include "interp/distributed/device_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::distributed {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookForEnds{5}, kLookForFaults{50};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, 1e8)));
}

}  // namespace

// Calls that were put into the stream together.
class DeviceWork final : public Work {
 public:
  DeviceWork(std::string what, int device, double timeout)
      : what(std::move(what)), late(after(timeout)), device_(device) {}

  bool wait(double seconds) override {
    const Clock::time_point until = after(seconds);
    while (!look())
      if (Clock::now() >= until)
        return false;
      else
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    return true;
  }
  std::string error() const override {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  int source() const override { return -1; }
  // The device's own time, which the host does not see.
  double began() const override { return 0; }
  double ended() const override { return 0; }
  bool join() override {
    if (launched_) end_.wait(current_stream(device_));
    return true;
  }

  // Whether it has ended; asks the device.
  bool look() {
    if (done_) return true;
    if (!launched_ || !end_.query()) return false;
    done_ = true;
    return true;
  }
  bool is_done() const { return done_; }
  void put(DeviceStream stream) {
    end_.record(stream);
    launched_ = true;
  }
  void fail_with(const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    error_ = error;
    done_ = true;
  }

  const std::string what;
  const Clock::time_point late;

 private:
  const int device_;
  Event end_;
  std::atomic<bool> launched_{false}, done_{false};
  mutable std::mutex mutex_;
  std::string error_;
};

DeviceGroup::DeviceGroup(std::shared_ptr<Run> run, std::vector<int> members, double timeout,
                         int device, std::unique_ptr<Communicator> communicator)
    : run_(std::move(run)),
      members_(std::move(members)),
      timeout_(timeout),
      device_(device),
      stream_(require_streams("distributed").from_pool(device, -1)),
      communicator_(std::move(communicator)) {
  ends_ = std::thread([this] { look_for_ends(); });
  faults_ = std::thread([this] { look_for_faults(); });
  watch_ = run_->watch(members_, [this](const std::string& reason) { abort(reason); });
}

// What has been put into the stream is let go on to its end.
DeviceGroup::~DeviceGroup() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return works_.empty() || !abort_reason_.empty(); });
    ending_ = true;
  }
  watch_.reset();
  changed_.notify_all();
  faults_.join();
  ends_.join();
}

void DeviceGroup::abort(const std::string& reason) noexcept {
  std::deque<std::shared_ptr<DeviceWork>> works;
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_.empty()) return;
    abort_reason_ = reason;
    works.swap(works_);
  }
  for (const auto& work : works) work->fail_with(reason);
  changed_.notify_all();
  communicator_->abort(works.empty() ? "" : works.front()->what + ": " + reason);
}

std::shared_ptr<Work> DeviceGroup::start(Call call) {
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  return start_all(std::move(calls));
}

std::shared_ptr<Work> DeviceGroup::start_all(std::vector<Call> calls) {
  DeviceGraphs* const graphs = opened_backend(stream_type())->graphs();
  check(graphs == nullptr || !graphs->is_capturing(device_),
        "distributed: a collective cannot be a part of a graph");
  const auto work = std::make_shared<DeviceWork>(calls.front().what, device_, timeout_);
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_.empty()) {
      work->fail_with(abort_reason_);
      return work;
    }
    works_.push_back(work);
  }
  changed_.notify_all();
  run_->doing(work->what);
  try {
    launch(calls, *work);
  } catch (const Interrupted&) {
    abort("an interrupt has ended " + work->what);
    throw;
  } catch (const std::exception& e) {
    abort(fault_of(*work, e.what(), false));
  }
  return work;
}

void DeviceGroup::launch(const std::vector<Call>& calls, DeviceWork& work) {
  Event ready;
  ready.record(current_stream(device_));
  ready.wait(stream_);
  communicator_->launch(calls, stream_, [] { stop_if_requested(); });
  work.put(stream_);
}

std::string DeviceGroup::fault_of(const DeviceWork& work, const std::string& error, bool late) {
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_.empty()) return abort_reason_;
  }
  return run_->explain(members_, work.what, late, timeout_, error);
}

void DeviceGroup::look_for_ends() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !works_.empty(); });
    if (ending_) return;
    const std::shared_ptr<DeviceWork> first = works_.front();
    lock.unlock();
    bool done = false;
    try {
      done = first->look();
    } catch (const std::exception& e) {
      abort(e.what());
    }
    if (!done) std::this_thread::sleep_for(kLookForEnds);
    lock.lock();
    if (!done || works_.empty() || works_.front() != first) continue;
    works_.pop_front();
    if (!works_.empty()) continue;
    changed_.notify_all();
    lock.unlock();
    run_->doing("");
    lock.lock();
  }
}

void DeviceGroup::look_for_faults() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (works_.empty()) {
      changed_.wait(lock, [this] { return ending_ || !works_.empty(); });
      continue;
    }
    const std::shared_ptr<DeviceWork> first = works_.front();
    lock.unlock();
    const std::string error = communicator_->error();
    const bool late = !first->is_done() && Clock::now() >= first->late;
    if (!error.empty() || late) abort(fault_of(*first, "NCCL: " + error, late));
    std::this_thread::sleep_for(kLookForFaults);
    lock.lock();
  }
}

// --- the start -----------------------------------------------------------------------------------

std::shared_ptr<Group> join_devices(const std::shared_ptr<Run>& run, std::vector<int> members,
                                    int position, double timeout, Device device,
                                    const std::string& key, const Tick& look_at_stop) {
  std::mutex mutex;
  std::string ended;
  const Clock::time_point until = after(timeout);
  const Tick tick = [&] {
    look_at_stop();
    const std::lock_guard lock(mutex);
    check(ended.empty(), ended);
    check(Clock::now() < until, "the ranks have not come together within ", timeout,
          " s to use their devices");
  };
  const std::shared_ptr<void> watch = run->watch(members, [&](const std::string& reason) {
    const std::lock_guard lock(mutex);
    ended = reason;
  });
  Communicators& library = communicators_of(device);
  std::string id;
  if (position == 0) {
    id = library.new_id();
    run->store().set(key, id, tick);
  } else {
    std::optional<std::string> found;
    while (!(found = run->store().get(key, 0.05, tick))) tick();
    id = *found;
  }
  auto communicator =
      library.join(device.index, id, position, static_cast<int>(members.size()), tick);
  return std::make_shared<DeviceGroup>(run, std::move(members), timeout, device.index,
                                       std::move(communicator));
}

// --- backends ------------------------------------------------------------------------------------

std::string devices_unavailable(Device device) {
  Backend* const backend = backend_of(device.type);
  if (backend == nullptr) return unavailable_reason(device.type);
  Communicators* const found = backend->communicators();
  if (found == nullptr) return text(title_of(device.type), " has no collectives between processes");
  return found->missing_reason();
}

Communicators& communicators_of(Device device) {
  const std::string reason = devices_unavailable(device);
  check(reason.empty(), reason);
  return *backend_of(device.type)->communicators();
}

}  // namespace moonlet::distributed
