// interp/binding/autograd/profiler.cpp: the mode behind `ml.profile` and `ml.autograd.profiler`:
// counts calls, time and bytes for each op, node of backward and range of the script, by line, and
// keeps when each ran where a trace is wanted.

#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <tuple>

#include "autograd/backward_observer.h"
#include "autograd/node.h"
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/op_values.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/threads.h"
#include "tensor/core/storage.h"
#include "tensor/memory/free_list.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "moonlet.profile";
constexpr const char* kRangeName = "moonlet.profile_range";

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

enum class Kind : uint8_t { Op, Backward, Range };
constexpr const char* kKindNames[] = {"op", "backward", "range"};

// What ran, called from a line.
struct Site {
  Kind kind;
  std::string name, file;
  int line;
  bool operator<(const Site& other) const {
    return std::tie(kind, name, file, line) <
           std::tie(other.kind, other.name, other.file, other.line);
  }
};

struct Event {
  int64_t count = 0;
  double total_time = 0, self_time = 0;  // seconds; self: without what ran inside
  int64_t bytes = 0, self_bytes = 0;     // allocated
};

using Events = std::map<Site, Event>;

// One run of it.
struct Span {
  const Events::value_type* event;
  Clock::time_point start;
  double time;
  int64_t bytes;
};

void set_number(lua_State* L, const char* key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void set_integer(lua_State* L, const char* key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void set_site(lua_State* L, const Site& site) {
  lua_pushlstring(L, site.name.data(), site.name.size());
  lua_setfield(L, -2, "name");
  lua_pushstring(L, kKindNames[static_cast<int>(site.kind)]);
  lua_setfield(L, -2, "kind");
  if (site.line <= 0) return;
  lua_pushfstring(L, "%s:%d", site.file.c_str(), site.line);
  lua_setfield(L, -2, "where");
}

class Profiler final : public Mode, public BackwardObserver {
 public:
  // With `traces` it looks at nodes and ranges too, and keeps when each of all ran.
  Profiler(lua_State* L, bool synchronizes, bool traces)
      : synchronizes_(synchronizes), traces_(traces) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main_ = lua_tothread(L, -1);
    lua_pop(L, 1);
  }

  void call(ModeCall& call) override {
    if (synchronizes_) synchronize(call.arguments);
    const Measure measure(*this, Kind::Op, call.op.name);
    call.proceed();
    if (synchronizes_) synchronize(call.results);
  }

  void begin(const Node& node) override {
    if (traces_) nodes_.push_back(open(Kind::Backward, node.name()));
  }
  void end() noexcept override {
    if (nodes_.empty()) return;
    close(nodes_.back());
    nodes_.pop_back();
  }

  bool traces() const { return traces_; }

  // Something runs from now on, until `close` with the number.
  uint64_t open(Kind kind, const char* name) {
    grown_.reach(event_bytes_ + spans_.capacity() * sizeof(Span) +
                 running_.capacity() * sizeof(Running) + 2 * std::strlen(name));
    Running running{++last_, site_of(kind, name), {}, 0, 0, 0};
    running.bytes = thread_allocated_bytes();
    running.start = Clock::now();
    running_.push_back(std::move(running));
    return last_;
  }

  // What was begun inside and not ended, such as a range, ends too. Without memory to note it, it
  // is not counted.
  void close(uint64_t number) noexcept {
    const Clock::time_point now = Clock::now();
    const int64_t bytes = thread_allocated_bytes();
    size_t at = running_.size();
    while (at > 0 && running_[at - 1].number > number) --at;
    if (at == 0 || running_[at - 1].number != number) return;
    while (running_.size() >= at) {
      const Running ended = std::move(running_.back());
      running_.pop_back();
      try {
        count(ended, now, bytes);
      } catch (const std::bad_alloc&) {
        continue;
      }
    }
  }

  int push_events(lua_State* L) const {
    lua_createtable(L, static_cast<int>(events_.size()), 0);
    lua_Integer i = 0;
    for (const auto& [site, event] : events_) {
      lua_createtable(L, 0, 8);
      set_site(L, site);
      set_number(L, "total_time", event.total_time);
      set_number(L, "self_time", event.self_time);
      set_integer(L, "count", event.count);
      set_integer(L, "bytes", event.bytes);
      set_integer(L, "self_bytes", event.self_bytes);
      lua_rawseti(L, -2, ++i);
    }
    return 1;
  }

  int push_spans(lua_State* L) const {
    lua_createtable(L, static_cast<int>(spans_.size()), 0);
    lua_Integer i = 0;
    for (const Span& span : spans_) {
      lua_createtable(L, 0, 8);
      set_site(L, span.event->first);
      set_number(L, "start", seconds(span.start - made_));
      set_number(L, "time", span.time);
      set_integer(L, "bytes", span.bytes);
      set_integer(L, "process", platform::process_id());
      set_integer(L, "thread", thread_);
      lua_rawseti(L, -2, ++i);
    }
    return 1;
  }

 private:
  struct Running {
    uint64_t number;
    Site site;
    Clock::time_point start;
    int64_t bytes;
    double inner_time;
    int64_t inner_bytes;
  };

  // One call that runs, also when it ends by an error.
  class Measure {
   public:
    Measure(Profiler& profiler, Kind kind, const char* name)
        : profiler_(profiler), number_(profiler.open(kind, name)) {}
    ~Measure() { profiler_.close(number_); }
    Measure(const Measure&) = delete;
    Measure& operator=(const Measure&) = delete;

   private:
    Profiler& profiler_;
    const uint64_t number_;
  };

  void count(const Running& ended, Clock::time_point now, int64_t allocated) {
    const double time = seconds(now - ended.start);
    const int64_t bytes = allocated - ended.bytes;
    const auto [found, is_new] = events_.try_emplace(ended.site);
    if (is_new) event_bytes_ += sizeof(*found) + kNodeBytes + ended.site.name.size();
    Event& event = found->second;
    event.count += 1;
    event.total_time += time;
    event.self_time += time - ended.inner_time;
    event.bytes += bytes;
    event.self_bytes += bytes - ended.inner_bytes;
    if (traces_) spans_.push_back({&*found, ended.start, time, bytes});
    if (running_.empty()) return;
    running_.back().inner_time += time;
    running_.back().inner_bytes += bytes;
  }

  Site site_of(Kind kind, const char* name) const {
    lua_Debug info;
    if (!find_where(running_coroutine(main_), info)) return {kind, name, "", 0};
    return {kind, name, info.short_src, info.currentline};
  }

  // Waits for the devices of tensors, so that a kernel's time is that of its op.
  static void synchronize(const BoxedValues& values) {
    for (const BoxedValue& value : values) {
      const Tensor* t = std::get_if<Tensor>(&value);
      const Device device = t && t->defined() ? t->device().real() : Device{};
      if (Backend* backend = opened_backend(device.type)) backend->synchronize(device.index);
    }
  }

  lua_State* main_ = nullptr;
  const bool synchronizes_, traces_;
  const Clock::time_point made_ = Clock::now();
  const int64_t thread_ = platform::thread_id();
  uint64_t last_ = 0;
  Events events_;
  std::vector<Span> spans_;
  std::vector<Running> running_;
  static constexpr size_t kNodeBytes = 64;  // what a map adds to an entry
  size_t event_bytes_ = 0;
  memory::Growth grown_;         // by which all that is charged
  std::vector<uint64_t> nodes_;  // those of `running_` that are nodes
};

using Held = std::shared_ptr<Profiler>;

// Leaves an empty handle behind: scripts may find this function and call it before the collector.
int l_end(lua_State* L) {
  static_cast<Held*>(luaL_checkudata(L, 1, kName))->reset();
  return 0;
}

const Profiler& held_profiler(lua_State* L) {
  const auto& profiler = *static_cast<Held*>(luaL_checkudata(L, lua_upvalueindex(1), kName));
  check(profiler != nullptr, "profile: its events have been released");
  return *profiler;
}

int l_events(lua_State* L) { return held_profiler(L).push_events(L); }

int l_spans(lua_State* L) { return held_profiler(L).push_spans(L); }

// Whether to wait for devices, whether to keep a trace -> the guard, functions that give the events
// and what the trace has.
int l_profiler(lua_State* L) {
  auto profiler = std::make_shared<Profiler>(L, lua_toboolean(L, 1) != 0, lua_toboolean(L, 2) != 0);
  lua_settop(L, 0);
  new (lua_newuserdatauv(L, sizeof(Held), 0)) Held(profiler);
  if (luaL_newmetatable(L, kName)) {
    lua_pushcfunction(L, guard<l_end>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  push_mode_guard(L, std::move(profiler), "profile");
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, guard<l_events>, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, guard<l_spans>, 1);
  return 3;
}

// A range that a script has begun, in each profiler that ran then.
using Range = std::vector<std::pair<std::weak_ptr<Profiler>, uint64_t>>;

int l_end_range(lua_State* L) {
  Range ended;
  ended.swap(*static_cast<Range*>(luaL_checkudata(L, 1, kRangeName)));
  for (const auto& [profiler, number] : ended)
    if (const Held still = profiler.lock()) still->close(number);
  return 0;
}

// A name -> the range, which ends with `<close>` or when it is collected.
int l_range(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  auto& range = *new (lua_newuserdatauv(L, sizeof(Range), 0)) Range;
  if (luaL_newmetatable(L, kRangeName)) {
    for (const char* event : {"__close", "__gc"}) {
      lua_pushcfunction(L, guard<l_end_range>);
      lua_setfield(L, -2, event);
    }
    lua_pushliteral(L, "profile range");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  for (const ModeEntry* entry = execution.modes; entry; entry = entry->below) {
    const auto profiler = std::dynamic_pointer_cast<Profiler>(entry->mode);
    if (profiler && profiler->traces())
      range.push_back({profiler, profiler->open(Kind::Range, name)});
  }
  return 1;
}

}  // namespace

void register_profiler(lua_State* L) {
  static const luaL_Reg kModule[] = {
      {"_profiler", guard<l_profiler>}, {"_profile_range", guard<l_range>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
