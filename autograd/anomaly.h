// autograd/anomaly.h: looking for what goes wrong in backward: each node remembers where the script
// recorded it, and errors of its derivative say so. Off, it costs a branch for each node.
#pragma once

#include <cstdint>
#include <string>

#include "autograd/node.h"

namespace moonlet {

// Whether nodes remember where they are recorded, and whether gradients that are not numbers count
// as failures.
enum class Anomaly : uint8_t { Ignore, Detect, DetectNan };

// What holds on this thread. It belongs to an interpreter and a coroutine of it as the execution
// state does, and is installed with it (interp/state/entry.cpp).
extern constinit thread_local Anomaly anomaly_mode;

// What an interpreter knows and the tape does not. Set once, before nodes are recorded.
struct AnomalyHandler {
  // Where the script of this thread is, "file:line" and the lines that called it below; empty when
  // none runs.
  std::string (*position)() = nullptr;
  // Adds a note to an error on its way that is no `std::exception`.
  void (*amend)(const std::string& note) = nullptr;
};
void set_anomaly_handler(AnomalyHandler handler);

// Nodes of this thread count as recorded at a position that is given, for a C++ scope: those of a
// run that stands for an earlier one. The text must outlive it.
class RecordedAt {
 public:
  explicit RecordedAt(const std::string& position);
  ~RecordedAt();
  RecordedAt(const RecordedAt&) = delete;
  RecordedAt& operator=(const RecordedAt&) = delete;

 private:
  const std::string* const before_;
};

// Notes in the node where the script is and, during backward, of which node.
void note_origin(Node& node);
// "\n  SqrtBackward was recorded at script.lua:3 ...", to follow a message.
std::string origin_text(const Node& node);
// Adds it to the error that is being handled, and throws it again. What asks to stop, and what may
// be tried again with more memory, stays as it is.
[[noreturn]] void rethrow_with_origin(const Node& node);
// Throws when a gradient that the node has given, one per edge, has a NaN.
void check_numbers(const Node& node, const Tensor* gradients);

// The node that backward runs on this thread, for a C++ scope.
class RunningNode {
 public:
  explicit RunningNode(const Node& node);
  ~RunningNode();
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;

 private:
  const Node* const before_;
};

}  // namespace moonlet
