// interp/binding/program/purity.h: watches the calls of a function while it is captured: what its C
// functions do must depend on their arguments and what the guards see alone, and change nothing
// else.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>

#include "lua.hpp"

namespace moonlet::program {
class Capture;
}

namespace moonlet::binding {

// C functions that are known to be so: Lua's own that compute, ops, and what asks about tensors.
class PureFunctions {
 public:
  explicit PureFunctions(lua_State* L);
  bool contains(lua_CFunction f) const { return functions_.contains(f); }
  void add(lua_CFunction f) { functions_.insert(f); }
  // Whether it goes on after an error: pcall, xpcall.
  bool catches(lua_CFunction f) const { return f == pcall_ || f == xpcall_; }
  bool loads(lua_CFunction f) const { return f == load_; }
  bool requires_module(lua_CFunction f) const { return f == require_; }
  // Whether it may be called on tensors that the function has made itself.
  bool is_for_own(lua_CFunction f) const { return f == register_hook_ || f == free_; }
  // `x.name = v` and `x[i] = v`: the second is.
  bool assigns(lua_CFunction f) const { return f == tensor_newindex_; }

 private:
  void add_from(lua_State* L, int table, std::initializer_list<const char*> names);
  void add_all(lua_State* L, int table, std::initializer_list<std::string_view> but);
  void add_lua_libraries(lua_State* L);
  void add_ops();
  void add_module(lua_State* L);
  void add_tensors(lua_State* L);
  void add_methods(lua_State* L);
  void add_iterators(lua_State* L);

  std::unordered_set<lua_CFunction> functions_;
  lua_CFunction tensor_newindex_ = nullptr, pcall_ = nullptr, xpcall_ = nullptr, load_ = nullptr,
                require_ = nullptr, register_hook_ = nullptr, free_ = nullptr;
};

// A debug hook beside the one that the coroutine has. When it meets another C function, it ends the
// capture with a reason, takes it from the thread and goes.
class CallWatch {
 public:
  CallWatch(lua_State* L, program::Capture& capture, const PureFunctions& pure);
  ~CallWatch() { end(); }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Takes the hook away. Whether it saw every call until now.
  bool end() noexcept;
  // Whether the function may have gone on after errors.
  bool caught() const { return caught_; }

 private:
  static void meet(lua_State* L, lua_Debug* event);
  void look(lua_State* L, lua_Debug* event);
  void stop(lua_State* L, lua_Debug* event, bool assigns);
  bool is_of_own(lua_State* L, lua_Debug* event) const;

  lua_State* const L_;
  program::Capture& capture_;
  const PureFunctions& pure_;
  const lua_Hook before_;
  const int before_mask_, before_count_;
  CallWatch* const outer_;
  bool running_ = true, whole_ = true, caught_ = false;
};

// "train.lua:12", the script's line, or "".
std::string script_line(lua_State* L);

}  // namespace moonlet::binding
