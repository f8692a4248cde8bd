// interp/embed/host_function.cpp: functions of the host as Lua functions.
#include <cxxabi.h>

#include <cstring>
#include <new>
#include <typeinfo>

#include "interp/embed/class_record.h"
#include "interp/embed/session.h"
#include "interp/state/guard.h"
#include "tensor/runtime/stack.h"

namespace moonlet::detail {

// A host function. The session lists them all: when it closes, they stay until the last finalizer
// has run.
struct HostCell {
  HostFunction function;
  std::unique_ptr<FunctionSet> typed;  // in its stead
  int running = 0;
  bool seen_dead = false;
  bool released = false;
  HostCell* next = nullptr;
  HostCell** link = nullptr;
};

namespace {

// The registry key of the metatable of the userdata that hold a cell.
constexpr char kMetatable = 0;

void unlink_and_delete(HostCell* cell) noexcept {
  *cell->link = cell->next;
  if (cell->next != nullptr) cell->next->link = cell->link;
  delete cell;
}

// The cell's userdata at `index`; null for any other value.
HostCell** cell_at(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_getmetatable(L, index) == 0) return nullptr;
  const void* metatable = lua_topointer(L, -1);
  lua_pop(L, 1);
  return metatable == Session::of(L).cell_metatable
             ? static_cast<HostCell**>(lua_touserdata(L, index))
             : nullptr;
}

// The finalizer. Others of this cycle may still call the function, so it goes with the next one.
int collect_cell(lua_State* L) {
  HostCell** slot = cell_at(L, 1);
  if (slot == nullptr || *slot == nullptr || state_data(L).closing) return 0;
  HostCell* cell = *slot;
  if (!cell->seen_dead) {
    cell->seen_dead = true;
    lua_getmetatable(L, 1);
    lua_setmetatable(L, 1);
    return 0;
  }
  *slot = nullptr;
  if (cell->running > 0)
    cell->released = true;
  else
    unlink_and_delete(cell);
  return 0;
}

class Running {
 public:
  explicit Running(HostCell& cell) : cell_(cell) { ++cell.running; }
  ~Running() {
    if (--cell_.running == 0 && cell_.released) unlink_and_delete(&cell_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  HostCell& cell_;
};

// The cell's place, of the running function: scripts do not reach upvalues of C functions.
HostCell** own_slot(lua_State* L) {
  return static_cast<HostCell**>(lua_touserdata(L, lua_upvalueindex(1)));
}

int run_cell(lua_State* L, Session& session) {
  HostCell** slot = own_slot(L);
  if (slot == nullptr || *slot == nullptr) throw Error("the host function has been released");
  const Running running(**slot);
  const Values results = (*slot)->function(session.take_from(L, 1));
  lua_settop(L, 0);
  luaL_checkstack(L, static_cast<int>(results.size()) + 4, "too many results");
  for (const Value& result : results) session.push(L, result);
  return static_cast<int>(results.size());
}

int call_host_function(lua_State* L) {
  // What a host's own frames take is its affair.
  if (stack_is_short()) return luaL_error(L, "C stack overflow");
  Session& session = Session::of(L);
  try {
    return run_cell(L, session);
  } catch (const std::exception&) {
    session.push_current_exception(L);
  } catch (...) {
    if (must_pass()) throw;
    session.push_current_exception(L);
  }
  return lua_error(L);
}

int call_typed_function(lua_State* L) {
  HostCell** slot = own_slot(L);
  if (slot == nullptr || *slot == nullptr)
    return luaL_error(L, "the host function has been released");
  const Running running(**slot);
  return call_set(L, *(*slot)->typed);
}

void push_metatable(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kMetatable) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 3);
  lua_pushcfunction(L, guard<collect_cell>);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "host function");
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "host function");
  lua_setfield(L, -2, "__metatable");
  Session::of(L).cell_metatable = lua_topointer(L, -1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kMetatable);
}

}  // namespace

bool must_pass() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type == nullptr || std::strstr(type->name(), "lua_longjmp") != nullptr;
}

namespace {
// Leaves the userdata of a new cell on the stack.
HostCell& push_new_cell(lua_State* L) {
  Session& session = Session::of(L);
  auto** slot = static_cast<HostCell**>(lua_newuserdatauv(L, sizeof(void*), 0));
  *slot = nullptr;
  push_metatable(L);
  lua_setmetatable(L, -2);
  auto* cell = new HostCell{};
  cell->next = session.cells;
  cell->link = &session.cells;
  if (cell->next != nullptr) cell->next->link = &cell->next;
  session.cells = *slot = cell;
  return *cell;
}
}  // namespace

void push_host_function(lua_State* L, HostFunction function) {
  push_new_cell(L).function = std::move(function);
  lua_pushcclosure(L, call_host_function, 1);
}

void push_function_set(Stack& stack, FunctionSet set) {
  lua_State* L = stack.state();
  luaL_checkstack(L, 6, "too many functions");
  push_new_cell(L).typed = std::make_unique<FunctionSet>(std::move(set));
  lua_pushcclosure(L, call_typed_function, 1);
}

void free_host_functions(Session& session) noexcept {
  while (session.cells != nullptr) unlink_and_delete(session.cells);
}

}  // namespace moonlet::detail
