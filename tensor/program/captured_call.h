// tensor/program/captured_call.h: what public ops know of captures: one call of a primitive op
// below the tape, written down around its run.
#pragma once

#include <utility>

#include "tensor/core/op_info.h"
#include "tensor/runtime/execution.h"

namespace moonlet::program {

// Whether a capture on this thread writes the op down. Composites are written down as the ops they
// are made of.
inline bool meets_capture(const OpInfo& op) {
  return execution.capture != nullptr && op.row->kind != OpKind::Composite;
}

// While it lives, the capture sees no other op: neither those of a kernel's own.
class CapturedCall {
 public:
  CapturedCall(const OpInfo& op, BoxedValues arguments);
  // Without `finish`, as when the op throws, nothing is written down.
  ~CapturedCall();
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;

  void finish(const BoxedValues& results);

 private:
  Capture* const capture_;
  const OpInfo& op_;
  const BoxedValues arguments_;
  bool finished_ = false;
};

// Ends the capture of this thread, if there is one: what follows is not all ops.
void stop_capture(const char* by, const char* reason);
// Results of other ops are about to be copied into the tensors of an out form, below all ops.
inline void note_stored(const OpInfo& op) {
  if (execution.capture != nullptr) [[unlikely]]
    stop_capture(op.name, "stores results of other ops in given tensors");
}
// Whether `t` has no other holder than the one who asks, and the capture of this thread.
bool is_sole_handle(const Tensor& t);
// For code that looks at elements of a tensor: a capture cannot go on, as what follows may depend
// on them. Names the op or method that looks.
inline void note_values_read(const char* by) {
  if (execution.capture != nullptr) [[unlikely]]
    stop_capture(by, "reads values");
}

}  // namespace moonlet::program
