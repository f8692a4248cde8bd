// interp/binding/profiler.cpp: the mode behind `ml.profile`: counts calls, time and bytes for each
// op and each line of the script.
#include <chrono>
#include <map>
#include <new>
#include <tuple>

#include "interp/binding/mode_guard.h"
#include "interp/binding/op_values.h"
#include "tensor/backend.h"
#include "tensor/storage.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "moonlet.profile";

// An op called from a line.
struct Event {
  int64_t count = 0;
  double total_time = 0, self_time = 0;  // seconds; self: without the ops inside
  int64_t bytes = 0, self_bytes = 0;     // allocated
};

class Profiler final : public Mode {
 public:
  Profiler(lua_State* L, bool synchronizes) : synchronizes_(synchronizes) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main_ = lua_tothread(L, -1);
    lua_pop(L, 1);
  }

  void call(ModeCall& call) override {
    const CallSite site = site_of(call.op);
    if (synchronizes_) synchronize(call.arguments);
    {
      const Measure measure(*this, site);
      call.proceed();
      if (synchronizes_) synchronize(call.results);
    }
  }

  int push_events(lua_State* L) const {
    lua_createtable(L, static_cast<int>(events_.size()), 0);
    lua_Integer i = 0;
    for (const auto& [site, event] : events_) {
      push_event(L, site, event);
      lua_rawseti(L, -2, ++i);
    }
    return 1;
  }

 private:
  using CallSite = std::tuple<const OpInfo*, std::string, int>;  // op, file, line
  using Clock = std::chrono::steady_clock;

  // One call that runs, also when it ends by an error.
  class Measure {
   public:
    Measure(Profiler& profiler, const CallSite& site)
        : profiler_(profiler), site_(site), outer_(std::exchange(profiler.running_, this)) {}
    ~Measure() {
      const double time = std::chrono::duration<double>(Clock::now() - start_).count();
      const int64_t bytes = thread_allocated_bytes() - bytes_;
      Event& event = profiler_.events_[site_];
      event.count += 1;
      event.total_time += time;
      event.self_time += time - inner_time_;
      event.bytes += bytes;
      event.self_bytes += bytes - inner_bytes_;
      if (outer_) {
        outer_->inner_time_ += time;
        outer_->inner_bytes_ += bytes;
      }
      profiler_.running_ = outer_;
    }
    Measure(const Measure&) = delete;
    Measure& operator=(const Measure&) = delete;

   private:
    Profiler& profiler_;
    const CallSite& site_;
    Measure* const outer_;
    double inner_time_ = 0;
    int64_t inner_bytes_ = 0;
    const int64_t bytes_ = thread_allocated_bytes();
    const Clock::time_point start_ = Clock::now();
  };

  CallSite site_of(const OpInfo& op) const {
    lua_Debug info;
    if (!find_where(running_coroutine(main_), info)) return {&op, "", 0};
    return {&op, info.short_src, info.currentline};
  }

  // Waits for the devices of tensors, so that a kernel's time is that of its op.
  static void synchronize(const BoxedValues& values) {
    for (const BoxedValue& value : values) {
      const Tensor* t = std::get_if<Tensor>(&value);
      if (t && t->defined() && t->device().is_cuda())
        cuda_backend()->synchronize(t->device().index);
    }
  }

  static void push_event(lua_State* L, const CallSite& site, const Event& event) {
    const auto& [op, file, line] = site;
    lua_createtable(L, 0, 8);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    if (line > 0) {
      lua_pushfstring(L, "%s:%d", file.c_str(), line);
      lua_setfield(L, -2, "where");
    }
    const std::pair<const char*, double> times[] = {{"total_time", event.total_time},
                                                    {"self_time", event.self_time}};
    for (const auto& [key, value] : times) {
      lua_pushnumber(L, value);
      lua_setfield(L, -2, key);
    }
    const std::pair<const char*, int64_t> counts[] = {
        {"count", event.count}, {"bytes", event.bytes}, {"self_bytes", event.self_bytes}};
    for (const auto& [key, value] : counts) {
      lua_pushinteger(L, value);
      lua_setfield(L, -2, key);
    }
  }

  lua_State* main_ = nullptr;
  const bool synchronizes_;
  std::map<CallSite, Event> events_;
  Measure* running_ = nullptr;
};

using Held = std::shared_ptr<Profiler>;

// Leaves an empty handle behind: scripts may find this function and call it before the collector.
int l_end(lua_State* L) {
  static_cast<Held*>(luaL_checkudata(L, 1, kName))->reset();
  return 0;
}

int l_events(lua_State* L) {
  const auto& profiler = *static_cast<Held*>(luaL_checkudata(L, lua_upvalueindex(1), kName));
  check(profiler != nullptr, "profile: its events have been released");
  return profiler->push_events(L);
}

// Whether to wait for devices -> the guard, a function that gives the events.
int l_profiler(lua_State* L) {
  auto profiler = std::make_shared<Profiler>(L, lua_toboolean(L, 1) != 0);
  new (lua_newuserdatauv(L, sizeof(Held), 0)) Held(profiler);
  if (luaL_newmetatable(L, kName)) {
    lua_pushcfunction(L, guard<l_end>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, guard<l_events>, 1);
  push_mode_guard(L, std::move(profiler), "profile");
  lua_insert(L, -2);
  return 2;
}

}  // namespace

void register_profiler(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_profiler", guard<l_profiler>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
