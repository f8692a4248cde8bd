// interp/distributed/device_group.h: a group of ranks whose tensors are on devices: its calls are
// work in a stream of its own, which threads look after.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interp/distributed/engine.h"
#include "tensor/runtime/communicators.h"

namespace moonlet::distributed {

class DeviceWork;

class DeviceGroup final : public Group {
 public:
  DeviceGroup(std::shared_ptr<Run> run, std::vector<int> members, double timeout, int device,
              std::unique_ptr<Communicator> communicator);
  ~DeviceGroup() override;
  std::shared_ptr<Work> start(Call call) override;
  // Sends and receives that go on together, as do those of two ranks that send to each other. At
  // least one.
  std::shared_ptr<Work> start_all(std::vector<Call> calls);
  std::optional<DeviceStream> stream() const override { return stream_; }
  void abort(const std::string& reason) noexcept override;

 private:
  void launch(const std::vector<Call>& calls, DeviceWork& work);
  void look_for_ends();
  void look_for_faults();
  std::string fault_of(const DeviceWork& work, const std::string& error, bool late);

  const std::shared_ptr<Run> run_;
  const std::vector<int> members_;
  const double timeout_;
  const int device_;
  const DeviceStream stream_;
  const std::unique_ptr<Communicator> communicator_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<DeviceWork>> works_;  // in the order of the stream
  std::string abort_reason_;
  bool ending_ = false;
  // One thread asks the device which work has ended, the other one looks at the time: a device
  // that hangs may answer no question.
  std::thread ends_, faults_;
  std::shared_ptr<void> watch_;
};

// A group that is made together with the other members, of which the first one has the id that all
// need to find each other: at a key of the store.
std::shared_ptr<Group> join_devices(const std::shared_ptr<Run>& run, std::vector<int> members,
                                    int position, double timeout, Device device,
                                    const std::string& key, const Tick& look_at_stop);

// Why there are no groups on devices of that kind; empty where there are. Opens the backend.
std::string devices_unavailable(Device device);
Communicators& communicators_of(Device device);

}  // namespace moonlet::distributed
