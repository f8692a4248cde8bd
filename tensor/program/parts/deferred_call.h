// tensor/program/parts/deferred_call.h: what public ops know of functions that run by parts: one
// call of a primitive op below the tape, which may be put off (deferral.h).
#pragma once

#include "tensor/core/op_info.h"
#include "tensor/runtime/execution.h"

namespace moonlet::program {

class Deferral;
class TraceStep;

// That of this thread while it takes ops in, or null.
extern constinit thread_local Deferral* deferral;

// Whether the op is one to put off: views are made at once, as they need no contents.
inline bool meets_deferral(const OpInfo& op) {
  return deferral != nullptr && op.row->kind != OpKind::Composite && op.row->kind != OpKind::View;
}

class DeferredCall {
 public:
  DeferredCall(const OpInfo& op, BoxedValues arguments);
  // Without `finish`, as when the op throws, nothing is written down.
  ~DeferredCall();
  DeferredCall(const DeferredCall&) = delete;
  DeferredCall& operator=(const DeferredCall&) = delete;

  // Whether there are results without a run; otherwise the op is to run, and to be finished.
  bool is_put_off() const { return put_off_; }
  const BoxedValues& results() const { return results_; }
  void finish(const BoxedValues& results);

 private:
  friend class Deferral;
  Deferral& deferral_;
  const OpInfo& op_;
  BoxedValues arguments_, results_;
  TraceStep* recorded_ = nullptr;  // a new step, until it is finished
  bool put_off_ = false;
  bool running_ = false;  // marks the deferral as running
};

// Whether this thread may have put off ops that have not run.
extern constinit thread_local bool any_deferred;
void run_all_deferred();
// Runs what this thread has put off, before something that ops do not show.
inline void run_deferred() {
  if (any_deferred) [[unlikely]]
    run_all_deferred();
}
// The same before an op that is not put off.
void end_part_before(const OpInfo& op);
inline void end_part(const OpInfo& op) {
  if (deferral != nullptr) [[unlikely]]
    end_part_before(op);
}

}  // namespace moonlet::program
