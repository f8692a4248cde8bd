// interp/binding/program/capture_session.cpp: one call of a function that is captured: what it can
// reach is noted before and compared after, its ops become a graph; the second graph of the same
// guards must be the first one again, and becomes a plan.
#include <algorithm>
#include <memory>
#include <new>

#include "interp/binding/program/compiled.h"
#include "tensor/program/capture.h"
#include "tensor/program/overwritten.h"
#include "tensor/program/same.h"
#include "tensor/program/shapes/foretell.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "moonlet.capture_session";
// In the registry: the session that captures now.
constexpr char kRunning = 0;

struct Failure {
  std::string reason, line;
};

// The userdata. User values: 1 the compiled function, 2 the arguments, 3 the anchors of `made`, 4
// the coroutine, 5 the functions that give numbers and, behind each, the states and the names of
// fields that it sets, and the group that it reads.
struct Session {
  Session(lua_State* state, Compiled& of) : L(state), compiled(of) {}
  ~Session() { end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  lua_State* const L;
  Compiled& compiled;
  std::shared_ptr<Entry> made;  // of a first capture
  // Of that: the entries with plans that have its guards but for sizes.
  std::vector<std::shared_ptr<Entry>> alike;
  int again = 0;  // of a second one: the entry's id
  std::vector<Tensor> inputs;
  std::unique_ptr<program::Capture> capture;
  std::unique_ptr<CallWatch> watch;
  bool whole = false, caught = false;

  // Null when it was dropped meanwhile, as by a call of the function inside itself.
  std::shared_ptr<Entry> entry() const {
    if (made) return made;
    for (const auto& each : compiled.entries)
      if (each->id == again && each->state == Entry::State::Captured) return each;
    return nullptr;
  }
  void begin(const PureFunctions& pure) {
    capture = std::make_unique<program::Capture>();
    capture->locate = [state = L] { return script_line(state); };
    for (const Tensor& each : inputs) capture->add_input(each);
    watch = std::make_unique<CallWatch>(L, *capture, pure);
    execution.capture = capture.get();
  }
  void drop() {
    capture.reset();
    made.reset();
    alike.clear();
    inputs = std::vector<Tensor>();
  }
  // In the coroutine in which it began.
  void end() noexcept {
    if (watch == nullptr) return;
    whole = watch->end();
    caught = watch->caught();
    watch.reset();
    if (execution.capture == capture.get()) execution.capture = nullptr;
  }
};

Session& session_at(lua_State* L, int index) {
  return *static_cast<Session*>(luaL_checkudata(L, index, kName));
}

int l_close(lua_State* L) {
  session_at(L, 1).end();
  return 0;
}

int l_collect(lua_State* L) {
  Session& session = session_at(L, 1);
  session.end();
  lua_State* const thread = session.L;
  Compiled& compiled = session.compiled;
  // Stays an empty one: scripts may find this function and call it before the collector.
  std::destroy_at(&session);
  new (&session) Session(thread, compiled);
  return 0;
}

void push_new_session(lua_State* L, Compiled& compiled) {
  new (lua_newuserdatauv(L, sizeof(Session), 5)) Session(L, compiled);
  if (luaL_newmetatable(L, kName) != 0) {
    lua_pushcfunction(L, guard<l_close>);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "capture");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
}

// Notes all that guards a new entry: the arguments from stack index 2 on, the roots. Leaves the
// anchors on the stack. False when there is too much.
bool note_guards(lua_State* L, Entry& entry, int count) {
  lua_newtable(L);
  const int anchors = lua_gettop(L);
  lua_getiuservalue(L, 1, 2);
  const int roots = lua_gettop(L);
  bool fits = true;
  for (lua_Integer i = 1; fits && lua_rawgeti(L, roots, i) != LUA_TNIL; ++i) {
    fits = entry.snapshot.add(L, anchors, lua_gettop(L), i == 1 ? "the module" : "nn");
    lua_pop(L, 1);
  }
  lua_settop(L, anchors);
  fits = fits && entry.arguments.record(L, 2, count, anchors, entry.snapshot);
  if (fits) entry.arguments.pin(entry.snapshot);
  lua_settop(L, anchors);
  return fits;
}

// Why the newest guards did not hold for these arguments: "argument 1 has other sizes".
std::string why_not(lua_State* L, Compiled& self, int count) {
  if (self.entries.empty()) return {};
  Entry& last = *self.entries.back();
  if (!last.circumstances.hold()) return "the grad mode, autocast or a default is another";
  if (!last.arguments.matches(L, 2, count, last.snapshot, self.inputs)) {
    self.inputs.clear();
    const bool sizes = last.arguments.only_sizes();
    return last.arguments.different() + (sizes ? " has other sizes" : " is another");
  }
  self.inputs.clear();
  push_anchors(L, 1, last);
  std::string out;
  if (!last.snapshot.holds(L, -1))
    out = last.snapshot.changed(L, -1) + " is another";
  else if (!program::leaf_gradients_fit(last.gradients, last.known_graph()))
    out = "a gradient is there that was not, or the other way round";
  lua_pop(L, 1);
  return out;
}

// --- the end -------------------------------------------------------------------------------------

using Reason = std::optional<Failure>;

// What the function has changed that its graph does not show.
Reason find_changes(lua_State* L, Entry& entry, int anchors, int first, int count) {
  if (!entry.circumstances.hold())
    return Failure{"it changes the grad mode or another setting", ""};
  if (!entry.snapshot.holds(L, anchors))
    return Failure{"it changes " + entry.snapshot.changed(L, anchors), ""};
  std::vector<Tensor> inputs;
  if (!entry.arguments.matches(L, first, count, entry.snapshot, inputs))
    return Failure{"it changes " + entry.arguments.different(), ""};
  return {};
}

// The numbers among the arguments of the nodes of a source.
std::vector<BoxedValue> numbers_of(const program::Graph& graph, int32_t source) {
  std::vector<BoxedValue> out;
  for (const program::Node& node : graph.nodes)
    for (const program::Argument& each : node.arguments)
      if (node.numbers == source && program::is_number(each))
        out.push_back(std::get<BoxedValue>(each));
  return out;
}

// The learning rates are no guards either, where the function cannot have returned one.
void free_rates(lua_State* L, Entry& entry) {
  if (lua_getiuservalue(L, 1, 5) == LUA_TTABLE) {
    const auto count = static_cast<lua_Integer>(lua_rawlen(L, -1)) / kPerSource;
    for (lua_Integer i = 1; i <= count; ++i) {
      lua_rawgeti(L, -1, kPerSource * i);
      const void* const group = lua_topointer(L, -1);
      lua_pop(L, 1);
      lua_pushliteral(L, "lr");
      entry.snapshot.free_number(L, group);
    }
  }
  lua_pop(L, 1);
}

// The session's functions that give numbers become those of the entry: what they set is no guard
// any more. The session lies at 1.
void take_sources(lua_State* L, Entry& entry, int anchors, const program::Graph& graph) {
  if (lua_getiuservalue(L, 1, 5) != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  const int sources = lua_gettop(L);
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, sources)) / kPerSource;
  entry.numbers.clear();
  for (lua_Integer i = 0; i < count; ++i) {
    entry.numbers.push_back(numbers_of(graph, static_cast<int32_t>(i)));
    lua_rawgeti(L, sources, kPerSource * i + 2);
    lua_rawgeti(L, sources, kPerSource * i + 3);
    const auto tables = static_cast<lua_Integer>(lua_rawlen(L, -2));
    const auto names = static_cast<lua_Integer>(lua_rawlen(L, -1));
    for (lua_Integer t = 1; t <= tables; ++t) {
      lua_rawgeti(L, -2, t);
      const void* const table = lua_topointer(L, -1);
      lua_pop(L, 1);
      for (lua_Integer n = 1; n <= names; ++n) {
        lua_rawgeti(L, -1, n);
        entry.snapshot.free_number(L, table);
      }
    }
    lua_pop(L, 2);
  }
  entry.sources = entry.snapshot.keep(L, anchors);
}

// Whether a run changes what others see: memory of inputs and parameters, the random numbers.
bool acts_outside(const program::Graph& graph) {
  bool acts = false;
  for (const program::Node& node : graph.nodes) {
    acts = acts || node.op->random;
    program::each_written(node, [&](program::ValueId id) {
      const program::Buffer& buffer = graph.buffers[graph.values[id].buffer];
      acts = acts || buffer.kind != program::Buffer::Kind::Internal;
    });
  }
  return acts;
}

// What no guard reaches must be the same tensor in each call, unchanged by all, or a constant.
Reason watch_unreached(Entry& entry, const program::Graph& graph) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const program::Parameter& p = graph.parameters[i];
    entry.held.push_back(shallow_copy(p.tensor));
    if (entry.snapshot.reaches(p.tensor.impl())) continue;
    const bool constant = !entry.graph.parameters[i].tensor.is_same(p.tensor);
    const bool written = program::is_written(graph, graph.values[p.value].buffer);
    if (!constant && (written || entry.circumstances.any_autocast()))
      return Failure{"it uses a tensor that its guards do not reach", ""};
    if (!constant) entry.watched.push_back({p.tensor, p.tensor.storage().version()});
  }
  return {};
}

// The entries that hold now for arguments of other sizes than those of a new one.
std::vector<std::shared_ptr<Entry>> find_alike(lua_State* L, Compiled& self, const Entry& made) {
  std::vector<std::shared_ptr<Entry>> out;
  if (self.least_sizes == 0 || self.unused_sizes >= Compiled::kMostUnused) return out;
  for (const auto& each : self.entries) {
    if (each->state != Entry::State::Ready || each->graph.values.empty() ||
        !each->circumstances.hold() || !each->arguments.same_but_sizes(made.arguments))
      continue;
    push_anchors(L, 1, *each);
    if (each->snapshot.holds(L, -1)) out.push_back(each);
    lua_pop(L, 1);
  }
  return out;
}

struct Report {
  const char* outcome;
  Failure failure;
};

// Where finish() finds things on the stack.
struct Stack {
  int results;  // from 2 on
  int compiled, anchors, first, count;
};

void add_entry(lua_State* L, Session& session, const Stack& at) {
  Compiled& self = session.compiled;
  Entry& entry = *session.made;
  entry.arguments.release();
  entry.id = self.next_id++;
  entry.used = ++self.calls;
  self.make_room(L, at.compiled, entry.sized);
  lua_getiuservalue(L, at.compiled, 1);
  lua_pushvalue(L, at.anchors);
  lua_rawseti(L, -2, entry.id);
  lua_pop(L, 1);
  self.entries.push_back(session.made);
}

Report keep_first(lua_State* L, Session& session, const Stack& at) {
  Entry& entry = *session.made;
  entry.ops = session.capture->graph().nodes.size();
  entry.graph = session.capture->take();
  const size_t inputs = session.inputs.size();
  program::normalize_inputs(entry.graph, [&](size_t i) {
    if (i < inputs) entry.arguments.pin_offset(i);
  });
  add_entry(L, session, at);
  return {"captured", {}};
}

// A plan, or plans with a backward pass where results require grad. Gives why there is none.
Reason make_program(Session& session, Entry& entry, ResultTree& results) {
  program::Capture& capture = *session.capture;
  if (!results.recorded()) {
    program::Graph graph = capture.take();
    program::normalize_inputs(graph, [](size_t) {});
    entry.runner = std::make_unique<program::Runner>(program::Plan::make(std::move(graph)));
    return {};
  }
  std::vector<Tensor> outputs = results.tensors();
  for (const program::LeafGradientChange& change : entry.gradients)
    if (change.output != program::kNone) outputs.push_back(gradient_of(change.leaf).dense);
  std::string reason;
  auto graphs = program::trace_backward(capture, outputs, reason, true);
  if (!graphs) return Failure{reason, ""};
  entry.recorded = program::RecordedProgram::make(*std::move(graphs));
  return {};
}

Report make_plan(lua_State* L, Session& session, Entry& entry, ResultTree results,
                 std::vector<program::LeafGradientChange> gradients, const Stack& at) {
  // What is compared: inputs count from their first element, as those of the first graph.
  program::Graph graph = session.capture->graph();
  program::normalize_inputs(graph, [](size_t) {});  // the first graph has pinned what it must
  const auto drop = [&](const char* outcome, Failure failure) {
    session.compiled.forget(L, at.compiled, entry.id);
    return Report{outcome, std::move(failure)};
  };
  if (const auto found = program::difference(entry.graph, graph))
    return drop("different", {found->what, found->line});
  if (!(results == entry.results)) return drop("different", {"it returns other values", ""});
  if (!(gradients == entry.gradients))
    return drop("failed", {"it changes gradients otherwise than before", ""});
  if (Reason unreached = watch_unreached(entry, graph)) return drop("failed", *unreached);
  entry.gradients = std::move(gradients);
  entry.repeatable = !acts_outside(graph) && entry.gradients.empty();
  try {
    if (Reason reason = make_program(session, entry, results)) return drop("failed", *reason);
  } catch (const Error& e) {
    return drop("failed", {e.what(), ""});
  }
  results.tensors().clear();
  entry.results = std::move(results);
  if (session.compiled.least_sizes == 0) entry.graph = {};
  entry.adopted.clear();
  entry.state = Entry::State::Ready;
  return {"compiled", {}};
}

// A first capture that is what the graphs of other sizes foretell needs no second one.
std::optional<Report> keep_foretold(lua_State* L, Session& session, const ResultTree& results,
                                    const std::vector<program::LeafGradientChange>& gradients,
                                    const Stack& at) {
  Entry& entry = *session.made;
  if (session.alike.empty() || !entry.adopted.empty()) return {};
  const Entry& like = *session.alike.back();
  if (!(results == like.results) || !(gradients == like.gradients)) return {};
  program::Graph graph = session.capture->graph();
  bool pinned = false;
  program::normalize_inputs(graph, [&](size_t) { pinned = true; });
  if (pinned) return {};
  std::vector<const program::Graph*> known;
  for (const auto& each : session.alike) known.push_back(&each->graph);
  Compiled& self = session.compiled;
  auto foretold = program::foretell(known, graph, self.least_sizes, self.why_sized_apart);
  if (!foretold) return {};
  if (const auto found = program::difference(*foretold, graph)) {
    self.why_sized_apart = found->what;
    return {};
  }
  self.why_sized_apart.clear();
  entry.ops = graph.nodes.size();
  entry.graph = *std::move(foretold);
  entry.results = like.results;
  entry.gradients = like.gradients;
  entry.sized = true;
  ++self.unused_sizes;
  add_entry(L, session, at);
  Report report = make_plan(L, session, entry, results, gradients, at);
  if (std::string_view(report.outcome) == "compiled") report.outcome = "sized";
  return report;
}

// Memory that the function itself takes and fills is the plan's. False when another call has met it
// too.
bool adopt(Entry& entry, program::Graph& graph) {
  std::vector<Tensor> adopted = program::adopt_overwritten(
      graph, [&](const Tensor& t) { return entry.snapshot.reaches(t.impl()); });
  const auto met = [&](const Tensor& t) {
    return std::any_of(entry.adopted.begin(), entry.adopted.end(),
                       [&](const Tensor& each) { return each.is_same(t); });
  };
  if (std::any_of(adopted.begin(), adopted.end(), met)) return false;
  entry.adopted = std::move(adopted);
  return true;
}

Report finish(lua_State* L, Session& session, Entry& entry, const Stack& at) {
  program::Capture& capture = *session.capture;
  const auto stopped = [&]() -> Reason {
    if (!capture.stopped()) return {};
    return Failure{*capture.stopped(), capture.stopped_at()};
  };
  if (Reason reason = stopped()) return {"failed", *reason};
  if (!session.whole) return {"failed", {"it was interrupted, or set a debug hook", ""}};
  take_sources(L, entry, at.anchors, capture.graph());
  if (Reason reason = find_changes(L, entry, at.anchors, at.first, at.count))
    return {"failed", *reason};
  if (!adopt(entry, capture.graph()))
    return {"failed", {"it uses a tensor that its guards do not reach", ""}};
  ResultTree tree;
  if (const auto reason =
          tree.record(L, 2, at.results, capture, session.inputs, at.anchors, entry.snapshot))
    return {"failed", {*reason, ""}};
  if (!tree.has_numbers()) free_rates(L, entry);
  std::vector<program::LeafGradientChange> gradients = program::finish_leaf_gradients(capture);
  if (Reason reason = stopped()) return {"failed", *reason};
  if (session.caught && acts_outside(capture.graph()))
    return {"failed", {"it catches errors, and changes tensors in place or draws numbers", ""}};
  if (!session.made) return make_plan(L, session, entry, std::move(tree), std::move(gradients), at);
  if (auto report = keep_foretold(L, session, tree, gradients, at)) return *std::move(report);
  tree.tensors().clear();
  entry.results = std::move(tree);
  entry.gradients = std::move(gradients);
  return keep_first(L, session, at);
}

void push_session_anchors(lua_State* L, const Session& session, int compiled, const Entry& entry) {
  if (session.made)
    lua_getiuservalue(L, 1, 3);
  else
    push_anchors(L, compiled, entry);
}

// Pushes the items of the array of arguments on top, and removes it. Returns their number.
int push_arguments(lua_State* L) {
  const int table = lua_gettop(L);
  lua_getfield(L, table, "n");
  const auto count = static_cast<int>(lua_tointeger(L, -1));
  lua_pop(L, 1);
  luaL_checkstack(L, count + 20, "compile");
  for (int i = 1; i <= count; ++i) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return count;
}

}  // namespace

int l_begin_capture(lua_State* L) {
  Compiled& self = compiled_at(L, 1);
  const int count = lua_gettop(L) - 1;
  const auto refuse = [L](std::string_view reason) {
    lua_pushnil(L);
    push_string(L, reason);
    return 2;
  };
  if (const char* reason = Circumstances::refusal(L)) return refuse(reason);
  if (self.is_running) return refuse("it is called while its plan runs");
  const std::shared_ptr<Entry> known = self.matched;
  if (known != nullptr && known->state == Entry::State::Eager) return refuse(known->reason);
  // What a tensor that no guard reaches holds was changed.
  const bool again = known != nullptr && known->state == Entry::State::Captured;
  if (known != nullptr && !again) self.forget(L, 1, known->id);
  const std::string why = again ? "" : why_not(L, self, count);
  push_new_session(L, self);
  const int position = lua_gettop(L);
  Session& session = *static_cast<Session*>(lua_touserdata(L, position));
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, position, 1);
  lua_createtable(L, count, 1);
  for (int i = 1; i <= count; ++i) {
    lua_pushvalue(L, i + 1);
    lua_rawseti(L, -2, i);
  }
  lua_pushinteger(L, count);
  lua_setfield(L, -2, "n");
  lua_setiuservalue(L, position, 2);
  lua_pushthread(L);
  lua_setiuservalue(L, position, 4);
  if (again) {
    if (!known->arguments.matches(L, 2, count, known->snapshot, session.inputs))
      return refuse("its arguments change while they are read");
    session.again = known->id;
  } else {
    session.made = std::make_shared<Entry>();
    if (!note_guards(L, *session.made, count))
      return refuse(text("it reaches more than ", Snapshot::kMostValues, " values"));
    session.inputs = session.made->arguments.tensors();
    session.alike = find_alike(L, self, *session.made);
    lua_setiuservalue(L, position, 3);
  }
  lua_pushvalue(L, position);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kRunning);
  session.begin(pure_functions(L));
  push_string(L, why);
  return 2;
}

int l_finish_capture(lua_State* L) {
  Session& session = session_at(L, 1);
  session.end();
  Stack at{};
  at.results = lua_gettop(L) - 1;
  luaL_checkstack(L, 40, "compile");
  lua_getiuservalue(L, 1, 1);
  at.compiled = lua_gettop(L);
  Report report{"failed", {"it calls itself", ""}};
  if (const auto entry = session.capture ? session.entry() : nullptr) {
    push_session_anchors(L, session, at.compiled, *entry);
    at.anchors = lua_gettop(L);
    lua_getiuservalue(L, 1, 2);
    at.first = lua_gettop(L);
    at.count = push_arguments(L);
    report = finish(L, session, *entry, at);
  }
  session.drop();
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kRunning);
  push_string(L, report.outcome);
  push_string(L, report.failure.reason);
  push_string(L, report.failure.line);
  return 3;
}

int l_vary(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_settop(L, 4);
  if (execution.capture == nullptr) return 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kRunning) != LUA_TUSERDATA) return 0;
  const Session& session = session_at(L, 5);
  if (session.capture.get() != execution.capture) return 0;
  if (session.capture->vary_numbers() == program::kNone) return 0;
  if (lua_getiuservalue(L, 5, 5) != LUA_TTABLE) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 5, 5);
    lua_replace(L, -2);
  }
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, -1));
  for (int i = 1; i <= kPerSource; ++i) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, count + i);
  }
  return 0;
}

const PureFunctions& pure_functions(lua_State* L) {
  static constexpr char kKey = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kKey) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    new (lua_newuserdatauv(L, sizeof(PureFunctions), 0)) PureFunctions(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, [](lua_State* state) {
      static_cast<PureFunctions*>(lua_touserdata(state, 1))->~PureFunctions();
      return 0;
    });
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kKey);
  }
  const auto* out = static_cast<const PureFunctions*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *out;
}

}  // namespace moonlet::binding
