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
#include "interp/distributed/engine.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/core/platform/programs.h"
#include "tensor/core/platform/threads.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet::distributed {
namespace {

struct Loaded {
  const Engine* engine = nullptr;
  std::string reason;
};

Loaded load() {
  Loaded out;
  for (const std::string& position :
       plugin_paths("moonlet-distributed.so", "interp/distributed", "MOONLET_DISTRIBUTED_PLUGIN")) {
    std::string reason;
    void* handle = platform::open_library(position, platform::Binding::kNow, reason);
    if (handle == nullptr) {
      if (reason.find(position + ": cannot open") == reason.npos) out.reason = reason;
      continue;
    }
    const auto* engine = static_cast<const Engine*>(platform::find_symbol(handle, kEngine));
    if (engine != nullptr && engine->version == kVersion) return {engine, {}};
    out.reason = position + " was built for another Moonlet; build or install both together";
    platform::close_library(handle);
  }
  if (out.reason.empty())
    out.reason =
        "this Moonlet was built without Gloo (there is no moonlet-distributed.so beside it)";
  return out;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

const Engine& engine() {
  check(loaded().engine != nullptr, loaded().reason);
  return *loaded().engine;
}

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
  return push_object(L, std::shared_ptr<Server>(engine().serve(endpoint_at(L, 1))));
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
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, peer.rank);
    lua_setfield(L, -2, "rank");
    lua_pushstring(L, kEnds[static_cast<size_t>(peer.end)]);
    lua_setfield(L, -2, "state");
    push_text(L, peer.text);
    lua_setfield(L, -2, "text");
    lua_pushnumber(L, peer.age);
    lua_setfield(L, -2, "age");
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

// server:gone(run) -> { { rank, state, text, age }, ... }
int l_gone(lua_State* L) { return push_peers(L, object_at<Server>(L, 1).gone(text_at(L, 2))); }

// connect(host, port, secret, seconds) -> store
int l_connect(lua_State* L) {
  return push_object(L, engine().connect(endpoint_at(L, 1), luaL_checknumber(L, 4), look_at_stop));
}

// open_file(path) -> store
int l_open_file(lua_State* L) { return push_object(L, engine().open_file(text_at(L, 1))); }

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

// join(host, port, secret, name, rank, size, seconds, keeps_store) -> run
int l_join(lua_State* L) {
  return push_object(
      L, engine().join(endpoint_at(L, 1), text_at(L, 4), static_cast<int>(luaL_checkinteger(L, 5)),
                       static_cast<int>(luaL_checkinteger(L, 6)), luaL_checknumber(L, 7),
                       lua_toboolean(L, 8) != 0, look_at_stop));
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

std::vector<int64_t> integers_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<int64_t> out;
  for (lua_Integer i = 1; i <= luaL_len(L, index); ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(luaL_checkinteger(L, -1));
    lua_pop(L, 1);
  }
  return out;
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

template <size_t N>
int choice(lua_State* L, const char* field, const std::array<const char*, N>& names) {
  lua_getfield(L, 2, field);
  const char* name = luaL_optstring(L, -1, names[0]);
  for (size_t i = 0; i < N; ++i) {
    if (std::strcmp(name, names[i]) != 0) continue;
    lua_pop(L, 1);
    return static_cast<int>(i);
  }
  fail("distributed: there is no ", field, " '", name, "'");
}

int64_t integer_field(lua_State* L, const char* field) {
  lua_getfield(L, 2, field);
  const int64_t out = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return out;
}

bool flag_field(lua_State* L, const char* field) {
  lua_getfield(L, 2, field);
  const bool out = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return out;
}

std::vector<size_t> counts_field(lua_State* L, const char* field) {
  std::vector<size_t> out;
  if (lua_getfield(L, 2, field) == LUA_TTABLE)
    for (const int64_t count : integers_at(L, lua_gettop(L))) {
      check(count >= 0, "distributed: a count is negative");
      out.push_back(static_cast<size_t>(count));
    }
  lua_pop(L, 1);
  return out;
}

// The tensor of a field, or an undefined one.
Tensor tensor_field(lua_State* L, const char* field) {
  Tensor out;
  if (lua_getfield(L, 2, field) != LUA_TNIL) {
    out = binding::check_tensor(L, lua_gettop(L), "distributed");
    check(out.device().is_cpu() && out.is_contiguous(),
          "distributed: a contiguous tensor on the host is expected");
  }
  lua_pop(L, 1);
  return out;
}

size_t sum_of(const std::vector<size_t>& counts) {
  size_t out = 0;
  for (const size_t count : counts) out += count;
  return out;
}

size_t elements(const Tensor& x) { return x.defined() ? static_cast<size_t>(x.numel()) : 0; }

// What a call reads and writes must lie in its tensors, whatever the library says.
void check_sizes(const Call& call, const Tensor& in, const Tensor& out, size_t size) {
  size_t read = call.count, written = call.count;
  if (call.kind == Kind::AllGather) written *= size;
  if (call.kind == Kind::Exchange) {
    read = call.same_to_all ? call.count : sum_of(call.sent);
    written = sum_of(call.received);
  }
  if (call.kind == Kind::ReduceScatter) read = sum_of(call.sent);
  if (call.kind == Kind::Barrier || call.kind == Kind::Receive || call.kind == Kind::Broadcast)
    read = 0;
  if (call.kind == Kind::Barrier || call.kind == Kind::Send ||
      (call.kind == Kind::Reduce && !out.defined()))
    written = 0;
  check(elements(in) >= read && elements(out) >= written,
        "distributed: a tensor is too small for a call");
  for (const Tensor* x : {&in, &out})
    check(!x->defined() || x->dtype() == call.dtype, "distributed: dtypes differ");
  const bool by_ranks = call.kind == Kind::Exchange || call.kind == Kind::ReduceScatter;
  check(!by_ranks || call.sent.size() == size, "distributed: a count for each rank is expected");
  check(call.kind != Kind::Exchange || call.received.size() == size,
        "distributed: a count for each rank is expected");
  check(call.root < static_cast<int>(size), "distributed: there is no such rank");
}

constexpr std::array<const char*, 9> kKinds = {"all_reduce", "reduce_scatter", "broadcast",
                                               "reduce",     "all_gather",     "exchange",
                                               "barrier",    "send",           "receive"};
constexpr std::array<const char*, 7> kReductions = {"sum",  "product", "min", "max",
                                                    "band", "bor",     "bxor"};

// group:start(call, size) -> work
int l_start(lua_State* L) {
  Group& group = object_at<Group>(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  const auto size = static_cast<size_t>(luaL_checkinteger(L, 3));
  Call call;
  call.kind = static_cast<Kind>(choice(L, "kind", kKinds));
  call.reduction = static_cast<Reduction>(choice(L, "reduction", kReductions));
  call.tag = static_cast<uint32_t>(integer_field(L, "tag"));
  call.root = static_cast<int>(integer_field(L, "root"));
  call.count = static_cast<size_t>(integer_field(L, "count"));
  call.sent = counts_field(L, "sent");
  call.received = counts_field(L, "received");
  call.ordered = flag_field(L, "ordered");
  call.same_to_all = flag_field(L, "same_to_all");
  lua_getfield(L, 2, "what");
  call.what = text_at(L, -1);
  auto tensors = std::make_shared<std::array<Tensor, 2>>();
  const Tensor &in = (*tensors)[0] = tensor_field(L, "input"),
               &out = (*tensors)[1] = tensor_field(L, "output");
  if (in.defined() || out.defined()) call.dtype = in.defined() ? in.dtype() : out.dtype();
  check_sizes(call, in, out, size);
  if (out.defined()) {
    check(!out.storage().is_read_only(), "distributed: the tensor that is written is read-only");
    out.storage().bump_version();
  }
  call.in = in.defined() ? in.raw() : nullptr;
  call.out = out.defined() ? out.raw() : nullptr;
  call.memory = std::move(tensors);
  return push_object(L, group.start(std::move(call)));
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
  const std::vector<RankEnd> ends = engine().launch(ranks, line, look_at_stop);
  lua_newtable(L);
  lua_Integer i = 0;
  for (const RankEnd& end : ends) {
    lua_createtable(L, 0, 4);
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

// unavailable() -> nil, or why there is no plugin
int l_unavailable(lua_State* L) {
  if (loaded().engine != nullptr) return 0;
  return push_text(L, loaded().reason);
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
constexpr luaL_Reg kServer[] = {
    {"port", guard<l_port>}, {"gone", guard<l_gone>}, {nullptr, nullptr}};
constexpr luaL_Reg kRun[] = {{"group", guard<l_group>},
                             {"peers", guard<l_peers>},
                             {"leave", guard<l_leave>},
                             {nullptr, nullptr}};
constexpr luaL_Reg kGroup[] = {
    {"start", guard<l_start>}, {"abort", guard<l_abort>}, {nullptr, nullptr}};
constexpr luaL_Reg kWork[] = {{"wait", guard<l_wait_work>},
                              {"source", guard<l_source>},
                              {"times", guard<l_times>},
                              {nullptr, nullptr}};
constexpr luaL_Reg kFunctions[] = {{"unavailable", guard<l_unavailable>},
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
