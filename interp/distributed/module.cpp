// interp/distributed/module.cpp: module moonlet.distributed_engine: the plugin of processes that
// work together, for Lua. What is shared with it are the bytes of contiguous tensors on the host.
#include "interp/modules/modules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/distributed/call_table.h"
#include "interp/distributed/device_group.h"
#include "interp/distributed/engine.h"
#include "interp/distributed/plugins.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/programs.h"
#include "tensor/core/platform/threads.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::distributed {
namespace {

void look_at_stop() { stop_if_requested(); }

// --- userdata ------------------------------------------------------------------------------------

// What a userdata holds, by the name of its metatable.
template <class T>
constexpr const char* kTypeName = nullptr;
template <>
constexpr const char* kTypeName<Store> = "moonlet.distributed.Store";
template <>
constexpr const char* kTypeName<Server> = "moonlet.distributed.Server";
template <>
constexpr const char* kTypeName<Run> = "moonlet.distributed.Run";
template <>
constexpr const char* kTypeName<Group> = "moonlet.distributed.Group";
template <>
constexpr const char* kTypeName<Work> = "moonlet.distributed.Work";

template <class T>
std::shared_ptr<T>& cell_at(lua_State* L, int index) {
  return *static_cast<std::shared_ptr<T>*>(luaL_checkudata(L, index, kTypeName<T>));
}

template <class T>
T& object_at(lua_State* L, int index) {
  const std::shared_ptr<T>& cell = cell_at<T>(L, index);
  check(cell != nullptr, "distributed: this has been closed");
  return *cell;
}

template <class T>
int push_object(lua_State* L, std::shared_ptr<T> object) {
  auto* cell = new (lua_newuserdatauv(L, sizeof(std::shared_ptr<T>), 1)) std::shared_ptr<T>();
  luaL_setmetatable(L, kTypeName<T>);
  *cell = std::move(object);
  return 1;
}

template <class T>
int l_close(lua_State* L) {
  cell_at<T>(L, 1).reset();
  return 0;
}

std::string text_at(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

int push_text(lua_State* L, std::string_view text) {
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

Endpoint endpoint_at(lua_State* L, int index) {
  return {text_at(L, index), static_cast<int>(luaL_checkinteger(L, index + 1)),
          text_at(L, index + 2)};
}

// --- stores --------------------------------------------------------------------------------------

// serve(host, port, secret) -> server
int l_serve(lua_State* L) {
  return push_object(L, std::shared_ptr<Server>(engine_of().serve(endpoint_at(L, 1))));
}

int l_port(lua_State* L) {
  lua_pushinteger(L, object_at<Server>(L, 1).port());
  return 1;
}

constexpr const char* kEnds[] = {"none", "left", "died", "failed", "silent"};

int push_peers(lua_State* L, const std::vector<Peer>& peers) {
  lua_createtable(L, static_cast<int>(peers.size()), 0);
  lua_Integer i = 0;
  for (const Peer& peer : peers) {
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, peer.rank);
    lua_setfield(L, -2, "rank");
    lua_pushstring(L, kEnds[static_cast<size_t>(peer.end)]);
    lua_setfield(L, -2, "state");
    push_text(L, peer.text);
    lua_setfield(L, -2, "text");
    push_text(L, peer.doing);
    lua_setfield(L, -2, "doing");
    lua_pushnumber(L, peer.age);
    lua_setfield(L, -2, "age");
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

// server:gone(run) -> { { rank, state, text, doing, age }, ... }
int l_gone(lua_State* L) { return push_peers(L, object_at<Server>(L, 1).gone(text_at(L, 2))); }

// server:wait_for_ranks(seconds)
int l_wait_for_ranks(lua_State* L) {
  object_at<Server>(L, 1).wait_for_ranks(luaL_checknumber(L, 2), look_at_stop);
  return 0;
}

// connect(host, port, secret, seconds) -> store
int l_connect(lua_State* L) {
  return push_object(L,
                     engine_of().connect(endpoint_at(L, 1), luaL_checknumber(L, 4), look_at_stop));
}

// open_file(path) -> store
int l_open_file(lua_State* L) { return push_object(L, engine_of().open_file(text_at(L, 1))); }

int l_set(lua_State* L) {
  object_at<Store>(L, 1).set(text_at(L, 2), text_at(L, 3), look_at_stop);
  return 0;
}

// store:get(key, seconds) -> value, or nil after that time
int l_get(lua_State* L) {
  const auto value =
      object_at<Store>(L, 1).get(text_at(L, 2), luaL_checknumber(L, 3), look_at_stop);
  return value ? push_text(L, *value) : 0;
}

int l_add(lua_State* L) {
  lua_pushinteger(L,
                  object_at<Store>(L, 1).add(text_at(L, 2), luaL_checkinteger(L, 3), look_at_stop));
  return 1;
}

std::vector<std::string> texts_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<std::string> out;
  for (lua_Integer i = 1; i <= luaL_len(L, index); ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(text_at(L, -1));
    lua_pop(L, 1);
  }
  return out;
}

// store:wait(keys, seconds) -> whether all are there
int l_wait(lua_State* L) {
  const bool there =
      object_at<Store>(L, 1).wait(texts_at(L, 2), luaL_checknumber(L, 3), look_at_stop);
  lua_pushboolean(L, there);
  return 1;
}

int l_remove(lua_State* L) {
  lua_pushboolean(L, object_at<Store>(L, 1).remove(text_at(L, 2), look_at_stop));
  return 1;
}

int l_compare_set(lua_State* L) {
  const auto value =
      object_at<Store>(L, 1).compare_set(text_at(L, 2), text_at(L, 3), text_at(L, 4), look_at_stop);
  return value ? push_text(L, *value) : 0;
}

int l_count(lua_State* L) {
  lua_pushinteger(L, object_at<Store>(L, 1).count(look_at_stop));
  return 1;
}

// --- runs and groups -----------------------------------------------------------------------------

// join(backend, host, port, secret, name, rank, size, seconds, keeps_store) -> run
int l_join(lua_State* L) {
  return push_object(
      L, engine_of(text_at(L, 1))
             .join(endpoint_at(L, 2), text_at(L, 5), static_cast<int>(luaL_checkinteger(L, 6)),
                   static_cast<int>(luaL_checkinteger(L, 7)), luaL_checknumber(L, 8),
                   lua_toboolean(L, 9) != 0, look_at_stop));
}

int l_peers(lua_State* L) { return push_peers(L, object_at<Run>(L, 1).peers(look_at_stop)); }

// run:leave(): goodbye. run:leave(reason): this rank has failed.
int l_leave(lua_State* L) {
  const bool failed = !lua_isnoneornil(L, 2);
  object_at<Run>(L, 1).leave(failed, failed ? text_at(L, 2) : "");
  return 0;
}

// At the end of the interpreter others hear whether it ends by an error.
int l_collect_run(lua_State* L) {
  std::shared_ptr<Run>& cell = cell_at<Run>(L, 1);
  if (cell == nullptr) return 0;
  if (lua_getfield(L, LUA_REGISTRYINDEX, kScriptFailure) == LUA_TSTRING)
    cell->leave(true, text_at(L, -1).substr(0, text_at(L, -1).find('\n')));
  cell.reset();
  return 0;
}

// run:group(name, members, position, seconds) -> group, the work that connects it
int l_group(lua_State* L) {
  const std::vector<int64_t> members = integers_at(L, 3);
  std::shared_ptr<Work> connected;
  std::shared_ptr<Group> group = object_at<Run>(L, 1).group(
      text_at(L, 2), {members.begin(), members.end()}, static_cast<int>(luaL_checkinteger(L, 4)),
      luaL_checknumber(L, 5), connected);
  push_object(L, std::move(group));
  return push_object(L, std::move(connected)) + 1;
}

// --- calls ---------------------------------------------------------------------------------------

// What work in the group's stream uses is not used again before that is done.
void keep_for(const std::optional<DeviceStream>& stream, const CallTensors& tensors) {
  if (!stream) return;
  for (const Tensor* x : {&tensors.in, &tensors.out})
    if (x->defined()) record_stream(*x, *stream);
}

// group:start(call, size) -> work
int l_start(lua_State* L) {
  Group& group = object_at<Group>(L, 1);
  CallTensors tensors;
  Call call = call_at(L, 2, static_cast<size_t>(luaL_checkinteger(L, 3)), group.stream(), tensors);
  keep_for(group.stream(), tensors);
  return push_object(L, group.start(std::move(call)));
}

// group:start_all(calls, size) -> work: of a group whose tensors are on a device.
int l_start_all(lua_State* L) {
  auto* const group = dynamic_cast<DeviceGroup*>(&object_at<Group>(L, 1));
  check(group != nullptr, "distributed: the group is not one of devices");
  luaL_checktype(L, 2, LUA_TTABLE);
  const auto size = static_cast<size_t>(luaL_checkinteger(L, 3));
  std::vector<Call> calls;
  for (lua_Integer i = 1; i <= luaL_len(L, 2); ++i) {
    lua_rawgeti(L, 2, i);
    CallTensors tensors;
    calls.push_back(call_at(L, lua_gettop(L), size, group->stream(), tensors));
    keep_for(group->stream(), tensors);
    lua_pop(L, 1);
  }
  check(!calls.empty(), "distributed: at least one call is expected");
  return push_object(L, group->start_all(std::move(calls)));
}

// --- groups of devices ---------------------------------------------------------------------------

// devices_unavailable(x) -> nil, or why tensors on the device of x must go by the host
int l_devices_unavailable(lua_State* L) {
  const std::string reason =
      devices_unavailable(binding::check_tensor(L, 1, "distributed").device());
  return reason.empty() ? 0 : push_text(L, reason);
}

// device_has(x, call) -> whether groups of that device have such a call, of its kind and reduction,
// for the dtype of x
int l_device_has(lua_State* L) {
  const Tensor& x = binding::check_tensor(L, 1, "distributed");
  luaL_checktype(L, 2, LUA_TTABLE);
  const CallName name = call_name_at(L, 2);
  lua_pushboolean(L, communicators_of(x.device()).has(name.kind, name.reduction, x.dtype()));
  return 1;
}

// run:device_group(members, position, seconds, x, key) -> group on the device of x, of ranks that
// find each other by that key of the store
int l_device_group(lua_State* L) {
  object_at<Run>(L, 1);
  const std::vector<int64_t> members = integers_at(L, 2);
  const Device device = binding::check_tensor(L, 5, "distributed").device();
  return push_object<Group>(
      L, join_devices(cell_at<Run>(L, 1), {members.begin(), members.end()},
                      static_cast<int>(luaL_checkinteger(L, 3)), luaL_checknumber(L, 4), device,
                      text_at(L, 6), look_at_stop));
}

// group:abort(reason)
int l_abort(lua_State* L) {
  object_at<Group>(L, 1).abort(text_at(L, 2));
  return 0;
}

// work:wait(seconds) -> false after that time, true, or nil and why it has failed. Interrupts end
// the wait, not the work.
int l_wait_work(lua_State* L) {
  const std::shared_ptr<Work> work = cell_at<Work>(L, 1);
  check(work != nullptr, "distributed: this has been closed");
  double left = luaL_checknumber(L, 2);
  constexpr double kLook = 0.05;
  bool done = work->wait(0);
  while (!done && left > 0) {
    done = work->wait(std::min(left, kLook));
    left -= kLook;
    if (!done) look_at_stop();
  }
  const std::string error = done ? work->error() : "";
  if (error.empty()) {
    lua_pushboolean(L, done);
    return 1;
  }
  lua_pushnil(L);
  return push_text(L, error) + 1;
}

// work:join() -> nil where the host must wait, true, or nil and why it has failed
int l_join_work(lua_State* L) {
  Work& work = object_at<Work>(L, 1);
  const std::string error = work.error();
  if (error.empty()) {
    if (!work.join()) return 0;
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  return push_text(L, error) + 1;
}

// work:source() -> the rank in the group that it came from
int l_source(lua_State* L) {
  lua_pushinteger(L, object_at<Work>(L, 1).source());
  return 1;
}

// work:times() -> when the ranks began with it and when it ended, as `system.clock` counts; nothing
// before it has ended, or where it never began
int l_times(lua_State* L) {
  const Work& work = object_at<Work>(L, 1);
  if (work.began() == 0 || work.ended() == 0) return 0;
  lua_pushnumber(L, work.began());
  lua_pushnumber(L, work.ended());
  return 2;
}

// --- launching -----------------------------------------------------------------------------------

std::vector<Rank> ranks_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<Rank> out;
  for (lua_Integer i = 1; i <= luaL_len(L, index); ++i) {
    lua_rawgeti(L, index, i);
    Rank rank;
    lua_getfield(L, -1, "number");
    rank.number = static_cast<int>(luaL_checkinteger(L, -1));
    lua_getfield(L, -2, "arguments");
    rank.arguments = texts_at(L, lua_gettop(L));
    lua_getfield(L, -3, "environment");
    rank.environment = texts_at(L, lua_gettop(L));
    lua_pop(L, 4);
    out.push_back(std::move(rank));
  }
  return out;
}

// launch(ranks, line): each is { number, arguments, environment }, and `line(number, is_error,
// text)` gets what they write. Returns { { number, status, first, errors }, ... }.
int l_launch(lua_State* L) {
  const std::vector<Rank> ranks = ranks_at(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  const auto line = [L](int rank, bool error, std::string_view text) {
    lua_pushvalue(L, 2);
    lua_pushinteger(L, rank);
    lua_pushboolean(L, error);
    push_text(L, text);
    lua_call(L, 3, 0);
  };
  const std::vector<RankEnd> ends = engine_of().launch(ranks, line, look_at_stop);
  lua_newtable(L);
  lua_Integer i = 0;
  for (const RankEnd& end : ends) {
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, end.number);
    lua_setfield(L, -2, "number");
    lua_pushinteger(L, end.status);
    lua_setfield(L, -2, "status");
    lua_pushboolean(L, end.first);
    lua_setfield(L, -2, "first");
    push_text(L, end.errors);
    lua_setfield(L, -2, "errors");
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

// environment() -> { "NAME=value", ... }
int l_environment(lua_State* L) {
  lua_newtable(L);
  lua_Integer i = 0;
  for (const std::string& each : platform::environment()) {
    push_text(L, each);
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

// processors() -> how many threads the machine runs at once
int l_processors(lua_State* L) {
  lua_pushinteger(L, std::max(1U, std::thread::hardware_concurrency()));
  return 1;
}

// --- bytes ---------------------------------------------------------------------------------------

// tensor_of(bytes) -> a tensor of uint8 that holds them
int l_tensor_of(lua_State* L) {
  size_t size = 0;
  const char* bytes = luaL_checklstring(L, 1, &size);
  const Tensor out = empty_plain({static_cast<int64_t>(size)}, {DType::UInt8, {}}, "distributed");
  if (size > 0) std::memcpy(out.raw(), bytes, size);
  return binding::push_result(L, out);
}

// bytes_of(tensor) -> those of its elements
int l_bytes_of(lua_State* L) {
  const Tensor& x = binding::check_tensor(L, 1, "distributed");
  check(x.device().is_cpu() && x.is_contiguous(),
        "distributed: a contiguous tensor on the host is expected");
  lua_pushlstring(L, x.numel() > 0 ? x.raw() : "",
                  static_cast<size_t>(x.numel()) * static_cast<size_t>(size_of(x.dtype())));
  return 1;
}

// unavailable(backend) -> nil, or why there is no plugin of it, or of any
int l_unavailable(lua_State* L) {
  const std::string reason = missing_reason(luaL_optstring(L, 1, ""));
  return reason.empty() ? 0 : push_text(L, reason);
}

// --- the module ----------------------------------------------------------------------------------

template <class T>
void add_type(lua_State* L, const luaL_Reg* methods, lua_CFunction collect) {
  luaL_newmetatable(L, kTypeName<T>);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "close");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

constexpr luaL_Reg kStore[] = {{"set", guard<l_set>},       {"get", guard<l_get>},
                               {"add", guard<l_add>},       {"wait", guard<l_wait>},
                               {"delete", guard<l_remove>}, {"compare_set", guard<l_compare_set>},
                               {"count", guard<l_count>},   {nullptr, nullptr}};
constexpr luaL_Reg kServer[] = {{"port", guard<l_port>},
                                {"gone", guard<l_gone>},
                                {"wait_for_ranks", guard<l_wait_for_ranks>},
                                {nullptr, nullptr}};
constexpr luaL_Reg kRun[] = {{"group", guard<l_group>},
                             {"device_group", guard<l_device_group>},
                             {"peers", guard<l_peers>},
                             {"leave", guard<l_leave>},
                             {nullptr, nullptr}};
constexpr luaL_Reg kGroup[] = {{"start", guard<l_start>},
                               {"start_all", guard<l_start_all>},
                               {"abort", guard<l_abort>},
                               {nullptr, nullptr}};
constexpr luaL_Reg kWork[] = {{"wait", guard<l_wait_work>},
                              {"join", guard<l_join_work>},
                              {"source", guard<l_source>},
                              {"times", guard<l_times>},
                              {nullptr, nullptr}};
constexpr luaL_Reg kFunctions[] = {{"unavailable", guard<l_unavailable>},
                                   {"devices_unavailable", guard<l_devices_unavailable>},
                                   {"device_has", guard<l_device_has>},
                                   {"serve", guard<l_serve>},
                                   {"connect", guard<l_connect>},
                                   {"open_file", guard<l_open_file>},
                                   {"join", guard<l_join>},
                                   {"launch", guard<l_launch>},
                                   {"environment", guard<l_environment>},
                                   {"processors", guard<l_processors>},
                                   {"tensor_of", guard<l_tensor_of>},
                                   {"bytes_of", guard<l_bytes_of>},
                                   {nullptr, nullptr}};

}  // namespace
}  // namespace moonlet::distributed

int luaopen_moonlet_distributed_engine(lua_State* L) {
  using namespace moonlet;
  using namespace moonlet::distributed;
  add_type<Store>(L, kStore, guard<l_close<Store>>);
  add_type<Server>(L, kServer, guard<l_close<Server>>);
  add_type<Run>(L, kRun, guard<l_collect_run>);
  add_type<Group>(L, kGroup, guard<l_close<Group>>);
  add_type<Work>(L, kWork, guard<l_close<Work>>);
  luaL_newlib(L, kFunctions);
  return 1;
}
