// interp/state/gc_steps.h: the collector where the host has little time (Collector::Bounded and
// Manual): cycles in steps of some microseconds, made when the host says so or as the Lua heap
// grows. Lua's own collector rests meanwhile: it pays for a large block at once.
#pragma once

#include "lua.hpp"

namespace moonlet::gc {

// What is owed for tensor memory.
void pay_as_chosen(lua_State* L);

// Of Bounded: whether the collector is at work, which scripts may stop.
bool is_bounded_stopped(lua_State* L);
void run_bounded(lua_State* L, bool on);

// For the hook that counts instructions.
void make_step_if_asked(lua_State* L);

// Gives the state its own allocator back, before it is closed.
void end_steps(lua_State* L) noexcept;

// The allocator of states whose growth makes steps, around their BlockAllocator.
void* allocate_noting(void* self, void* block, size_t old_size, size_t new_size) noexcept;

}  // namespace moonlet::gc
