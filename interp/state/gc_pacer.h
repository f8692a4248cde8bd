// interp/state/gc_pacer.h: the pacing of garbage collection: how tensor memory drives Lua's
// collector, which sees only small userdata. The rules where it works in generations: a young
// collection each time some MiB were allocated, a full one when much may have become old. Where the
// script or the host chose incremental ones: a full one each time some MiB were allocated, more
// where the Lua heap makes it dear, a step of one where that is large; and short pauses between
// cycles while the heap is small. In both a full one when live bytes pass a threshold. Where the
// host wants short pauses, steps of a cycle for a given time, and never a full one; where it
// collects itself, nothing.
#pragma once

#include <chrono>
#include <cstdint>

#include "lua.hpp"

#include "interp/embed/options.h"

namespace moonlet::gc {

inline constexpr int64_t kStepBytes = int64_t{1} << 20;
inline constexpr int64_t kLeastDue = 4 * kStepBytes;
inline constexpr int64_t kLeastDueYoung = 2 * kStepBytes;  // in generational mode
inline constexpr int64_t kOldBytes = 8 * kStepBytes;       // of garbage that may be old
inline constexpr int64_t kFloorBytes = int64_t{256} << 20;
inline constexpr int kLuaPause = 200;     // Lua's own, in percent
inline constexpr int kScriptsPause = -1;  // the script chose one, which stays

// What one state owes the collector, and when its next collection is due.
struct Pacer {
  int64_t (*live_bytes)() = nullptr;  // bytes in live tensors, all devices
  int64_t debt = 0;                   // bytes allocated since the last payment
  int64_t due = kLeastDue;            // the debt at which the next one is made
  int64_t threshold = kFloorBytes;    // live bytes at which a full collection is due
  int64_t budget_threshold = 0;       // the same of the state's budget; 0 before the first one
  int64_t old_bytes = 0;              // live tensor bytes after the last full collection
  int64_t full_due = 0;               // bytes to allocate before another one is worth its time
  int young_collections = 0;          // since the last full one, or the end of a training step
  bool generational = false;          // whether the collector works in generations
  int pause = kLuaPause;              // the collector's, as it was last set here
  Collector kind = Collector::Automatic;
  int64_t step_time = 0;   // of Bounded: how long a step may take, in nanoseconds
  int64_t cycle_time = 0;  // of Bounded: how long this cycle has taken
};

// How the host of a new state wants it.
void choose(lua_State* L, Collector kind, std::chrono::nanoseconds step);

// Works on a cycle for about so long; returns whether it ended.
bool collect_for(lua_State* L, std::chrono::nanoseconds time);

// Says where the number of live tensor bytes comes from. Null turns full collections off.
void set_live_bytes(lua_State* L, int64_t (*live_bytes)());

// Pays the collector what is owed. May run finalizers; raises no Lua error.
void pay(lua_State* L);
Pacer& pacer(lua_State* L);

// Notes `bytes` of new tensor memory.
inline void allocated(lua_State* L, int64_t bytes) { pacer(L).debt += bytes; }

// Pays when a payment is due: before an op allocates, so that it finds the memory of the dead.
inline void settle(lua_State* L) {
  const Pacer& p = pacer(L);
  if (p.debt >= p.due) [[unlikely]]
    pay(L);
}

// Pays, from a MiB on, for `bytes` that a backward will allocate, while no payment can be made and
// garbage would add to their peak, or that a training step let go of. A pass has ended, so what
// became old in it may be garbage too.
void pay_between_passes(lua_State* L, int64_t bytes);

// Sets how Lua's collector works: in generations, of which a collection looks only at what is new,
// or as the script or the host has it.
void set_generational(lua_State* L, bool on);

// A full collection before the next op.
inline void collect_soon(lua_State* L) {
  Pacer& p = pacer(L);
  p.debt = p.due;
  p.threshold = 0;
}

// Sets the collector's pause by the size of the Lua heap, unless the script has chosen one.
void set_pause(lua_State* L);

// A full collection; sets the next threshold to max(256 MiB, 2 x live bytes).
void collect(lua_State* L);

}  // namespace moonlet::gc
