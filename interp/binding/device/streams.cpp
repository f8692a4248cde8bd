// interp/binding/device/streams.cpp: what stdlib/cuda/streams.lua is made of: streams by device and
// number, events, guards, and what is known of devices.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "interp/binding/arg_reader.h"
#include "interp/binding/device/device_module.h"
#include "interp/state/state.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/streams.h"

namespace moonlet::binding {
namespace {

constexpr const char* kEventName = "moonlet.device_event";
constexpr const char* kGuardName = "moonlet.device_guard";

// Those of the module's devices.
Streams& streams_of(lua_State* L, const char* op) {
  Streams* streams = module_backend(L, op).streams();
  check(streams != nullptr, op, ": ", title_of(module_type(L)), " devices have no streams");
  return *streams;
}

// The stream whose device and number are at `index` and behind it.
DeviceStream stream_argument(lua_State* L, int index, const char* op) {
  const int64_t device = integer_argument(L, index, op, "the stream's device");
  const int64_t id = integer_argument(L, index + 1, op, "the stream's number");
  const bool fits = device >= 0 && device < 128 && id >= 0 && id <= UINT16_MAX;
  const DeviceStream stream{static_cast<int8_t>(fits ? device : 0),
                            static_cast<uint16_t>(fits ? id : 0)};
  check(fits && require_streams(op).exists(stream), op, ": there is no such stream");
  return stream;
}

// --- streams -------------------------------------------------------------------------------------

// Device, priority -> number.
int l_stream(lua_State* L) {
  const int device = device_argument(L, 1, "Stream");
  const int64_t priority = integer_argument(L, 2, "Stream", "the priority");
  const int clamped = static_cast<int>(std::clamp<int64_t>(priority, -1000, 1000));
  return push_result(L,
                     static_cast<int64_t>(streams_of(L, "Stream").from_pool(device, clamped).id));
}

int l_priority(lua_State* L) {
  const DeviceStream stream = stream_argument(L, 1, "priority");
  return push_result(L, static_cast<int64_t>(streams_of(L, "priority").priority(stream)));
}

int l_priority_range(lua_State* L) {
  const auto [least, greatest] = streams_of(L, "priority_range").priority_range();
  return push_result(L, static_cast<int64_t>(least)) +
         push_result(L, static_cast<int64_t>(greatest));
}

int l_query(lua_State* L) {
  return push_result(L, streams_of(L, "query").query(stream_argument(L, 1, "query")));
}

int l_synchronize(lua_State* L) {
  streams_of(L, "synchronize").synchronize(stream_argument(L, 1, "synchronize"));
  return 0;
}

int l_wait_stream(lua_State* L) {
  wait_stream(stream_argument(L, 1, "wait_stream"), stream_argument(L, 3, "wait_stream"));
  return 0;
}

// What the library calls it, as a number.
int l_handle(lua_State* L) {
  void* const handle = streams_of(L, "cuda_stream").handle(stream_argument(L, 1, "cuda_stream"));
  return push_result(L, static_cast<int64_t>(reinterpret_cast<intptr_t>(handle)));
}

int l_current_stream(lua_State* L) {
  const int device = device_argument(L, 1, "current_stream");
  return push_result(L, static_cast<int64_t>(current_stream(device).id));
}

int l_set_stream(lua_State* L) {
  const DeviceStream stream = stream_argument(L, 1, "set_stream");
  set_current_stream(stream);
  set_current_device({stream_type(), stream.device});
  return 0;
}

// --- devices -------------------------------------------------------------------------------------

int l_current_device(lua_State* L) {
  return push_result(L, static_cast<int64_t>(device_state.current));
}

int l_set_device(lua_State* L) {
  set_current_device({module_type(L), static_cast<int8_t>(device_argument(L, 1, "set_device"))});
  return 0;
}

// A device as a number: nil for the current one, a name or a number; and what asks.
int l_index(lua_State* L) {
  const std::string op = luaL_checkstring(L, 2);
  return push_result(L, static_cast<int64_t>(device_argument(L, 1, op.c_str())));
}

int l_properties(lua_State* L) {
  const int device = device_argument(L, 1, "get_device_properties");
  Backend& backend = module_backend(L, "get_device_properties");
  lua_createtable(L, 0, 24);
  push_string(L, backend.device_name(device));
  lua_setfield(L, -2, "name");
  for (const auto& [key, value] : backend.device_properties(device)) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
  }
  return 1;
}

int l_can_access_peer(lua_State* L) {
  const int device = device_argument(L, 1, "can_device_access_peer");
  const int peer = device_argument(L, 2, "can_device_access_peer");
  return push_result(L, module_backend(L, "can_device_access_peer").can_access_peer(device, peer));
}

// --- guards --------------------------------------------------------------------------------------

// What held before it: the current device, its stream, and the stream of the device it has set.
struct DeviceGuardValue {
  uint32_t number, outer;
  int8_t device;
  DeviceStream own, other;
  const char* function;
  std::string where;  // "file:line: "
  const CoroutineState* owner;
  bool active = true;
};

// The guards that have not ended, of all interpreters, by number.
class ActiveGuards {
 public:
  void add(DeviceGuardValue& guard) {
    const std::lock_guard lock(mutex_);
    by_number_.emplace(guard.number, &guard);
  }
  void remove(const DeviceGuardValue& guard) noexcept {
    const std::lock_guard lock(mutex_);
    by_number_.erase(guard.number);
  }
  // Those of the running coroutine, whose own the guard is, that are newer, the newest first. None
  // where one of them was collected while another coroutine ran: then the guard ends them all.
  std::vector<DeviceGuardValue*> newer_than(const DeviceGuardValue& guard) {
    const std::lock_guard lock(mutex_);
    std::vector<DeviceGuardValue*> out;
    for (uint32_t number = device_state.guard; number != guard.number;) {
      const auto found = by_number_.find(number);
      if (found == by_number_.end()) return {};
      out.push_back(found->second);
      number = found->second->outer;
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint32_t, DeviceGuardValue*> by_number_;
};

ActiveGuards& active_guards() {
  static ActiveGuards& it = *new ActiveGuards;
  return it;
}

DeviceGuardValue& guard_at(lua_State* L) {
  return *static_cast<DeviceGuardValue*>(luaL_checkudata(L, 1, kGuardName));
}

void put_stream(DeviceStream stream) {
  if (stream.device < kMaxStreamDevices)
    device_state.streams[static_cast<size_t>(stream.device)] = stream.id;
}

void go_back(const DeviceGuardValue& from) {
  put_stream(from.other);
  put_stream(from.own);
  device_state.guard = from.outer;
  if (device_state.current != from.device) set_current_device({stream_type(), from.device});
}

// What the guard would go back to becomes what the next newer ones go back to.
void hand_on(const DeviceGuardValue& from, const std::vector<DeviceGuardValue*>& newer) {
  newer.back()->outer = from.outer;
  newer.back()->device = from.device;
  for (const DeviceStream before : {from.other, from.own}) {
    bool taken = false;
    for (auto it = newer.rbegin(); it != newer.rend() && !taken; ++it)
      for (DeviceStream* kept : {&(*it)->own, &(*it)->other})
        if (kept->device == before.device) {
          *kept = before;
          taken = true;
        }
    if (!taken) put_stream(before);
  }
}

// Ends a guard of the running coroutine.
void end_guard(DeviceGuardValue& self) {
  self.active = false;
  const std::vector<DeviceGuardValue*> newer = active_guards().newer_than(self);
  active_guards().remove(self);
  if (newer.empty())
    go_back(self);
  else
    hand_on(self, newer);
}

int l_guard_close(lua_State* L) {
  DeviceGuardValue& self = guard_at(L);
  if (!self.active) return 0;
  check(self.owner == state_data(L).current, self.function,
        ": a guard ends in the coroutine that made it");
  end_guard(self);
  return 0;
}

int l_guard_collect(lua_State* L) {
  DeviceGuardValue& self = guard_at(L);
  std::string where;
  where.swap(self.where);
  if (!self.active) return 0;
  const std::string message = text(where, "ml.cuda.", self.function,
                                   ": its value was dropped; write `local _ <close> = ", "ml.cuda.",
                                   self.function, "(...)`");
  // That of another coroutine leaves its streams alone; most are gone with it.
  if (self.owner == state_data(L).current) end_guard(self);
  self.active = false;
  active_guards().remove(self);
  lua_warning(L, message.c_str(), 0);
  return 0;
}

// Pushes a guard that goes back to what holds now for the current device and `device`.
void push_guard(lua_State* L, int device, const char* function) {
  push_where(L);
  std::string where = lua_tostring(L, -1);
  lua_pop(L, 1);
  static std::atomic<uint32_t> last_number{0};
  void* const cell = lua_newuserdatauv(L, sizeof(DeviceGuardValue), 0);
  if (luaL_newmetatable(L, kGuardName) != 0) {
    static const luaL_Reg kMetamethods[] = {
        {"__close", guard<l_guard_close>}, {"__gc", guard<l_guard_collect>}, {nullptr, nullptr}};
    luaL_setfuncs(L, kMetamethods, 0);
    lua_pushliteral(L, "device guard");
    lua_setfield(L, -2, "__metatable");
  }
  uint32_t number = ++last_number;
  if (number == 0) number = ++last_number;
  auto* const made = new (cell) DeviceGuardValue{number,
                                                 device_state.guard,
                                                 device_state.current,
                                                 current_stream(device_state.current),
                                                 current_stream(device),
                                                 function,
                                                 std::move(where),
                                                 state_data(L).current};
  lua_setmetatable(L, -2);
  active_guards().add(*made);
  device_state.guard = number;
}

// Device and number of a stream, or nothing for a guard that changes nothing.
int l_stream_guard(lua_State* L) {
  if (lua_isnoneornil(L, 1)) {
    push_guard(L, device_state.current, "stream");
    return 1;
  }
  const DeviceStream stream = stream_argument(L, 1, "stream");
  push_guard(L, stream.device, "stream");
  set_current_stream(stream);
  set_current_device({stream_type(), stream.device});
  return 1;
}

// A device, or a negative number or nothing for a guard that changes nothing.
int l_device_guard(lua_State* L) {
  const bool none = lua_isnoneornil(L, 1) || (lua_isinteger(L, 1) && lua_tointeger(L, 1) < 0);
  const int device = none ? device_state.current : device_argument(L, 1, "device");
  push_guard(L, device, "device");
  if (!none) set_current_device({module_type(L), static_cast<int8_t>(device)});
  return 1;
}

// --- events --------------------------------------------------------------------------------------

Event& event_argument(lua_State* L, int index) {
  return *static_cast<Event*>(luaL_checkudata(L, index, kEventName));
}

// Leaves an event behind that was never recorded, in case a script finds this function.
int l_event_collect(lua_State* L) {
  Event& event = event_argument(L, 1);
  event.~Event();
  new (&event) Event();
  return 0;
}

int l_event(lua_State* L) {
  const bool timing = lua_toboolean(L, 1) != 0, blocking = lua_toboolean(L, 2) != 0;
  streams_of(L, "Event");
  void* const cell = lua_newuserdatauv(L, sizeof(Event), 0);
  if (luaL_newmetatable(L, kEventName) != 0) {
    lua_pushcfunction(L, guard<l_event_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "event");
    lua_setfield(L, -2, "__metatable");
  }
  new (cell) Event(timing, blocking);
  lua_setmetatable(L, -2);
  return 1;
}

int l_event_record(lua_State* L) {
  event_argument(L, 1).record(stream_argument(L, 2, "record"));
  return 0;
}

int l_event_wait(lua_State* L) {
  event_argument(L, 1).wait(stream_argument(L, 2, "wait"));
  return 0;
}

int l_event_query(lua_State* L) { return push_result(L, event_argument(L, 1).query()); }

int l_event_synchronize(lua_State* L) {
  event_argument(L, 1).synchronize();
  return 0;
}

int l_event_elapsed(lua_State* L) {
  lua_pushnumber(L, event_argument(L, 1).elapsed_time(event_argument(L, 2)));
  return 1;
}

int l_event_device(lua_State* L) {
  const int device = event_argument(L, 1).device();
  return device < 0 ? 0 : push_result(L, static_cast<int64_t>(device));
}

// --- tensors -------------------------------------------------------------------------------------

// An integer field of the object at `index`, which it may have or not.
int64_t field_of(lua_State* L, int index, const char* name) {
  lua_pushstring(L, name);
  const bool found = lua_rawget(L, index) == LUA_TNUMBER && lua_isinteger(L, -1);
  const int64_t out = found ? lua_tointeger(L, -1) : -1;
  lua_pop(L, 1);
  return out;
}

int l_record_stream(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "record_stream");
  check(has_streams(x.device().real()), "record_stream: the tensor is on ", x.device(),
        ", where there are no streams");
  check(lua_istable(L, 2), "record_stream: a stream of ml.cuda is expected, got ", type_name(L, 2));
  lua_settop(L, 2);
  const int64_t device = field_of(L, 2, "device_index"), id = field_of(L, 2, "stream_id");
  check(device >= 0 && id >= 0, "record_stream: a stream of ml.cuda is expected, got a table");
  lua_pushinteger(L, device);
  lua_pushinteger(L, id);
  const DeviceStream stream = stream_argument(L, 3, "record_stream");
  check(stream.device == x.device().index, "record_stream: the tensor is on ", x.device(),
        " and the stream on ", name(stream_type()), ":", device);
  record_stream(x, stream);
  return 0;
}

}  // namespace

void register_streams(lua_State* L, DeviceType type) {
  static const luaL_Reg kFunctions[] = {{"_stream", guard<l_stream>},
                                        {"_priority", guard<l_priority>},
                                        {"_priority_range", guard<l_priority_range>},
                                        {"_query", guard<l_query>},
                                        {"_synchronize", op_guard<l_synchronize>},
                                        {"_wait_stream", guard<l_wait_stream>},
                                        {"_handle", guard<l_handle>},
                                        {"_current_stream", guard<l_current_stream>},
                                        {"_set_stream", guard<l_set_stream>},
                                        {"_current_device", guard<l_current_device>},
                                        {"_set_device", guard<l_set_device>},
                                        {"_index", guard<l_index>},
                                        {"_properties", guard<l_properties>},
                                        {"_can_access_peer", guard<l_can_access_peer>},
                                        {"_stream_guard", guard<l_stream_guard>},
                                        {"_device_guard", guard<l_device_guard>},
                                        {"_event", guard<l_event>},
                                        {"_event_record", guard<l_event_record>},
                                        {"_event_wait", guard<l_event_wait>},
                                        {"_event_query", guard<l_event_query>},
                                        {"_event_synchronize", guard<l_event_synchronize>},
                                        {"_event_elapsed", guard<l_event_elapsed>},
                                        {"_event_device", guard<l_event_device>},
                                        {nullptr, nullptr}};
  set_module_functions(L, type, kFunctions);
}

void register_record_stream(lua_State* L) {
  static const luaL_Reg kMethods[] = {{"record_stream", guard<l_record_stream>},
                                      {nullptr, nullptr}};
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
