// interp/binding/program/compiled.cpp: a call of a compiled function: the guards that hold are
// found, and their plan runs in place of the function.
#include "interp/binding/program/compiled.h"

#include <algorithm>
#include <new>

#include "autograd/tape.h"
#include "interp/binding/program/program_module.h"
#include "tensor/program/apart.h"
#include "tensor/program/same.h"

namespace moonlet::binding {

bool Entry::watched_hold() const {
  return std::all_of(watched.begin(), watched.end(), [](const Watched& each) {
    return each.tensor.storage().version() == each.version;
  });
}

Compiled& compiled_at(lua_State* L, int index) {
  return *static_cast<Compiled*>(luaL_checkudata(L, index, Compiled::kName));
}

void push_anchors(lua_State* L, int self, const Entry& entry) {
  lua_getiuservalue(L, self, 1);
  lua_rawgeti(L, -1, entry.id);
  lua_remove(L, -2);
}

std::shared_ptr<Entry> Compiled::find(lua_State* L, int self, int first, int count) {
  constexpr int kSlots = 80;
  luaL_checkstack(L, kSlots, "compile");
  for (size_t i = entries.size(); i-- > 0;) {
    Entry& entry = *entries[i];
    if (!entry.circumstances.hold() ||
        !entry.arguments.matches(L, first, count, entry.snapshot, inputs))
      continue;
    push_anchors(L, self, entry);
    const bool holds = entry.snapshot.holds(L, -1);
    lua_pop(L, 1);
    if (holds && program::leaf_gradients_fit(entry.gradients, entry.known_graph()))
      return entries[i];
  }
  return nullptr;
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
  compiled_at(L, 1) = Compiled();
  return 0;
}

// new(roots) -> compiled. `roots`: an array of what the function is and hangs on.
int l_new(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  new (lua_newuserdatauv(L, sizeof(Compiled), 2)) Compiled;
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

void run_program(Compiled& self, Entry& entry) {
  self.outputs.clear();
  if (entry.recorded)
    entry.recorded->run(self.inputs, self.outputs, entry.numbers);
  else
    entry.runner->run(self.inputs, self.outputs);
  program::set_leaf_gradients(entry.gradients, self.outputs);
  ++entry.runs;
}

// Runs the plan. Returns the message of an error, which has the line of the op in the function. One
// that has changed nothing yet is no error here: the function is to run, which may catch its own.
enum class Outcome : uint8_t { Ran, Undone, Failed };
Outcome run_plan(lua_State* L, Compiled& self, Entry& entry, std::string& message) {
  try {
    run_program(self, entry);
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

// Finds a plan and what it needs beside the arguments: gradients, numbers.
bool prepare_run(lua_State* L, Compiled& self, Entry& entry) {
  const program::Plan* const plan = entry.plan();
  if (plan == nullptr || !entry.watched_hold()) return false;
  program::add_leaf_gradients(entry.gradients, self.inputs);
  push_anchors(L, 1, entry);
  const bool given = ask_sources(L, lua_gettop(L), entry);
  lua_pop(L, 1);
  return given;
}

// run(compiled, ...) -> true when a plan has run in place of the function, false when none fits,
// nil when the function is to run as it is.
int l_run(lua_State* L) {
  Compiled& self = compiled_at(L, 1);
  self.matched.reset();
  Outcome outcome = Outcome::Undone;
  bool found = false, eager = false;
  if (!self.entries.empty() && Circumstances::refusal(L) == nullptr) {
    self.matched = self.find(L, 1, 2, lua_gettop(L) - 1);
    found = self.matched != nullptr && self.matched->state == Entry::State::Ready &&
            prepare_run(L, self, *self.matched);
    eager = self.matched != nullptr && self.matched->state == Entry::State::Eager;
    std::string message;
    if (found) outcome = run_plan(L, self, *self.matched, message);
    if (outcome == Outcome::Failed) {
      push_string(L, message);
      return lua_error(L);
    }
    if (outcome == Outcome::Ran && self.matched->sources != 0) {
      const std::shared_ptr<Entry> ran = self.matched;
      push_anchors(L, 1, *ran);
      tell_sources(L, lua_gettop(L), *ran);
      lua_pop(L, 1);
    }
  }
  if (outcome != Outcome::Ran) self.inputs.clear();
  if (eager || (found && outcome == Outcome::Undone))
    lua_pushnil(L);
  else
    lua_pushboolean(L, outcome == Outcome::Ran);
  return 1;
}

// take(compiled, ...) -> the results of the plan that has run, with the same arguments.
int l_take(lua_State* L) {
  Compiled& self = compiled_at(L, 1);
  if (self.matched == nullptr || self.matched->plan() == nullptr) return 0;
  const int count = lua_gettop(L) - 1;
  // Finalizers may run while results are made, and call the function again.
  const std::shared_ptr<Entry> matched = self.matched;
  const Entry& entry = *matched;
  push_anchors(L, 1, entry);
  const std::vector<Tensor> inputs = std::exchange(self.inputs, {});
  std::vector<Tensor> outputs = std::exchange(self.outputs, {});
  const program::Graph* const graph = entry.recorded ? nullptr : &entry.plan()->graph();
  return entry.results.push(L, -1, 2, count, inputs, graph, outputs);
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
// graph as text; of a plan `fused` and `apart`, lines about what was fused and what was not.
int l_info(lua_State* L) {
  const Compiled& self = compiled_at(L, 1);
  lua_createtable(L, static_cast<int>(self.entries.size()), 0);
  for (size_t i = 0; i < self.entries.size(); ++i) {
    const Entry& entry = *self.entries[i];
    lua_createtable(L, 0, 8);
    push_string(L, name(entry.state));
    lua_setfield(L, -2, "state");
    push_string(L, entry.reason);
    lua_setfield(L, -2, "reason");
    set_integer(L, "ops", entry.ops);
    set_integer(L, "runs", static_cast<size_t>(entry.runs));
    set_integer(L, "guards", entry.snapshot.size());
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
  return 1;
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
                                        {"run", op_guard<l_run>},
                                        {"take", guard<l_take>},
                                        {"info", guard<l_info>},
                                        {"refusal", guard<l_refusal>},
                                        {"vary", guard<l_vary>},
                                        {"is_capturing", guard<l_is_capturing>},
                                        {"begin", guard<l_begin_capture>},
                                        {"finish", guard<l_finish_capture>},
                                        {nullptr, nullptr}};
  lua_newtable(L);
  set_functions(L, -1, kFunctions);
  lua_pushinteger(L, static_cast<lua_Integer>(Compiled::kMostEntries));
  lua_setfield(L, -2, "most");
  lua_setfield(L, -3, "_compiled");
}

}  // namespace moonlet::binding
