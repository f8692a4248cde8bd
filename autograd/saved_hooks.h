// autograd/saved_hooks.h: modes that decide in what form the tape keeps tensors for the backward
// pass: packed when they are saved, unpacked when a gradient needs them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "tensor/runtime/modes.h"

namespace moonlet {

// Packs each tensor that is saved while it is the innermost of its kind on the stack of modes. It
// leaves ops as they are. `pack` runs without recording, on the modes below.
class SavedTensorHooks : public Mode {
 public:
  void call(ModeCall& call) override { call.proceed(); }
  // `t` has no history. Must not change it.
  virtual std::shared_ptr<PackedTensor> pack(const Tensor& t) = 0;
};

// Whose saved tensor is being unpacked on this thread, for hooks that keep several until then.
extern constinit thread_local const Node* unpacking_node;

// Set while a backward must not come to hooks that unpack.
extern constinit thread_local bool refuses_unpacking;

// Set while nothing that is saved goes to hooks on this thread.
extern constinit thread_local bool keeps_plain;

// Keeps what is saved as it is, for a C++ scope: for graphs of the system's own, which go before
// the call that makes them returns.
class PlainSaving {
 public:
  PlainSaving() : before_(std::exchange(keeps_plain, true)) {}
  ~PlainSaving() { keeps_plain = before_; }
  PlainSaving(const PlainSaving&) = delete;
  PlainSaving& operator=(const PlainSaving&) = delete;

 private:
  const bool before_;
};

// Refuses such modes above it.
class NoSavedTensorHooks final : public Mode {
 public:
  explicit NoSavedTensorHooks(std::string message) : message_(std::move(message)) {}
  void call(ModeCall& call) override { call.proceed(); }
  const std::string& message() const { return message_; }

 private:
  const std::string message_;
};

}  // namespace moonlet
