// tensor/runtime/communicators.h: what a backend offers to processes that work together:
// collectives of tensors on its devices, in streams.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/runtime/collective_call.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

// One rank of several, with a device of its own.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Puts calls, which go on together, into a stream of the device. For one thread at a time.
  virtual void launch(const std::vector<distributed::Call>& calls, DeviceStream stream,
                      const distributed::Tick& tick) = 0;
  // What has gone wrong since; empty where nothing has. For any thread.
  virtual std::string error() = 0;
  // Ends what goes on, without results: the next wait of the interpreter that has made this throws
  // the reason, unless it is empty. For any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
};

class Communicators {
 public:
  virtual ~Communicators() = default;
  // Why there are none; empty where they can be used.
  virtual std::string missing_reason() = 0;
  // Whether it has such a call for tensors of that dtype.
  virtual bool has(distributed::Kind kind, distributed::Reduction reduction, DType dtype) = 0;
  // Bytes by which the ranks of a new communicator find each other. One of them makes it.
  virtual std::string new_id() = 0;
  // Waits for the other ranks.
  virtual std::unique_ptr<Communicator> join(int device, const std::string& id, int rank, int size,
                                             const distributed::Tick& tick) = 0;
};

}  // namespace moonlet
