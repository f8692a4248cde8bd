// interp/workers/worker_state.h: the interpreter of a worker.
#pragma once

#include "interp/state/state.h"
#include "interp/workers/pool.h"

namespace moonlet::workers {

// Options of the interpreters that work for a state.
InterpreterOptions options_of_workers(const StateData& owner);

class WorkerState {
 public:
  WorkerState(Worker& worker, StateData& owner, const InterpreterOptions& options,
              const ExecutionState& execution);
  StateData& data() { return state_data(state_.get()); }
  // Until the pool ends. An error that the module does not handle is put into `failure`.
  void run(Report& failure);

 private:
  StatePtr state_;
  Worker& worker_;
};

}  // namespace moonlet::workers
