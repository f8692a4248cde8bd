// interp/binding/random_generator.cpp: ml.Generator, ml.default_generator and the functions that
// seed it.
#include "interp/binding/random_generator.h"

#include <new>

#include "interp/binding/arg_reader.h"
#include "interp/state/nearest.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

constexpr const char* kGeneratorName = "Generator";

// A generator of a script, or the default one of its interpreter.
struct GeneratorValue {
  Generator own;
  Generator* generator;
};

Generator& check_generator(lua_State* L, int index, const char* op) {
  Generator* generator = test_generator(L, index);
  if (generator == nullptr) fail(op, ": a generator is expected, got ", type_name(L, index));
  program::run_deferred();  // ops that were put off have yet to draw
  return *generator;
}

// The value on top of the stack becomes a generator.
void set_generator_metatable(lua_State* L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).generator_ref);
  lua_setmetatable(L, -2);
}

constexpr ArgSpec kGeneratorArgs[] = {{"device", ArgType::Device, false},
                                      {"seed", ArgType::Int, false, false, true}};
const Signature kGenerator = {"Generator", "ml.Generator(device=nil, {seed=nil})", kGeneratorArgs,
                              std::size(kGeneratorArgs)};

int l_generator(lua_State* L) {
  ArgReader args(L, kGenerator);
  std::optional<Device> device;
  if (args.has(0)) device = args.device(0);
  if (device) require_device(*device, "Generator");
  // Without a seed, neither the numbers of the default generator nor those of another one.
  BindingState& state = binding_state(L);
  const uint64_t seed = args.has(1) ? static_cast<uint64_t>(args.integer(1))
                                    : derived_seed(~state.first_seed, ++state.unseeded_generators);
  push_generator(L, Generator(seed, device));
  return 1;
}

void push_state(lua_State* L, const Generator& generator) {
  const Philox state = generator.state();
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, static_cast<lua_Integer>(state.seed));
  lua_setfield(L, -2, "seed");
  lua_pushinteger(L, static_cast<lua_Integer>(state.offset));
  lua_setfield(L, -2, "offset");
}

// Reads the table that push_state makes.
void read_state(lua_State* L, int index, Generator& generator, const char* op, const char* source) {
  check(lua_istable(L, index), op, ": the table of ", source, " is expected, got ",
        type_name(L, index));
  static constexpr const char* kNames[] = {"seed", "offset"};
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    lua_pop(L, 1);
    const std::string key = luaL_tolstring(L, -1, nullptr);
    lua_pop(L, 1);
    check(key == kNames[0] || key == kNames[1], op, ": unknown option '", key, "'",
          did_you_mean(key, kNames));
  }
  lua_pushliteral(L, "seed");
  lua_rawget(L, index);
  lua_pushliteral(L, "offset");
  lua_rawget(L, index);
  Philox state;
  state.seed = static_cast<uint64_t>(integer_argument(L, -2, op, "field 'seed'"));
  state.offset = static_cast<uint64_t>(integer_argument(L, -1, op, "field 'offset'"));
  generator.set_state(state);
}

int l_seed_generator(lua_State* L) {
  check_generator(L, 1, "manual_seed")
      .manual_seed(static_cast<uint64_t>(integer_argument(L, 2, "manual_seed", "the seed")));
  lua_settop(L, 1);
  return 1;
}

int l_new_seed(lua_State* L) {
  return push_result(L, static_cast<int64_t>(check_generator(L, 1, "seed").seed()));
}

int l_initial_seed(lua_State* L) {
  return push_result(L, static_cast<int64_t>(check_generator(L, 1, "initial_seed").initial_seed()));
}

int l_get_state(lua_State* L) {
  push_state(L, check_generator(L, 1, "get_state"));
  return 1;
}

int l_set_state(lua_State* L) {
  read_state(L, 2, check_generator(L, 1, "set_state"), "set_state", "get_state");
  lua_settop(L, 1);
  return 1;
}

int l_tostring(lua_State* L) {
  const Generator& generator = check_generator(L, 1, "tostring");
  std::string out = text("Generator (seed ", static_cast<int64_t>(generator.initial_seed()));
  if (generator.device()) out += text(", ", *generator.device());
  out += generator.state().offset == 0 ? ")" : ", in use)";
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

// Upvalue: the methods.
int l_index(lua_State* L) {
  const Generator& generator = check_generator(L, 1, "Generator");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const std::string key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : type_name(L, 2);
  if (key == "device") {
    if (!generator.device()) return 0;
    const std::string device = name(*generator.device());
    lua_pushlstring(L, device.data(), device.size());
    return 1;
  }
  const char* const kNames[] = {"device",       "manual_seed", "seed",
                                "initial_seed", "get_state",   "set_state"};
  fail("Generator has no field or method '", key, "'", did_you_mean(key, kNames));
}

int l_manual_seed(lua_State* L) {
  program::run_deferred();
  default_generator().manual_seed(
      static_cast<uint64_t>(integer_argument(L, 1, "manual_seed", "the seed")));
  return 0;
}

int l_seed(lua_State* L) {
  program::run_deferred();
  return push_result(L, static_cast<int64_t>(default_generator().seed()));
}

int l_default_initial_seed(lua_State* L) {
  return push_result(L, static_cast<int64_t>(default_generator().initial_seed()));
}

int l_get_rng_state(lua_State* L) {
  program::run_deferred();
  push_state(L, default_generator());
  return 1;
}

int l_set_rng_state(lua_State* L) {
  program::run_deferred();
  read_state(L, 1, default_generator(), "set_rng_state", "get_rng_state");
  return 0;
}

void make_metatable(lua_State* L) {
  static const luaL_Reg kMethods[] = {
      {"manual_seed", guard<l_seed_generator>}, {"seed", guard<l_new_seed>},
      {"initial_seed", guard<l_initial_seed>},  {"get_state", guard<l_get_state>},
      {"set_state", guard<l_set_state>},        {nullptr, nullptr}};
  lua_createtable(L, 0, 4);
  luaL_newlib(L, kMethods);
  lua_pushcclosure(L, guard<l_index>, 1);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, guard<l_tostring>);
  lua_setfield(L, -2, "__tostring");
  lua_pushstring(L, kGeneratorName);
  lua_setfield(L, -2, "__name");
  // Scripts cannot reach the metatable, so none can break the type check.
  lua_pushstring(L, kGeneratorName);
  lua_setfield(L, -2, "__metatable");
  binding_state(L).generator_metatable = lua_topointer(L, -1);
  binding_state(L).generator_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

}  // namespace

Generator* test_generator(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_getmetatable(L, index) == 0) return nullptr;
  const void* metatable = lua_topointer(L, -1);
  lua_pop(L, 1);
  if (metatable != binding_state(L).generator_metatable) return nullptr;
  return static_cast<GeneratorValue*>(lua_touserdata(L, index))->generator;
}

void push_generator(lua_State* L, const Generator& generator) {
  auto* value =
      new (lua_newuserdatauv(L, sizeof(GeneratorValue), 0)) GeneratorValue{generator, nullptr};
  value->generator = &value->own;
  set_generator_metatable(L);
}

void register_generator(lua_State* L) {
  static const luaL_Reg kModule[] = {{"Generator", guard<l_generator>},
                                     {"manual_seed", guard<l_manual_seed>},
                                     {"seed", guard<l_seed>},
                                     {"initial_seed", guard<l_default_initial_seed>},
                                     {"get_rng_state", guard<l_get_rng_state>},
                                     {"set_rng_state", guard<l_set_rng_state>},
                                     {nullptr, nullptr}};
  make_metatable(L);
  set_functions(L, -2, kModule);
  new (lua_newuserdatauv(L, sizeof(GeneratorValue), 0))
      GeneratorValue{Generator(), &state_data(L).generator};
  set_generator_metatable(L);
  lua_setfield(L, -3, "default_generator");
}

}  // namespace moonlet::binding
