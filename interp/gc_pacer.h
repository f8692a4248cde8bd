// interp/gc_pacer.h: the pacing of garbage collection: how tensor memory drives Lua's collector,
// which sees only small userdata. The rules: a step per MiB allocated, a full collection when live
// bytes pass a threshold, and short pauses between cycles while the Lua heap is small.
#pragma once

#include <cstdint>

#include "lua.hpp"

namespace moonlet::gc {

inline constexpr int64_t kStepBytes = int64_t{1} << 20;
inline constexpr int64_t kFloorBytes = int64_t{256} << 20;
inline constexpr int kLuaPause = 200;     // Lua's own, in percent
inline constexpr int kScriptsPause = -1;  // the script chose one, which stays

// What one state owes the collector, and when its next collection is due.
struct Pacer {
  int64_t (*live_bytes)() = nullptr;  // bytes in live tensors, all devices
  int64_t debt = 0;                   // bytes allocated since the last paid step
  int64_t threshold = kFloorBytes;    // live bytes at which a full collection is due
  int64_t budget_threshold = 0;       // the same of the state's budget; 0 before the first one
  int pause = kLuaPause;              // the collector's, as it was last set here
};

// Says where the number of live tensor bytes comes from. Null turns full collections off.
void set_live_bytes(lua_State* L, int64_t (*live_bytes)());

// Pays the collector for `bytes` of new tensor memory. Cheap until a MiB has gathered.
// May run finalizers; raises no Lua error.
void pay(lua_State* L);
Pacer& pacer(lua_State* L);

inline void allocated(lua_State* L, int64_t bytes) {
  Pacer& p = pacer(L);
  p.debt += bytes;
  if (p.debt >= kStepBytes) pay(L);
}

// Sets the collector's pause by the size of the Lua heap, unless the script has chosen one.
void set_pause(lua_State* L);

// A full collection; sets the next threshold to max(256 MiB, 2 x live bytes).
void collect(lua_State* L);

}  // namespace moonlet::gc
