// interp/embed/host_state.cpp: module `moonlet` in Lua states of a host. The state's allocator is
// wrapped: that is how a state finds its data in one call, without the extra space, which is the
// host's own, and how the data outlives every finalizer.
#include "interp/embed/host_state.h"

#include <memory>

#include "interp/embed/call_scope.h"
#include "interp/embed/lua_api.h"
#include "interp/state/gc_steps.h"
#include "interp/state/guard.h"
#include "interp/state/lua_check.h"
#include "interp/state/state.h"

namespace moonlet {
namespace {

struct HostState {
  lua_Alloc allocate;  // the host's
  void* allocator;
  void* main_block;  // of the main thread, which a state frees last
  bool ready = false;
  StateData data{InterpreterOptions()};
};

void* allocate(void* self, void* block, size_t old_size, size_t new_size) {
  auto* host = static_cast<HostState*>(self);
  void* result = host->allocate(host->allocator, block, old_size, new_size);
  if (block == host->main_block && new_size == 0) {
    host->data.releases->close();
    delete host;
  }
  return result;
}

HostState* find_host(lua_State* L) noexcept {
  void* self = nullptr;
  return lua_getallocf(L, &self) == allocate ? static_cast<HostState*>(self) : nullptr;
}

int note_closing(lua_State* L) {
  if (HostState* host = find_host(L)) host->data.closing = true;
  return 0;
}

// Older than all tensors of the state, so that when it closes their finalizers come first.
void watch_closing(lua_State* L) {
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, note_closing);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

void wrap_allocator(lua_State* L) {
  auto host = std::make_unique<HostState>();
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State* main = lua_tothread(L, -1);
  lua_pop(L, 1);
  host->data.main_thread = host->data.running = main;
  host->main_block = lua_getextraspace(main);
  host->allocate = lua_getallocf(L, &host->allocator);
  lua_setallocf(L, allocate, host.release());
}

// Makes `require` find the modules.
int attach(lua_State* L) {
  luaL_checkstack(L, 8, "moonlet");
  if (find_host(L) == nullptr) {
    watch_closing(L);
    wrap_allocator(L);
  }
  HostState* host = find_host(L);
  if (!host->ready) install_modules(L);
  host->ready = true;
  return 0;
}

}  // namespace

StateData* find_state_data(lua_State* L) noexcept {
  void* self = nullptr;
  const lua_Alloc f = lua_getallocf(L, &self);
  if (f == allocate) return &static_cast<HostState*>(self)->data;
  if (f == BlockAllocator::allocate || f == gc::allocate_noting)
    return *static_cast<StateData**>(lua_getextraspace(L));
  return nullptr;
}

void admit(lua_State* L) {
  const HostState* host = find_host(L);
  if (host != nullptr ? host->ready : find_state_data(L) != nullptr) return;
  refuse_other_lua(L);
  guard<attach>(L);
}

StateScope::StateScope(lua_State* L) : scope_(std::make_unique<CallScope>(L)) {}
StateScope::~StateScope() = default;

void CallScope::enter(lua_State* L) {
  HostState* host = find_host(L);
  if (host != nullptr && !is_innermost(host->data)) entered_.emplace(host->data, L);
}

}  // namespace moonlet
