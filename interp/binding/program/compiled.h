// interp/binding/program/compiled.h: what `ml.compile` keeps of a function: for each set of guards
// a graph or a plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/program/leaf_gradients.h"
#include "autograd/program/recorded_program.h"
#include "interp/binding/program/circumstances.h"
#include "interp/binding/program/purity.h"
#include "interp/binding/program/result_tree.h"
#include "interp/binding/program/snapshot.h"
#include "interp/binding/program/value_tree.h"
#include "tensor/program/runner.h"

namespace moonlet::binding {

// How many values an entry has for each source of numbers (l_vary).
inline constexpr int kPerSource = 4;

// One set of guards, and what holds under them.
struct Entry {
  enum class State : uint8_t { Captured, Ready, Eager };

  // Of a tensor that no guard reaches, which others may write.
  struct Watched {
    Tensor tensor;
    uint32_t version;
  };

  int id = 0;
  State state = State::Captured;
  std::string reason;  // of Eager
  Circumstances circumstances;
  ArgumentTree arguments;
  Snapshot snapshot;
  // Of the first capture. It stays where sizes may vary, to foretell those of other sizes.
  program::Graph graph;
  ResultTree results;
  std::unique_ptr<program::Runner> runner;
  // Instead of the runner, where results require grad.
  std::shared_ptr<program::RecordedProgram> recorded;
  std::vector<program::LeafGradientChange> gradients;
  // The anchor of the functions that give the numbers of sources, and numbers of the kinds that
  // each gives.
  int sources = 0;
  program::Numbers numbers;
  std::vector<Watched> watched;
  // What the first capture took for its own memory: no later one may meet it.
  std::vector<Tensor> adopted;
  // So that memory of a parameter that is given other memory is not taken for its old one.
  std::vector<Tensor> held;
  bool repeatable = false;  // writes nothing outside, draws no numbers
  int64_t runs = 0;
  int64_t used = 0;    // Compiled::calls when it was used last
  bool sized = false;  // captured once, as graphs of other sizes foretold
  size_t ops = 0;

  bool watched_hold() const;
  // The plan's, or that of the first capture.
  const program::Graph& known_graph() const { return plan() ? plan()->graph() : graph; }
  // Of the runner or what is recorded, or null.
  const program::Plan* plan() const {
    return runner ? &runner->plan() : recorded ? &recorded->forward() : nullptr;
  }
};

// The userdata. User values: 1 the anchors of each entry by its id, 2 the roots of the snapshots,
// of which the first is the function.
struct Compiled {
  static constexpr const char* kName = "moonlet.compiled";
  static constexpr uint64_t kMark = 0x6d6c2d636f6d7069;
  // Of those that were captured twice, and of those of other sizes beside them.
  static constexpr size_t kMostEntries = 8, kMostSized = 32;
  // So many new sizes in a row that no plan has run for are captured as if each were the first.
  static constexpr int kMostUnused = 16;

  // First, so that a userdata is known as one without a look for its metatable.
  uint64_t mark = kMark;

  std::vector<std::shared_ptr<Entry>> entries;  // the oldest first
  std::shared_ptr<Entry> matched;               // by the last call
  int next_id = 1;
  int64_t calls = 0;
  int unused_sizes = 0;  // in a row
  // How many sizes must be known before others are foretold; 0: none are.
  size_t least_sizes = 0;
  std::string why_sized_apart;          // why the last new sizes were not as foretold, or ""
  std::vector<Tensor> inputs, outputs;  // of the call that runs
  bool is_running = false;              // a plan

  // The newest whose guards hold, or null; `inputs` has the tensors of the arguments then. Pushes
  // its anchors, or nil.
  std::shared_ptr<Entry> find(lua_State* L, int self, int first, int count);
  void forget(lua_State* L, int self, int id);
  // Forgets the one that was not used for longest, when there are too many for another.
  void make_room(lua_State* L, int self, bool sized);
};

Compiled& compiled_at(lua_State* L, int index);
// Pushes the anchors of an entry.
void push_anchors(lua_State* L, int self, const Entry& entry);

// begin(compiled, ...) -> session, or nil and a reason; also why older guards did not hold.
int l_begin_capture(lua_State* L);
// finish(session, results...) -> "captured", "compiled", "sized", "eager", "different" or "failed",
// reason, line.
int l_finish_capture(lua_State* L);
// vary(f, states, names, group): while a step of an optimiser is captured: the op that ran last
// gets its numbers from f() before each run of the program, and f(true) is called after it; the
// named fields of the states are numbers that f reads and sets. f reads `group.lr`, too, which
// schedulers change.
int l_vary(lua_State* L);
// Of this state.
const PureFunctions& pure_functions(lua_State* L);

}  // namespace moonlet::binding
