// interp/workers/module.cpp: module moonlet.workers: pools of workers, and random numbers that do
// not depend on how many there are.
#include "interp/workers/module.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/output.h"
#include "interp/state/state.h"
#include "interp/workers/pack.h"
#include "interp/workers/pool.h"
#include "interp/workers/unpack.h"

namespace moonlet::workers {
namespace {

// --- pools ---------------------------------------------------------------------------------------

constexpr char kPoolMetatable = 0;
constexpr int kMaxWorkers = 1024;

// The first user value is the shared table.
struct PoolCell {
  std::unique_ptr<Pool> pool;
};

// What the first argument holds when it has the metatable of that key, else null.
template <class Cell>
Cell* first_cell(lua_State* L, const char& metatable) {
  if (lua_type(L, 1) != LUA_TUSERDATA || lua_getmetatable(L, 1) == 0) return nullptr;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable);
  const bool same = lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return same ? static_cast<Cell*>(lua_touserdata(L, 1)) : nullptr;
}

Pool& check_pool(lua_State* L) {
  auto* cell = first_cell<PoolCell>(L, kPoolMetatable);
  if (cell == nullptr || cell->pool == nullptr) fail("workers: a pool is expected");
  return *cell->pool;
}

void show(StateData& data, const Report& report) { write_output(data, report.stream, report.text); }

// A worker has ended: by a limit that it shares with this interpreter, or an error.
[[noreturn]] void raise_failure(StateData& data, const Report& report) {
  if (report.cause != StopCause::None) {
    request_stop(data, report.cause);
    fail("DataLoader: worker ", report.worker, ": ", reason_of(report.cause));
  }
  fail("DataLoader: worker ", report.worker,
       " has ended: ", report.text.empty() ? "not enough memory" : report.text);
}

// Waits until one worker knows what it has of the catalog; all are alike.
std::vector<int> missing_there(StateData& data, Pool& pool) {
  for (;;) {
    std::optional<Report> report = pool.receive({});
    if (report->kind == Report::Kind::Ready) return std::move(report->missing);
    if (report->kind == Report::Kind::Failed) raise_failure(data, *report);
    show(data, *report);
  }
}

// Whether the value on top of the stack is one of the catalog.
bool is_shared(lua_State* L, int shared) {
  if (!lua_istable(L, -1) && !lua_isfunction(L, -1) && !lua_isuserdata(L, -1)) return false;
  push_shared(L, shared, kNumbers);
  lua_pushvalue(L, -2);
  const bool found = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return found;
}

// --- the first message ---------------------------------------------------------------------------

// Pushes a table of the globals, and one of what keeps others from crossing, by name: a worker
// that uses one of these gets the error, and other workers are not kept from their work.
void push_globals(lua_State* L, Packer& packer) {
  lua_newtable(L);
  lua_newtable(L);
  const int good = lua_gettop(L) - 1, bad = good + 1;
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, bad + 1) != 0) {
    const char* key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "of another name";
    const size_t mark = packer.mark();
    const int key_index = lua_gettop(L) - 1;
    try {
      lua_pushvalue(L, key_index);
      packer.add("a global's name");
      packer.add(text("global ", key));  // pops the value
      lua_pushvalue(L, key_index);
      lua_rawget(L, bad + 1);
      lua_pushvalue(L, key_index);
      lua_insert(L, -2);
      lua_rawset(L, good);
    } catch (const CannotCross& e) {
      lua_settop(L, key_index);
      packer.roll_back(mark);
      lua_pushvalue(L, key_index);
      lua_pushstring(L, e.what());
      lua_rawset(L, bad);
    }
  }
  lua_settop(L, bad);
}

// Whether a script may have put the value on top of the stack into a table of the library.
bool is_foreign(lua_State* L, int shared) {
  return (lua_istable(L, -1) || lua_isfunction(L, -1)) && !is_shared(L, shared);
}

// Appends to the list at `list` what a script has put into the library's table at the top: the
// table, the key, the value. Pops the table.
void add_changes(lua_State* L, Packer& packer, int shared, int list) {
  const int table = lua_gettop(L);
  lua_pushnil(L);
  while (lua_istable(L, table) && lua_next(L, table) != 0) {
    if (lua_type(L, -2) == LUA_TSTRING && is_foreign(L, shared)) {
      const size_t mark = packer.mark();
      const int value = lua_gettop(L);
      bool crosses = true;
      try {
        lua_pushvalue(L, value);
        packer.add(lua_tostring(L, value - 1));
      } catch (const CannotCross&) {
        // The library's own, or for the worker that uses it: there it is nil.
        packer.roll_back(mark);
        crosses = false;
      }
      lua_settop(L, value);
      const lua_Integer size = luaL_len(L, list);
      for (int i = 0; crosses && i < 3; ++i) {
        lua_pushvalue(L, table + i);
        lua_rawseti(L, list, size + 1 + i);
      }
    }
    lua_pop(L, 1);
  }
  lua_settop(L, table - 1);
}

// Pushes such a list of all modules, and of what `require` finds without files.
void push_changes(lua_State* L, Packer& packer, int shared) {
  lua_newtable(L);
  const int list = lua_gettop(L);
  const std::vector<Step>& steps = packer.catalog().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != Step::Kind::Module) continue;
    push_shared(L, shared, kValues);
    lua_rawgeti(L, -1, static_cast<lua_Integer>(i + 1));
    lua_remove(L, -2);
    add_changes(L, packer, shared, list);
  }
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  add_changes(L, packer, shared, list);
}

void push_package_field(lua_State* L, const char* name) {
  if (!push_library(L, LUA_LOADLIBNAME)) {
    lua_pushnil(L);
    return;
  }
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

// What each worker begins with: the values from `first` on, and the settings of the script.
MessagePtr first_message(lua_State* L, const Catalog& catalog, int shared, int first) {
  static const char* const kNames[] = {"dataset", "collate_fn", "worker_init_fn", "settings"};
  const int last = lua_gettop(L);
  Packer packer(L, shared, catalog);
  packer.add_values(first, last, kNames, std::size(kNames));
  std::vector<Value> values = std::exchange(packer.message().values, {});
  push_globals(L, packer);
  push_changes(L, packer, shared);
  push_package_field(L, "path");
  push_package_field(L, "cpath");
  const int settings = lua_gettop(L) - 4;
  packer.add_values(settings, lua_gettop(L), nullptr, 0);
  std::vector<Value>& all = packer.message().values;
  all.insert(all.end(), values.begin(), values.end());
  packer.add_side_entries();
  packer.add_modules();
  packer.note_sent();
  return std::make_shared<const Message>(std::move(packer.message()));
}

// start(count, module, ...): `run` of the module is called in each worker, with a function that
// receives and one that sends, and the values.
int l_start(lua_State* L) {
  const int64_t count = luaL_checkinteger(L, 1);
  const std::string module = luaL_checkstring(L, 2);
  const int last = lua_gettop(L);
  if (count < 1 || count > kMaxWorkers)
    fail("DataLoader: 'num_workers' must be at most ", kMaxWorkers, ", got ", count);
  StateData& data = state_data(L);
  auto* cell = new (lua_newuserdatauv(L, sizeof(PoolCell), 1)) PoolCell;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kPoolMetatable);
  lua_setmetatable(L, -2);
  Catalog catalog = read_catalog(L);
  const int shared = lua_gettop(L);
  lua_pushvalue(L, shared);
  lua_setiuservalue(L, shared - 1, 1);
  cell->pool = std::make_unique<Pool>(data, static_cast<int>(count), module, std::move(catalog));
  Pool& pool = *cell->pool;
  // Lua's errors end it, too.
  struct Stopper {
    Pool* pool;
    ~Stopper() {
      if (pool != nullptr) pool->stop();
    }
  } stopper{&pool};
  forget(L, shared, missing_there(data, pool));
  for (int i = 3; i <= last; ++i) lua_pushvalue(L, i);
  const MessagePtr message = first_message(L, pool.catalog(), shared, shared + 1);
  for (int worker = 1; worker <= pool.size(); ++worker) pool.send(worker, message);
  stopper.pool = nullptr;
  lua_settop(L, shared - 1);
  return 1;
}

// --- messages ------------------------------------------------------------------------------------

// pool:send(worker, ...)
int l_send(lua_State* L) {
  Pool& pool = check_pool(L);
  const int64_t worker = luaL_checkinteger(L, 2);
  if (worker < 1 || worker > pool.size()) fail("workers: there is no worker ", worker);
  const int last = lua_gettop(L);
  lua_getiuservalue(L, 1, 1);
  Packer packer(L, -1, pool.catalog());
  packer.add_values(3, last, nullptr, 0);
  if (packer.has_objects()) packer.add_side_entries();
  pool.send(static_cast<int>(worker), std::make_shared<const Message>(std::move(packer.message())));
  return 0;
}

// pool:receive(seconds?): what a worker has sent; nothing after that time.
int l_receive(lua_State* L) {
  Pool& pool = check_pool(L);
  std::optional<Clock::time_point> until;
  if (!lua_isnoneornil(L, 2)) {
    constexpr double kLongest = 1e9;
    const double seconds = std::min(luaL_checknumber(L, 2), kLongest);
    until = Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  for (;;) {
    const std::optional<Report> report = pool.receive(until);
    if (!report) return 0;
    if (report->kind == Report::Kind::Failed) raise_failure(state_data(L), *report);
    if (report->kind == Report::Kind::Output) show(state_data(L), *report);
    if (report->kind == Report::Kind::Values) {
      gc::settle(L);
      return Unpacker(L, 2, pool.catalog(), *report->message).push_values();
    }
  }
}

int l_stop(lua_State* L) {
  check_pool(L).stop();
  return 0;
}

int l_is_open(lua_State* L) {
  lua_pushboolean(L, check_pool(L).stopped() ? 0 : 1);
  return 1;
}

int l_collect(lua_State* L) {
  if (auto* cell = first_cell<PoolCell>(L, kPoolMetatable)) cell->pool.reset();
  return 0;
}

// --- random numbers ------------------------------------------------------------------------------

constexpr char kSeededMetatable = 0;

// Where a script's random numbers were: those of its default generator, of generators that it makes
// without a seed, and of math.random.
struct SeededCell {
  Philox state;
  uint64_t first_seed, unseeded;
  size_t lua_bytes = 0;
  alignas(8) char lua_state[64];
};

// The state behind math.random: the userdata that is its upvalue.
void* lua_random(lua_State* L, size_t* size) {
  void* found = nullptr;
  *size = 0;
  if (push_library(L, LUA_MATHLIBNAME)) {
    lua_getfield(L, -1, "randomseed");
    if (lua_iscfunction(L, -1) != 0 && lua_getupvalue(L, -1, 1) != nullptr) {
      found = lua_touserdata(L, -1);
      if (found != nullptr) *size = lua_rawlen(L, -1);
      lua_pop(L, 1);
    }
    lua_pop(L, 2);
  }
  return found;
}

void keep(lua_State* L, SeededCell& cell) {
  StateData& data = state_data(L);
  cell.state = data.generator.state();
  cell.first_seed = data.binding.first_seed;
  cell.unseeded = data.binding.unseeded_generators;
  size_t size = 0;
  if (const void* state = lua_random(L, &size); state != nullptr && size <= sizeof cell.lua_state) {
    std::memcpy(cell.lua_state, state, size);
    cell.lua_bytes = size;
  }
}

void restore(lua_State* L, const SeededCell& cell) {
  StateData& data = state_data(L);
  data.generator.set_state(cell.state);
  data.binding.first_seed = cell.first_seed;
  data.binding.unseeded_generators = cell.unseeded;
  size_t size = 0;
  void* state = lua_random(L, &size);
  if (state != nullptr && size == cell.lua_bytes) std::memcpy(state, cell.lua_state, size);
}

// seed(number): all random numbers of the interpreter follow from it.
int l_seed(lua_State* L) {
  const auto seed = static_cast<uint64_t>(luaL_checkinteger(L, 1));
  StateData& data = state_data(L);
  data.generator.manual_seed(seed);
  data.binding.first_seed = seed;
  data.binding.unseeded_generators = 0;
  if (push_library(L, LUA_MATHLIBNAME)) {
    lua_getfield(L, -1, "randomseed");
    if (lua_isfunction(L, -1)) {
      lua_pushinteger(L, static_cast<lua_Integer>(seed));
      lua_call(L, 1, 0);
    }
  }
  return 0;
}

SeededCell& check_kept(lua_State* L) {
  auto* cell = first_cell<SeededCell>(L, kSeededMetatable);
  if (cell == nullptr) fail("workers: what `kept` gave is expected");
  return *cell;
}

// kept(): what gives the random numbers back their positions when it is closed.
int l_kept(lua_State* L) {
  auto* cell = new (lua_newuserdatauv(L, sizeof(SeededCell), 0)) SeededCell;
  keep(L, *cell);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kSeededMetatable);
  lua_setmetatable(L, -2);
  return 1;
}

// exchange(kept): swaps the values that it holds and those of now.
int l_exchange(lua_State* L) {
  SeededCell& cell = check_kept(L);
  SeededCell now;
  keep(L, now);
  restore(L, cell);
  cell = now;
  return 0;
}

int l_end_seeded(lua_State* L) {
  restore(L, check_kept(L));
  return 0;
}

void make_metatables(lua_State* L) {
  static const luaL_Reg kMethods[] = {{"send", guard<l_send>},
                                      {"receive", guard<l_receive>},
                                      {"stop", guard<l_stop>},
                                      {"is_open", guard<l_is_open>},
                                      {nullptr, nullptr}};
  lua_createtable(L, 0, 4);
  luaL_newlib(L, kMethods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, guard<l_collect>);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, guard<l_stop>);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "worker pool");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kPoolMetatable);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, guard<l_end_seeded>);
  lua_setfield(L, -2, "__close");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kSeededMetatable);
}

constexpr luaL_Reg kFunctions[] = {{"start", guard<l_start>},
                                   {"seed", guard<l_seed>},
                                   {"kept", guard<l_kept>},
                                   {"exchange", guard<l_exchange>},
                                   {nullptr, nullptr}};

}  // namespace
}  // namespace moonlet::workers

int luaopen_moonlet_workers(lua_State* L) {
  moonlet::workers::make_metatables(L);
  luaL_newlib(L, moonlet::workers::kFunctions);
  return 1;
}
