// interp/state/gc_steps.cpp: basic steps of Lua's incremental collector, by time and by the growth
// of the heap.
#include "interp/state/gc_steps.h"

#include <algorithm>
#include <chrono>

#include "interp/state/gc_pacer.h"
#include "interp/state/interrupt.h"
#include "interp/state/state.h"

namespace moonlet::gc {
namespace {

// Of Lua's incremental mode: a basic step marks some small objects or looks at 100, in units of
// work 2 ^ kStepSize / 16 * kStepSpeed. Lua keeps multiples of 4, less 3 of these.
constexpr int kStepSize = 4;
constexpr int kStepSpeed = 96;

// How far the heap may grow in a cycle while the collector works for a microsecond: a heap of small
// tables takes a nanosecond for a byte. It is less and less as the heap grows nevertheless, down to
// a sixteenth when it has grown by half.
constexpr int64_t kBytesPerMicrosecond = 200;
constexpr int64_t kMostHaste = 16;
constexpr int64_t kLeastBytes = 256;
// Where the heap has grown by half in a cycle, steps may take longer: ten times as long when it has
// doubled.
constexpr int64_t kMostLonger = 10;
// Between two steps for one large block.
constexpr int kFewInstructions = 100;
constexpr int64_t kLongest = 20'000;  // microseconds of a step that count for it
// Between two cycles the heap grows by half, and by so much at least.
constexpr int64_t kLeastGrowth = 512 * 1024;
// The end of a cycle visits all dead tensors at once, 0.15 us each: so many, for each microsecond
// of a step, begin a cycle, and as many more may be made before it is to have ended.
constexpr int64_t kObjectsPerMicrosecond = 10;
// Between two steps of a cycle at least, or steps would leave no time for what makes objects.
constexpr int64_t kLeastObjects = 8;
// What may be allocated by code that no hook interrupts before Lua's own collector takes over.
constexpr int64_t kMostMissed = int64_t{1} << 20;
// Tensor memory that is allocated for each nanosecond of a cycle before the next begins.
constexpr int64_t kTensorBytesPerNanosecond = 20;

int64_t wall_nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

constexpr char kHead = 0;  // the registry key of the table with the object at the head

int make_head(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kHead) == LUA_TNIL) {
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kHead);
  }
  lua_newuserdatauv(L, 0, 0);
  lua_rawseti(L, -2, 1);
  return 0;
}

// When all is marked, Lua frees what is dead at the head of its list of objects, which are the
// newest ones, up to the first that is alive, all in one step: a second of a script's garbage. So
// there is one alive at the head. Without memory for it the step may be a long one.
void renew_head(lua_State* L) {
  if (lua_checkstack(L, 4) == 0) return;
  lua_pushcfunction(L, make_head);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
}

// Of Bounded: cycles in steps, of which the next is due when the Lua heap has grown.
struct Steps {
  explicit Steps(StateData& given) : data(given) {}

  int64_t size() const { return data.blocks.bytes(); }
  void next_after(int64_t growth) { due = size() + growth; }
  // How far it is to grow in a cycle at most.
  int64_t most() const { return std::max(start / 2, kLeastGrowth); }
  // How far it may grow until the next one of this cycle.
  int64_t growth_in_cycle() const {
    const int64_t left = std::max(most() - made, most() / kMostHaste);
    return std::max(bytes * left / most(), kLeastBytes);
  }
  // Until the next cycle, within the limit on the heap.
  int64_t growth_until_cycle() const {
    const int64_t kept = size() - made, limit = data.limits.given.lua_bytes;
    const int64_t growth = std::max(kLeastGrowth, kept / 2);
    return limit > size() ? std::min(growth, (limit - size()) / 2) : growth;
  }
  // How many userdata may be made until the next one, if all of a cycle, of a nanosecond for a
  // byte, are to be made in time.
  int64_t objects_in_cycle(int64_t nanoseconds) const {
    return std::max(most_objects * nanoseconds / (2 * size()), kLeastObjects);
  }
  // How many times as long as the host has said the next one may take.
  int64_t longer() const {
    return std::clamp<int64_t>(1 + kMostLonger * (made - most()) / most(), 1, kMostLonger);
  }

  StateData& data;
  int64_t due = 0;          // the size of the heap at which the next one is made
  int64_t bytes = 0;        // how far the heap may grow between two of a cycle, at first
  int64_t start = 0;        // the size of the heap when this cycle began; 0: none is under way
  int64_t made = 0;         // what scripts have allocated since
  int64_t owed = 0;         // the part of it for which no step was made
  int64_t after_last = 0;   // the size of the heap after the last one
  int64_t objects = 0;      // userdata that were made since the last one, and at which the next
  int64_t objects_due = 0;  // one is made
  int64_t most_objects = 0;
  int64_t asked_at = 0;  // the size of the heap when one became due that was not made; else 0
  bool stopped = false;  // by the script
};

// Of a state that has them; else null.
Steps* steps_of(lua_State* L) {
  void* self = nullptr;
  return lua_getallocf(L, &self) == allocate_noting ? static_cast<Steps*>(self) : nullptr;
}

void step_at_hook(lua_State* L, lua_Debug*) {
  set_usual_hook(L);
  pay_as_chosen(L);
}

// Has a step made at the `count`th instruction from here; the hook that counts instructions for a
// limit makes it by itself (make_step_if_asked).
void ask_for_step(Steps& steps, int count) {
  lua_State* L = steps.data.running;
  if (steps.asked_at == 0) steps.asked_at = steps.size();
  const bool usual = has_usual_hook(L);
  if (usual && steps.data.limits.given.instructions == 0)
    lua_sethook(L, step_at_hook, LUA_MASKCOUNT, count);
  if (steps.size() > steps.asked_at + kMostMissed) lua_gc(L, LUA_GCRESTART);
}

void begin_bounded(lua_State* L, std::chrono::nanoseconds step) {
  StateData& data = state_data(L);
  auto* steps = new Steps(data);
  const int64_t microseconds = std::min<int64_t>(step.count() / 1000, kLongest);
  steps->bytes = std::max(kLeastBytes, microseconds * kBytesPerMicrosecond);
  steps->objects_due = steps->most_objects =
      std::max(microseconds, int64_t{1}) * kObjectsPerMicrosecond;
  steps->next_after(kLeastGrowth);
  lua_setallocf(L, allocate_noting, steps);
}

// What was allocated since the last step, for which the next ones are to be made.
void note_growth(Steps& steps) {
  if (steps.start == 0) {
    steps.start = steps.after_last = std::max<int64_t>(steps.size(), 1);
    steps.made = steps.owed = 0;
  }
  const int64_t growth = std::max<int64_t>(steps.size() - steps.after_last, 0);
  steps.made += growth;
  steps.owed += growth;
}

void pay_bounded(lua_State* L, Pacer& p, Steps& steps) {
  p.due = kStepBytes;
  if (steps.stopped || lua_gc(L, LUA_GCISRUNNING) < 0) return;  // below 0 in a finalizer
  lua_gc(L, LUA_GCSTOP);
  steps.asked_at = 0;
  note_growth(steps);
  const int64_t start = wall_nanoseconds(), times = steps.longer();
  const bool finished = collect_for(L, std::chrono::nanoseconds(p.step_time * times));
  p.cycle_time += wall_nanoseconds() - start;
  steps.after_last = steps.size();
  steps.objects = 0;
  steps.objects_due = finished ? steps.most_objects : steps.objects_in_cycle(p.step_time);
  if (finished) {
    steps.next_after(steps.growth_until_cycle());
    steps.start = 0;
    p.due = std::max(kLeastDue, kTensorBytesPerNanosecond * p.cycle_time);
    p.cycle_time = 0;
    return;
  }
  const int64_t growth = steps.growth_in_cycle();
  steps.next_after(growth);
  steps.owed = std::max<int64_t>(steps.owed - growth * times, 0);
  if (steps.owed > growth) ask_for_step(steps, steps.made < steps.most() ? kFewInstructions : 1);
}

}  // namespace

void choose(lua_State* L, Collector kind, std::chrono::nanoseconds step) {
  Pacer& p = pacer(L);
  p.kind = kind;
  p.step_time = step.count();
  if (kind == Collector::Automatic) return set_generational(L, true);
  set_generational(L, false);
  p.pause = kScriptsPause;
  lua_gc(L, LUA_GCINC, 0, kStepSpeed, kStepSize);
  lua_gc(L, LUA_GCSTOP);
  if (kind == Collector::Bounded) begin_bounded(L, step);
}

bool collect_for(lua_State* L, std::chrono::nanoseconds time) {
  Pacer& p = pacer(L);
  release_waiting(L);
  if (p.kind == Collector::Automatic && p.generational) {
    lua_gc(L, LUA_GCSTEP, 0);  // which is a whole collection of what is young
    return true;
  }
  if (p.kind != Collector::Automatic) renew_head(L);
  const int64_t end = wall_nanoseconds() + time.count();
  do {
    if (lua_gc(L, LUA_GCSTEP, 0) != 0) return true;
  } while (wall_nanoseconds() < end);
  return false;
}

void pay_as_chosen(lua_State* L) {
  Pacer& p = pacer(L);
  p.debt = 0;
  if (Steps* steps = steps_of(L)) pay_bounded(L, p, *steps);
}

bool is_bounded_stopped(lua_State* L) {
  const Steps* steps = steps_of(L);
  return steps == nullptr || steps->stopped;  // none while the state is closed
}

void run_bounded(lua_State* L, bool on) {
  Steps* steps = steps_of(L);
  if (steps == nullptr) return;
  steps->stopped = !on;
  steps->next_after(steps->growth_in_cycle());
}

void make_step_if_asked(lua_State* L) {
  const Steps* steps = steps_of(L);
  if (steps != nullptr && steps->asked_at != 0) pay_as_chosen(L);
}

void end_steps(lua_State* L) noexcept {
  Steps* steps = steps_of(L);
  if (steps == nullptr) return;
  lua_setallocf(L, BlockAllocator::allocate, &steps->data.blocks);
  delete steps;
}

void* allocate_noting(void* self, void* block, size_t old_size, size_t new_size) noexcept {
  Steps& steps = *static_cast<Steps*>(self);
  void* result = BlockAllocator::allocate(&steps.data.blocks, block, old_size, new_size);
  // Within an allocation nothing can be collected. A new object has its type for the old size.
  if (block == nullptr && old_size == LUA_TUSERDATA) ++steps.objects;
  if (steps.size() > steps.due || steps.objects >= steps.objects_due) [[unlikely]] {
    steps.objects = 0;
    steps.next_after(steps.growth_in_cycle());
    if (!steps.stopped) ask_for_step(steps, 1);
  }
  return result;
}

}  // namespace moonlet::gc
