// interp/binding/device/device_memory.cpp: what stdlib/cuda/memory.lua is made of: the allocators
// of devices, their counters, segments and events.
#include <algorithm>
#include <cstring>

#include "interp/binding/arg_reader.h"
#include "interp/binding/device/device_module.h"
#include "interp/state/entry.h"
#include "interp/state/state.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

constexpr int kFrames = 16;  // of an allocation
constexpr int kMaxDepth = 64;

// The lines of the script that runs on this thread, innermost first.
MemoryPosition script_lines() noexcept try {
  const StateData* data = innermost_state();
  if (data == nullptr || data->closing) return nullptr;
  lua_State* L = data->running;
  auto out = std::make_shared<std::vector<MemoryFrame>>();
  lua_Debug info;
  for (int level = 0; level < kMaxDepth && out->size() < kFrames; ++level) {
    if (lua_getstack(L, level, &info) == 0) break;
    lua_getinfo(L, "Sln", &info);
    if (info.currentline <= 0 || std::strncmp(info.source, "@stdlib/", 8) == 0) continue;
    out->push_back({info.short_src, info.name != nullptr ? info.name : "", info.currentline});
  }
  return out;
} catch (const std::bad_alloc&) {
  return nullptr;
}

DeviceMemoryReports& reports_of(lua_State* L, const char* op) {
  DeviceMemoryReports* reports = module_backend(L, op).memory_reports();
  check(reports != nullptr, op, ": ", title_of(module_type(L)),
        " devices tell nothing of their memory");
  return *reports;
}
// The same for the function whose name is at that index.
DeviceMemoryReports& reports_of(lua_State* L, int function_name) {
  return reports_of(L, luaL_checkstring(L, function_name));
}

void set_integer(lua_State* L, const char* key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void set_string(lua_State* L, const char* key, const char* value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

// { { filename, line, name }, .. } as field `frames` of the table on top; nothing without a
// position.
void set_frames(lua_State* L, const MemoryPosition& position) {
  if (!position) return;
  lua_createtable(L, static_cast<int>(position->size()), 0);
  int at = 0;
  for (const MemoryFrame& frame : *position) {
    lua_createtable(L, 0, 3);
    set_string(L, "filename", frame.filename.c_str());
    set_integer(L, "line", frame.line);
    set_string(L, "name", frame.name.c_str());
    lua_rawseti(L, -2, ++at);
  }
  lua_setfield(L, -2, "frames");
}

void push_block(lua_State* L, const MemoryBlock& block) {
  lua_createtable(L, 0, 5);
  set_integer(L, "address", static_cast<int64_t>(block.address));
  set_integer(L, "size", block.size);
  set_integer(L, "requested_size", block.requested_size);
  set_string(L, "state", block.state);
  set_frames(L, block.position);
}

void push_segment(lua_State* L, const MemorySegment& segment) {
  lua_createtable(L, 0, 9);
  set_integer(L, "device", segment.device);
  set_integer(L, "address", static_cast<int64_t>(segment.address));
  set_integer(L, "stream", static_cast<int64_t>(segment.stream));
  set_string(L, "segment_type", segment.small ? "small" : "large");
  set_integer(L, "total_size", segment.total_size);
  set_integer(L, "allocated_size", segment.allocated_size);
  set_integer(L, "active_size", segment.active_size);
  set_integer(L, "requested_size", segment.requested_size);
  lua_createtable(L, static_cast<int>(segment.blocks.size()), 0);
  int at = 0;
  for (const MemoryBlock& block : segment.blocks) {
    push_block(L, block);
    lua_rawseti(L, -2, ++at);
  }
  lua_setfield(L, -2, "blocks");
}

void push_event(lua_State* L, const MemoryEvent& event) {
  lua_createtable(L, 0, 6);
  const bool oom = std::strcmp(event.action, "oom") == 0;
  set_string(L, "action", event.action);
  set_integer(L, oom ? "device_free" : "addr", static_cast<int64_t>(event.address));
  set_integer(L, "size", event.size);
  set_integer(L, "stream", static_cast<int64_t>(event.stream));
  set_integer(L, "time_us", event.time_us);
  set_frames(L, event.position);
}

// The number of a device that exists: index(device, name of the function)
int l_index(lua_State* L) {
  const char* op = luaL_checkstring(L, 2);
  return push_result(L, static_cast<int64_t>(device_argument(L, 1, op)));
}

const char* module_name(lua_State* L) { return name(module_type(L)); }
int device_of(lua_State* L) { return device_argument(L, 1, module_name(L)); }
DeviceMemoryReports& reports_of(lua_State* L) { return reports_of(L, module_name(L)); }

int l_statistics(lua_State* L) {
  const int device = device_of(L);
  const MemoryStatistics all = reports_of(L).statistics(device);
  lua_createtable(L, 0, static_cast<int>(all.size()));
  for (const auto& [name, value] : all) set_integer(L, name.c_str(), value);
  return 1;
}

// reset(device, peaks): else the sums
int l_reset(lua_State* L) {
  const int device = device_of(L);
  if (lua_toboolean(L, 2) != 0)
    reports_of(L).reset_peaks(device);
  else
    reports_of(L).reset_accumulated(device);
  return 0;
}

// fraction(device, new one?)
int l_fraction(lua_State* L) {
  const int device = device_of(L);
  const double fraction = lua_tonumber(L, 2);
  check(fraction >= 0 && fraction <= 1, module_name(L), ": a share from 0 to 1 is expected, got ",
        fraction);
  if (lua_gettop(L) >= 2) reports_of(L).set_fraction(device, fraction);
  return push_result(L, reports_of(L).fraction(device));
}

int l_snapshot(lua_State* L) {
  luaL_checkstack(L, 12, "too many values");
  const MemorySnapshot snapshot = reports_of(L, 1).snapshot();
  lua_createtable(L, static_cast<int>(snapshot.segments.size()), 0);
  int at = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    push_segment(L, segment);
    lua_rawseti(L, -2, ++at);
  }
  lua_createtable(L, static_cast<int>(snapshot.trace.size()), 0);
  at = 0;
  for (const auto& trace : snapshot.trace) {
    lua_createtable(L, static_cast<int>(trace.size()), 0);
    int event_at = 0;
    for (const MemoryEvent& event : trace) {
      push_event(L, event);
      lua_rawseti(L, -2, ++event_at);
    }
    lua_rawseti(L, -2, ++at);
  }
  return 2;
}

// record(name, positions, events, event_positions, max_entries, clear)
int l_record(lua_State* L) {
  MemoryHistory history;
  history.positions = lua_toboolean(L, 2) != 0;
  history.events = lua_toboolean(L, 3) != 0;
  history.event_positions = lua_toboolean(L, 4) != 0;
  history.max_entries = std::max<int64_t>(lua_tointeger(L, 5), 0);
  history.clear = lua_toboolean(L, 6) != 0;
  history.where = script_lines;
  reports_of(L, 1).record_history(history);
  return 0;
}

}  // namespace

void register_device_memory(lua_State* L, DeviceType type) {
  static const luaL_Reg kFunctions[] = {{"index", guard<l_index>},
                                        {"statistics", guard<l_statistics>},
                                        {"reset", guard<l_reset>},
                                        {"fraction", guard<l_fraction>},
                                        {"snapshot", guard<l_snapshot>},
                                        {"record", guard<l_record>},
                                        {nullptr, nullptr}};
  lua_newtable(L);
  set_module_functions(L, type, kFunctions);
  lua_setfield(L, -3, text("_", name(type), "_memory").c_str());
}

}  // namespace moonlet::binding
