// interp/embed/session.h: one open interpreter of the embedding API: calls into it, values both
// ways, errors both ways, and its end, also while it runs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "interp/embed/deadline.h"
#include "interp/embed/moonlet.h"
#include "interp/state/names.h"
#include "interp/state/slots.h"
#include "interp/state/state.h"

namespace moonlet {
class Overrides;
}

namespace moonlet::detail {

// The control block that the handles of a session share: they find it here until it ends.
struct SessionControl {
  std::atomic<Session*> session{nullptr};
  std::shared_ptr<ReleaseQueue> releases;
  DroppedSlots dropped;
};

// A value of the script that the host holds: a slot of its interpreter. Any thread may drop it.
struct Reference {
  std::shared_ptr<SessionControl> control;
  int key = LUA_NOREF;

  Reference() = default;
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference();

  // Throws Error when the interpreter is closed.
  Session& open() const;
};

struct HostCell;
struct Classes;
class Visit;

struct Session {
  explicit Session(InterpreterOptions options);
  // For extensions in a state that no embedding host has opened: the state owns it.
  explicit Session(lua_State* main);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Closes the state and deletes the session: now, or when the last call into it has ended.
  static void end(Session* session) noexcept;

  // The main thread of the state, also while it is being closed.
  lua_State* L() const { return main_thread; }

  // Runs `body(lua_State*)` where Lua errors may be raised, with a stack of its own. Throws what
  // throw_error does.
  template <class Body>
  void protect(Body&& body) {
    using F = std::remove_reference_t<Body>;
    const void* to = std::addressof(body);
    run_protected([](lua_State* L, void* f) { (*static_cast<F*>(f))(L); }, const_cast<void*>(to));
  }
  // The same in a call that is under way.
  template <class Body>
  void protect(const Visit& visit, Body&& body) {
    using F = std::remove_reference_t<Body>;
    const void* to = std::addressof(body);
    run_protected(
        visit, [](lua_State* L, void* f) { (*static_cast<F*>(f))(L); }, const_cast<void*>(to));
  }

  // What a table holds there, where it has no metatable and that needs no protected call: false
  // otherwise.
  bool get_unprotected(const Reference& table, const Value& key, Value& value) const;
  // Calls the value that is held there; returns its results.
  Values call(const Reference& function, const Value* arguments, size_t count);

  // These raise Lua errors, so they are for code in `protect` and for host functions.
  void push(lua_State* L, const Value& value);
  void push_key(lua_State* L, const Value& key);
  Value take(lua_State* L, int index);
  Values take_from(lua_State* L, int first);
  std::shared_ptr<Reference> refer(lua_State* L, int index);
  // A function, or what has `__call`.
  Function hold_function(lua_State* L, int index) { return Function(refer(L, index)); }
  Table hold_table(lua_State* L, int index) { return Table(refer(L, index)); }
  // Calls the function on top of the stack.
  Values call_top(lua_State* L, const Value* arguments, size_t count);

  // Leaves only the error value for the exception that is being handled on the stack, and remembers
  // the exception: when the value comes out to a host uncaught, so does the exception.
  void push_current_exception(lua_State* L);

  // From any thread.
  void interrupt() noexcept;

  static Session& of(lua_State* L) { return *state_data(L).session; }
  // That of the state, which gets one of its own where it has none.
  static Session& made_for(lua_State* L);

  StatePtr state;
  lua_State* const main_thread;
  StateData& data;
  std::shared_ptr<SessionControl> control;
  int depth = 0;               // how many calls into it are under way
  bool abandoned = false;      // its Interpreter is gone; the outermost call closes it
  std::atomic<int> runner{0};  // the thread (thread_id) of the run that is under way, or 0
  HostCell* cells = nullptr;   // the host functions that scripts may reach
  const void* cell_metatable = nullptr;   // of the userdata that hold them
  std::chrono::nanoseconds call_time{0};  // of the next run (CallTime); 0: no bound
  std::unique_ptr<Classes> classes;       // of the host that scripts know
  std::string coroutine_traceback;        // of the error that a coroutine of the host ends with
  bool of_extensions = false;             // it ends with its state (own_session.h)
  Slots slots;                            // of the values that the host holds
  Names names{slots};

  // Throws for the error value on top of the stack: the host's exception that it stands for, or
  // ScriptError.
  [[noreturn]] void throw_error(lua_State* L, int status);
  // The message handler of calls whose errors throw_error gets.
  static int handle_error(lua_State* L);
  // After a call that has succeeded: a run that is to end does not go on because it caught that.
  void check_stopped() {
    if (data.stop.requested()) [[unlikely]]
      throw_stopped(requested_stop(data), {}, {});
  }

 private:
  friend class Visit;
  friend class CallTime;

  void begin_run(int thread);
  void end_run() noexcept;
  void end_run_at(Instant end, int thread);
  void run_protected(void (*run)(lua_State*, void*), void* to);
  void run_protected(const Visit& visit, void (*run)(lua_State*, void*), void* to);
  // Throws for a request to stop the run.
  [[noreturn]] void throw_stopped(StopCause cause, std::string message, std::string traceback);
  Values take_protected(lua_State* L, int first);

  bool wake_was_blocked = false;               // on the thread of the run, before it
  std::string error_message, error_traceback;  // of the last error that reached handle_error
  std::optional<Deadline> deadline;            // once there was a limit of time
};

// Puts the stack back to where it was.
struct StackTop {
  explicit StackTop(lua_State* state) noexcept : L(state), top(lua_gettop(state)) {}
  ~StackTop() { lua_settop(L, top); }
  StackTop(const StackTop&) = delete;
  StackTop& operator=(const StackTop&) = delete;

  lua_State* const L;
  const int top;
};

// While alive, the run under way, or the next one, may take so long and no longer.
class CallTime {
 public:
  CallTime(Session& session, std::chrono::nanoseconds time);
  ~CallTime();
  CallTime(const CallTime&) = delete;
  CallTime& operator=(const CallTime&) = delete;

 private:
  Session& session_;
  const std::shared_ptr<SessionControl> control_;  // knows whether the session is still there
  const std::chrono::nanoseconds before_;          // what the next run might take
  Instant end_ = kNever;                           // of the run under way, before
};

// What public headers keep to themselves.
struct Access {
  static Session& session(Interpreter& interpreter) { return interpreter.session(); }
  // An interpreter on a session that others end, and its end, which leaves that alone.
  static Interpreter borrow(Session& session) { return Interpreter(&session); }
  static void give_back(Interpreter& interpreter) noexcept {
    static_cast<void>(interpreter.session_.release());
  }
  template <class Handle>
  static const std::shared_ptr<Reference>& reference(const Handle& handle) {
    return handle.reference_;
  }
  // What Overrides keeps of its object in a script (script_class.cpp).
  static std::weak_ptr<const void> link(Overrides& overrides, Session& session,
                                        const ClassRecord& record, void* object);
  static void hold(Overrides& overrides, std::shared_ptr<Reference> value);
  // Makes `name` the method that the script calls of the host's class; returns what was before.
  static const char* set_base_call(Overrides& overrides, const char* name);
  static void push_self(lua_State* L, const Overrides& overrides);
};

// Pushes a C function that calls `function`, which ends when no script can reach it any more.
void push_host_function(lua_State* L, HostFunction function);
// Whether the exception that is being handled is one that no handler may keep: Lua's own, which
// carries an error or a yield through C++ frames and has no public name, or a thread's end.
bool must_pass();
// Ends those that are left when the Lua state is closed.
void free_host_functions(Session& session) noexcept;

}  // namespace moonlet::detail
