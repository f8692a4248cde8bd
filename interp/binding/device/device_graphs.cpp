// interp/binding/device/device_graphs.cpp: what stdlib/cuda/graphs.lua is made of: captures of work
// on a device and their replays.
#include <memory>
#include <new>

#include "interp/binding/arg_reader.h"
#include "interp/binding/device/device_module.h"

namespace moonlet::binding {
namespace {

constexpr const char* kGraphName = "moonlet.device_graph";

struct GraphCell {
  std::unique_ptr<DeviceGraph> graph;
};

DeviceGraphs& graphs_of(lua_State* L, const char* op) {
  DeviceGraphs* graphs = module_backend(L, op).graphs();
  check(graphs != nullptr, op, ": ", title_of(module_type(L)), " devices have no graphs");
  return *graphs;
}

DeviceGraph& graph_argument(lua_State* L, const char* op) {
  auto* cell = static_cast<GraphCell*>(luaL_testudata(L, 1, kGraphName));
  if (cell == nullptr || !cell->graph) fail(op, ": a graph is expected, got ", type_name(L, 1));
  return *cell->graph;
}

int l_collect(lua_State* L) {
  if (auto* cell = static_cast<GraphCell*>(luaL_testudata(L, 1, kGraphName))) cell->graph.reset();
  return 0;
}

int l_new(lua_State* L) {
  DeviceGraphs& graphs = graphs_of(L, "CUDAGraph");
  auto* cell = new (lua_newuserdatauv(L, sizeof(GraphCell), 0)) GraphCell;
  if (luaL_newmetatable(L, kGraphName) != 0) {
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "CUDAGraph");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  cell->graph = graphs.new_graph();
  return 1;
}

// Graph, device, pool.
int l_begin(lua_State* L) {
  DeviceGraph& graph = graph_argument(L, "capture_begin");
  const int64_t device = integer_argument(L, 2, "capture_begin", "the device");
  check(device >= 0 && device < module_backend(L, "capture_begin").device_count(),
        "capture_begin: there is no device ", name(module_type(L)), ":", device);
  graph.begin(static_cast<int>(device), integer_argument(L, 3, "capture_begin", "the pool"));
  return 0;
}

int l_end(lua_State* L) {
  graph_argument(L, "capture_end").end();
  return 0;
}

int l_abandon(lua_State* L) {
  graph_argument(L, "capture_end").abandon();
  return 0;
}

int l_replay(lua_State* L) {
  graph_argument(L, "replay").replay();
  return 0;
}

int l_reset(lua_State* L) {
  graph_argument(L, "reset").reset();
  return 0;
}

int l_pool(lua_State* L) { return push_result(L, graph_argument(L, "pool").pool()); }

int l_new_pool(lua_State* L) {
  return push_result(L, graphs_of(L, "graph_pool_handle").new_pool());
}

// Whether work in the current stream of any device is recorded.
int l_is_capturing(lua_State* L) {
  Backend* backend = opened_backend(module_type(L));
  DeviceGraphs* graphs = backend != nullptr ? backend->graphs() : nullptr;
  bool found = false;
  for (int i = 0; graphs != nullptr && !found && i < backend->device_count(); ++i)
    found = graphs->is_capturing(i);
  return push_result(L, found);
}

}  // namespace

void register_device_graphs(lua_State* L, DeviceType type) {
  static const luaL_Reg kGraphs[] = {{"new", guard<l_new>},
                                     {"begin", guard<l_begin>},
                                     {"stop", guard<l_end>},
                                     {"abandon", guard<l_abandon>},
                                     {"replay", guard<l_replay>},
                                     {"reset", guard<l_reset>},
                                     {"pool", guard<l_pool>},
                                     {"new_pool", guard<l_new_pool>},
                                     {"is_capturing", guard<l_is_capturing>},
                                     {nullptr, nullptr}};
  lua_newtable(L);
  set_module_functions(L, type, kGraphs);
  lua_setfield(L, -3, text("_", name(type), "_graphs").c_str());
}

}  // namespace moonlet::binding
