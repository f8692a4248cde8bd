// interp/binding/program/compiled.cpp: a call of a compiled function: the guards that hold are
// found, and their plan runs in place of the function.
#include "interp/binding/program/compiled.h"

#include <algorithm>
#include <memory>
#include <new>

#include "autograd/tape.h"
#include "interp/binding/program/program_module.h"
#include "interp/state/gc_pacer.h"
#include "tensor/program/apart.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/program/reclaim.h"
#include "tensor/program/same.h"

namespace moonlet::binding {

bool Entry::watched_hold() const {
  return std::all_of(watched.begin(), watched.end(), [](const Watched& each) {
    return each.tensor.storage().version() == each.version;
  });
}

namespace {

// The userdata at a stack index, or null.
Compiled* marked_compiled(lua_State* L, int index) {
  auto* const compiled = static_cast<Compiled*>(lua_touserdata(L, index));
  // A light userdata has no length.
  if (compiled == nullptr || lua_rawlen(L, index) != sizeof(Compiled)) return nullptr;
  return compiled->mark == Compiled::kMark ? compiled : nullptr;
}

}  // namespace

Compiled& compiled_at(lua_State* L, int index) {
  Compiled* const compiled = marked_compiled(L, index);
  if (compiled == nullptr) luaL_typeerror(L, index, Compiled::kName);
  return *compiled;
}

void push_anchors(lua_State* L, int self, const Entry& entry) {
  lua_getiuservalue(L, self, 1);
  lua_rawgeti(L, -1, entry.id);
  lua_remove(L, -2);
}

std::shared_ptr<Entry> Compiled::find(lua_State* L, int self, int first, int count) {
  constexpr int kSlots = 80;
  luaL_checkstack(L, kSlots, "compile");
  lua_getiuservalue(L, self, 1);
  const int all = lua_gettop(L);
  for (size_t i = entries.size(); i-- > 0;) {
    Entry& entry = *entries[i];
    if (!entry.circumstances.hold() ||
        !entry.arguments.matches(L, first, count, entry.snapshot, inputs))
      continue;
    lua_rawgeti(L, all, entry.id);
    if (entry.snapshot.holds(L, all + 1) &&
        program::leaf_gradients_fit(entry.gradients, entry.known_graph())) {
      lua_replace(L, all);
      return entries[i];
    }
    lua_settop(L, all);
  }
  lua_pushnil(L);
  lua_replace(L, all);
  return nullptr;
}

void Compiled::make_room(lua_State* L, int self, bool sized) {
  size_t count = 0;
  const Entry* oldest = nullptr;
  for (const auto& each : entries) {
    if (each->sized != sized) continue;
    ++count;
    if (oldest == nullptr || each->used < oldest->used) oldest = each.get();
  }
  if (count >= (sized ? kMostSized : kMostEntries)) forget(L, self, oldest->id);
}

void Compiled::forget(lua_State* L, int self, int id) {
  lua_getiuservalue(L, self, 1);
  lua_pushnil(L);
  lua_rawseti(L, -2, id);
  lua_pop(L, 1);
  if (matched && matched->id == id) matched.reset();
  std::erase_if(entries, [&](const auto& each) { return each->id == id; });
}

namespace {

int l_collect(lua_State* L) {
  // Stays an empty one: scripts may find this function and call it before the collector.
  Compiled& compiled = compiled_at(L, 1);
  std::destroy_at(&compiled);
  new (&compiled) Compiled;
  return 0;
}

// new(roots, least) -> compiled. `roots`: an array of what the function is and hangs on; `least`:
// Compiled::least_sizes.
int l_new(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const lua_Integer least = luaL_checkinteger(L, 2);
  lua_settop(L, 1);
  auto* compiled = new (lua_newuserdatauv(L, sizeof(Compiled), 2)) Compiled;
  compiled->least_sizes = static_cast<size_t>(std::max<lua_Integer>(least, 0));
  if (luaL_newmetatable(L, Compiled::kName) != 0) {
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "compiled");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  lua_newtable(L);
  lua_setiuservalue(L, 2, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, 2);
  return 1;
}

// What a source of numbers gives becomes a value of the kind that the op takes.
bool to_number(lua_State* L, int index, BoxedValue& to) {
  if (auto* truth = std::get_if<bool>(&to)) {
    *truth = lua_toboolean(L, index) != 0;
    return lua_isboolean(L, index);
  }
  if (!lua_isnumber(L, index)) return false;
  if (auto* integer = std::get_if<int64_t>(&to)) {
    int is_integer = 0;
    *integer = lua_tointegerx(L, index, &is_integer);
    return is_integer != 0;
  }
  if (auto* number = std::get_if<double>(&to))
    *number = lua_tonumber(L, index);
  else
    to = lua_isinteger(L, index) != 0 ? Scalar(static_cast<int64_t>(lua_tointeger(L, index)))
                                      : Scalar(lua_tonumber(L, index));
  return true;
}

// Asks the sources of numbers. False when one has none: what it counts is not as it was captured.
bool ask_sources(lua_State* L, int anchors, Entry& entry) {
  if (entry.sources == 0) return true;
  lua_rawgeti(L, anchors, entry.sources);
  const int sources = lua_gettop(L);
  bool given = true;
  for (size_t i = 0; given && i < entry.numbers.size(); ++i) {
    lua_rawgeti(L, sources, kPerSource * static_cast<lua_Integer>(i) + 1);
    lua_call(L, 0, LUA_MULTRET);
    const auto count = static_cast<size_t>(lua_gettop(L) - sources);
    given = count == entry.numbers[i].size();
    for (size_t k = 0; given && k < count; ++k)
      given = to_number(L, sources + 1 + static_cast<int>(k), entry.numbers[i][k]);
    lua_settop(L, sources);
    if (given && entry.runner) entry.runner->set_numbers(static_cast<int32_t>(i), entry.numbers[i]);
  }
  lua_settop(L, sources - 1);
  return given;
}

// Tells them that their numbers were used.
void tell_sources(lua_State* L, int anchors, const Entry& entry) {
  if (entry.sources == 0) return;
  lua_rawgeti(L, anchors, entry.sources);
  for (size_t i = 0; i < entry.numbers.size(); ++i) {
    lua_rawgeti(L, -1, kPerSource * static_cast<lua_Integer>(i) + 1);
    lua_pushboolean(L, 1);
    lua_call(L, 1, 0);
  }
  lua_pop(L, 1);
}

// A plan that runs out of memory has the garbage of scripts collected. Finalizers run then, and may
// call the function again, which is not compiled code until the plan has ended.
class CollectsGarbage final : public program::Reclaimer {
 public:
  CollectsGarbage(lua_State* L, Compiled& compiled) : L_(L), compiled_(compiled) {
    compiled_.is_running = true;
  }
  ~CollectsGarbage() override { compiled_.is_running = false; }
  void reclaim() override { gc::collect(L_); }

 private:
  lua_State* const L_;
  Compiled& compiled_;
};

void run_program(lua_State* L, Compiled& self, Entry& entry) {
  const CollectsGarbage where_memory_is_short(L, self);
  self.outputs.clear();
  if (entry.recorded) {
    entry.recorded->run(self.inputs, self.outputs, entry.numbers);
  } else {
    program::lend_leaf_gradients(entry.gradients, entry.runner->plan(), self.outputs);
    entry.runner->run(self.inputs, self.outputs);
  }
  program::set_leaf_gradients(entry.gradients, self.outputs);
  ++entry.runs;
  entry.used = ++self.calls;
  self.unused_sizes = 0;
}

// Runs the plan. Returns the message of an error, which has the line of the op in the function. One
// that has changed nothing yet is no error here: the function is to run, which may catch its own.
enum class Outcome : uint8_t { Ran, Undone, Failed };
Outcome run_plan(lua_State* L, Compiled& self, Entry& entry, std::string& message) {
  program::run_deferred();  // of a function by parts that calls this one
  try {
    run_program(L, self, entry);
    return Outcome::Ran;
  } catch (const Interrupted&) {
    throw;
  } catch (const OutOfMemory& e) {
    // The collector may find memory; but a program must not do twice what others see.
    if (entry.repeatable) throw;
    note_exception(L, e);
    message = e.what();
  } catch (const Error& e) {
    if (entry.repeatable) return Outcome::Undone;
    message = e.what();
  }
  const std::string line = entry.runner ? entry.runner->line() : "";
  if (!line.empty()) message = line + ": " + message;
  return Outcome::Failed;
}

// Whether there is a plan, with what it needs beside the arguments: gradients, numbers.
bool prepare_run(lua_State* L, Compiled& self, Entry& entry, int anchors) {
  const program::Plan* const plan = entry.plan();
  if (plan == nullptr || !entry.watched_hold()) return false;
  program::add_leaf_gradients(entry.gradients, self.inputs);
  return ask_sources(L, anchors, entry);
}

// Pushes the results of the plan that has run, with the arguments of the call from `first` on.
int give_results(lua_State* L, Compiled& self, const Entry& entry, int anchors, int first,
                 int count) {
  std::vector<Tensor> inputs = std::exchange(self.inputs, {});
  std::vector<Tensor> outputs = std::exchange(self.outputs, {});
  const program::Graph* const graph = entry.recorded ? nullptr : &entry.plan()->graph();
  try {
    const int given = entry.results.push(L, anchors, first, count, inputs, graph, outputs);
    // The next call is to find room for its own.
    inputs.clear();
    outputs.clear();
    if (self.inputs.empty()) self.inputs.swap(inputs);
    if (self.outputs.empty()) self.outputs.swap(outputs);
    return given;
  } catch (const std::exception& e) {
    // Where memory runs out, a call is run again; but what others see must not be done twice.
    if (entry.repeatable) throw;
    push_exception(L, e);
  }
  return lua_error(L);
}

// Behind the function, should it yield.
int l_called(lua_State* L, int /*status*/, lua_KContext /*context*/) { return lua_gettop(L); }

// The call of a compiled function. Upvalues: 1 its Compiled, 2 missed(state, eager, ...), which
// gets what no plan answers (`eager` says that the function is to run as it is), 3 its state.
// Stack: the object, the arguments.
constexpr int kCore = lua_upvalueindex(1), kMissed = lua_upvalueindex(2),
              kState = lua_upvalueindex(3);

int call_missed(lua_State* L, int count, bool eager) {
  luaL_checkstack(L, count + 4, "compile");
  lua_settop(L, count + 1);
  lua_pushvalue(L, kMissed);
  lua_replace(L, 1);
  lua_pushvalue(L, kState);
  lua_pushboolean(L, eager);
  if (count > 0) lua_rotate(L, 2, 2);
  lua_callk(L, count + 2, LUA_MULTRET, 0, l_called);
  return lua_gettop(L);
}

int l_call(lua_State* L) {
  Compiled& self = compiled_at(L, kCore);
  const int count = lua_gettop(L) - 1;
  if (self.is_running) return call_missed(L, count, true);
  self.matched.reset();
  if (self.entries.empty() || Circumstances::refusal(L) != nullptr)
    return call_missed(L, count, false);
  // Held, as functions and finalizers that run meanwhile may call the function again.
  const std::shared_ptr<Entry> matched = self.find(L, kCore, 2, count);
  const int anchors = lua_gettop(L);
  bool eager = matched != nullptr && matched->state == Entry::State::Eager;
  Outcome outcome = Outcome::Undone;
  if (matched != nullptr && matched->state == Entry::State::Ready &&
      prepare_run(L, self, *matched, anchors)) {
    std::string message;
    outcome = run_plan(L, self, *matched, message);
    if (outcome == Outcome::Failed) push_string(L, message);
    eager = outcome == Outcome::Undone;
  }
  if (outcome == Outcome::Ran) {
    tell_sources(L, anchors, *matched);
    return give_results(L, self, *matched, anchors, 2, count);
  }
  self.inputs.clear();
  if (outcome == Outcome::Failed) return lua_error(L);
  self.matched = matched;
  return call_missed(L, count, eager);
}

// caller(compiled, missed, state) -> the function that calls it.
int l_caller(lua_State* L) {
  compiled_at(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_pushcclosure(L, op_guard<l_call>, 3);
  return 1;
}

const char* name(Entry::State state) {
  switch (state) {
    case Entry::State::Captured: return "captured";
    case Entry::State::Ready: return "compiled";
    default: return "eager";
  }
}

void push_strings(lua_State* L, const std::vector<std::string>& all) {
  lua_createtable(L, static_cast<int>(all.size()), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    push_string(L, all[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
}

void set_integer(lua_State* L, const char* key, size_t value) {
  lua_pushinteger(L, static_cast<lua_Integer>(value));
  lua_setfield(L, -2, key);
}

// info(compiled) -> an array of tables, an entry each: state, reason, ops, steps, runs, guards,
// sized, graph as text; of a plan `fused` and `apart`, lines about what was fused and what was not.
// Then why the last new sizes were not as foretold, or "".
int l_info(lua_State* L) {
  const Compiled& self = compiled_at(L, 1);
  lua_createtable(L, static_cast<int>(self.entries.size()), 0);
  for (size_t i = 0; i < self.entries.size(); ++i) {
    const Entry& entry = *self.entries[i];
    lua_createtable(L, 0, 9);
    push_string(L, name(entry.state));
    lua_setfield(L, -2, "state");
    push_string(L, entry.reason);
    lua_setfield(L, -2, "reason");
    set_integer(L, "ops", entry.ops);
    set_integer(L, "runs", static_cast<size_t>(entry.runs));
    set_integer(L, "guards", entry.snapshot.size());
    lua_pushboolean(L, entry.sized);
    lua_setfield(L, -2, "sized");
    const program::Plan* const plan = entry.plan();
    if (plan != nullptr) {
      set_integer(L, "steps", plan->steps().size());
      set_integer(L, "bytes", static_cast<size_t>(plan->arena_bytes()));
      push_strings(L, program::fused_of(*plan));
      lua_setfield(L, -2, "fused");
      push_strings(L, program::apart_of(*plan));
      lua_setfield(L, -2, "apart");
    }
    push_string(L, program::to_string(plan ? plan->graph() : entry.graph));
    lua_setfield(L, -2, "graph");
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  push_string(L, self.why_sized_apart);
  return 2;
}

// is_capturing() -> whether a function is captured now.
int l_is_capturing(lua_State* L) {
  lua_pushboolean(L, execution.capture != nullptr);
  return 1;
}

// refusal() -> why nothing is compiled as things are now, or nil.
int l_refusal(lua_State* L) {
  lua_pushstring(L, Circumstances::refusal(L));
  return 1;
}

}  // namespace

void register_programs(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"new", guard<l_new>},
                                        {"caller", guard<l_caller>},
                                        {"call", op_guard<l_call>},
                                        {"info", guard<l_info>},
                                        {"refusal", guard<l_refusal>},
                                        {"vary", guard<l_vary>},
                                        {"is_capturing", guard<l_is_capturing>},
                                        {"begin", guard<l_begin_capture>},
                                        {"finish", guard<l_finish_capture>},
                                        {nullptr, nullptr}};
  lua_newtable(L);
  set_functions(L, -1, kFunctions);
  register_parts(L);
  lua_pushinteger(L, static_cast<lua_Integer>(Compiled::kMostEntries));
  lua_setfield(L, -2, "most");
  lua_pushinteger(L, static_cast<lua_Integer>(Compiled::kMostSized));
  lua_setfield(L, -2, "most_sized");
  lua_setfield(L, -3, "_compiled");
}

}  // namespace moonlet::binding
