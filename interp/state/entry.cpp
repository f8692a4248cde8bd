// interp/state/entry.cpp: execution states change places here: between threads, interpreters and
// coroutines; and modes end that their guards did not end.
#include "interp/state/entry.h"

#include <new>
#include <type_traits>
#include <utility>

#include "autograd/anomaly.h"
#include "interp/embed/call_scope.h"
#include "interp/state/coroutine.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/run_limits.h"
#include "interp/state/state.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/forked.h"
#include "tensor/runtime/passed_modes.h"

namespace moonlet {

// --- modes ---------------------------------------------------------------------------------------

namespace {

void unlink(ModeRecord* record) {
  if (record->older != nullptr) record->older->newer = record->newer;
  if (record->newer != nullptr)
    record->newer->older = record->older;
  else if (record->owner != nullptr)
    record->owner->newest = record->older;
}

void warn_dropped(lua_State* L, const ModeRecord& record) {
  lua_warning(L, record.where.c_str(), 1);
  lua_warning(L, "a grad mode guard was dropped without <close>; the mode before it is back", 0);
}

// Ends what was dropped by the running coroutine and waits for this level.
void end_dropped(StateData& data) {
  CoroutineState& state = *data.current;
  if (!state.has_dropped || data.closing) return;
  state.has_dropped = false;
  for (ModeRecord* record = state.newest; record != nullptr;) {
    ModeRecord* older = record->older;
    if (record->dropped && data.level <= record->level) {
      warn_dropped(data.main_thread, *record);
      end_mode(data, record);
    } else {
      state.has_dropped = state.has_dropped || record->dropped;
    }
    record = older;
  }
}

}  // namespace

CoroutineState::~CoroutineState() {
  for (ModeRecord* record = newest; record != nullptr;) {
    ModeRecord* older = record->older;
    record->owner = nullptr;
    record->older = record->newer = nullptr;
    if (record->dropped) delete record;  // nobody else knows it any more
    record = older;
  }
}

namespace {
void set_mode(ExecutionState& state, RecordingMode mode) {
  state.grad_mode = mode.grad;
  state.inference_mode = mode.inference;
}
}  // namespace

ModeRecord* begin_mode(StateData& data, RecordingMode mode, std::string where) {
  CoroutineState& state = *data.current;
  auto* record = new ModeRecord{.owner = &state,
                                .older = state.newest,
                                .before = {execution.grad_mode, execution.inference_mode},
                                .level = data.level,
                                .where = std::move(where)};
  if (state.newest != nullptr) state.newest->newer = record;
  state.newest = record;
  set_mode(execution, {mode.grad && !mode.inference, mode.inference});
  return record;
}

void end_mode(StateData& data, ModeRecord* record) {
  if (record->newer != nullptr)
    record->newer->before = record->before;
  else if (record->owner == data.current)
    // C++ code that has called the script and ended since, by an error, has put its own mode back.
    set_mode(execution, {record->level > data.level ? execution.grad_mode : record->before.grad,
                         record->before.inference});
  else if (record->owner != nullptr)
    set_mode(record->owner->execution, record->before);
  forget_mode(record);
}

void forget_mode(ModeRecord* record) {
  unlink(record);
  delete record;
}

void drop_mode(lua_State* L, ModeRecord* record) {
  StateData& data = state_data(L);
  if (data.closing || record->owner == nullptr) {
    forget_mode(record);
    return;
  }
  record->dropped = true;
  record->owner->has_dropped = true;
  // Another coroutine's ends when it runs again, if it does.
  if (record->owner == data.current) end_dropped(data);
}

// --- release queue -------------------------------------------------------------------------------

template <class T>
void ReleaseQueue::add(std::vector<T> Batch::*list, T item) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!open_) return;
  try {
    (waiting_.*list).push_back(item);
  } catch (const std::bad_alloc&) {
    return;  // it stays until the state is closed, or a review of the hooks finds it
  }
  has_waiting_.store(true, std::memory_order_relaxed);
}

void ReleaseQueue::release_reference(int reference) noexcept { add(&Batch::references, reference); }

void ReleaseQueue::release_hook(int64_t id) noexcept { add(&Batch::hooks, id); }

ReleaseQueue::Batch ReleaseQueue::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_waiting_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

void ReleaseQueue::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  waiting_ = {};
}

bool ReleaseQueue::is_open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_;
}

// --- entering ------------------------------------------------------------------------------------

namespace {

// The thread's variables that an entry looks at: to find each costs a call in a shared library, and
// a host enters for each call.
struct Variables {
  ExecutionState* execution = nullptr;
  DeviceState* devices = nullptr;
  CudnnSettings* cudnn = nullptr;
  Anomaly* anomaly = nullptr;
  ModeEntry** passed = nullptr;
  memory::Account* account = nullptr;
  io::FileSystem** files = nullptr;
  const bool* any_deferred = nullptr;
};

void find(Variables& variables) noexcept {
  variables = {&execution,
               &device_state,
               &cudnn_settings,
               &anomaly_mode,
               &passed_modes,
               &memory::account,
               &io::innermost_file_system(),
               &program::any_deferred};
}

// For coroutines.
[[gnu::noinline]] const Variables& this_variables() noexcept {
  static constinit thread_local Variables variables;
  if (variables.execution == nullptr) [[unlikely]]
    find(variables);
  return variables;
}

// What EntryScope::Thread, which is T, stands before: one look for both.
template <class T>
struct Known {
  T thread;
  Variables variables;
};
template <class T>
Variables& variables_of(T& thread) noexcept {
  static_assert(std::is_standard_layout_v<Known<T>>);
  return reinterpret_cast<Known<T>&>(thread).variables;
}
// The same for the first look of an entry.
template <class T>
const Variables& found_variables_of(T& thread) noexcept {
  Variables& variables = variables_of(thread);
  if (variables.execution == nullptr) [[unlikely]]
    find(variables);
  return variables;
}

}  // namespace

// Inlined, it would ask again for each use.
[[gnu::noinline]] EntryScope::Thread& EntryScope::this_thread() noexcept {
  static constinit thread_local Known<Thread> known{{nullptr, 0, -1}, {}};
  return known.thread;
}

StateData* entered_state(const ReleaseQueue& releases) noexcept {
  for (const EntryScope* entry = EntryScope::this_thread().innermost; entry != nullptr;
       entry = entry->outer_)
    if (entry->data_.releases.get() == &releases) return &entry->data_;
  return nullptr;
}

bool is_innermost(const StateData& data) noexcept {
  const EntryScope* innermost = EntryScope::this_thread().innermost;
  return innermost != nullptr && &innermost->data_ == &data;
}

StateData* innermost_state() noexcept {
  const EntryScope* innermost = EntryScope::this_thread().innermost;
  return innermost != nullptr ? &innermost->data_ : nullptr;
}

void check_files_allowed(const char* op, const std::string& path) {
  const EntryScope* innermost = EntryScope::this_thread().innermost;
  const bool allowed = innermost == nullptr || innermost->data_.options.libraries.io ||
                       io::file_system_of(path) != nullptr;
  check(allowed, op, ": '", path, "': this interpreter has no access to files");
}

void stop_entered() noexcept {
  for (const EntryScope* entry = EntryScope::this_thread().innermost; entry != nullptr;
       entry = entry->outer_)
    if (entry->data_.stop.requested()) stop_soon(entry->data_);
}

namespace {

// Takes the state of this thread back into that of a coroutine, or out of it.
void keep(CoroutineState& state, const Variables& from) {
  state.execution = *from.execution;
  state.devices = *from.devices;
  state.cudnn = *from.cudnn;
  state.anomaly = *from.anomaly;
}

void install(const CoroutineState& state, const Variables& to) {
  *to.execution = state.execution;
  *to.devices = state.devices;
  *to.cudnn = state.cudnn;
  *to.anomaly = state.anomaly;
}

// What compiled functions have put off runs before another interpreter, thread or host may meet it.
// What fails does so again, or says so, where its tensors are used.
[[gnu::cold, gnu::noinline]] void run_what_is_deferred() noexcept {
  try {
    program::run_all_deferred();
  } catch (const std::exception&) {
  }
}
inline void settle_deferred(const Variables& variables) noexcept {
  if (*variables.any_deferred) [[unlikely]]
    run_what_is_deferred();
}

// Mostly they are the same; to ask is most of what installing costs.
void change(const ThreadSettings& from, const ThreadSettings& to) {
  if (from.count != to.count || from.flush_denormal != to.flush_denormal) moonlet::install(to);
}

}  // namespace

EntryScope::EntryScope(StateData& data)
    : data_(data),
      thread_(this_thread()),
      execution_(*found_variables_of(thread_).execution),
      account_(*variables_of(thread_).account),
      outer_(thread_.innermost),
      before_(execution_),
      devices_before_(*variables_of(thread_).devices),
      cudnn_before_(*variables_of(thread_).cudnn),
      anomaly_before_(*variables_of(thread_).anomaly),
      threads_before_{},
      passed_before_(nullptr),
      budget_before_(account_.budget),
      debt_before_(account_.debt) {
  thread_.innermost = this;
  if (thread_.generation != fork_generation()) [[unlikely]] {
    thread_.id = moonlet::thread_id();
    thread_.generation = fork_generation();
  }
  ++data.level;
  if (outer_ != nullptr && &outer_->data_ == &data) return;
  const Variables& variables = variables_of(thread_);
  settle_deferred(variables);
  threads_before_ = thread_settings();
  if (outer_ != nullptr) {
    keep(*outer_->data_.current, variables);
    outer_->data_.threads = threads_before_;
  }
  install(*data.current, variables);
  change(threads_before_, data.threads);
  passed_before_ = std::exchange(*variables.passed, nullptr);
  files_before_ = std::exchange(*variables.files, data.files.get());
  if (account_.budget != data.budget) memory::switch_account(data.budget, &data.pacer.debt);
}

EntryScope::~EntryScope() {
  --data_.level;
  if (data_.current->has_dropped) end_dropped(data_);
  thread_.innermost = outer_;
  if (outer_ != nullptr && &outer_->data_ == &data_) return;
  const Variables& variables = variables_of(thread_);
  settle_deferred(variables);
  keep(*data_.current, variables);
  data_.threads = thread_settings();
  *variables.passed = passed_before_;
  *variables.files = files_before_;
  if (account_.budget != budget_before_) memory::switch_account(budget_before_, debt_before_);
  // The outer interpreter may have been entered again meanwhile, and its state have changed.
  if (outer_ != nullptr) {
    install(*outer_->data_.current, variables);
    change(data_.threads, outer_->data_.threads);
  } else {
    change(data_.threads, threads_before_);
    execution_ = before_;
    *variables.devices = devices_before_;
    *variables.cudnn = cudnn_before_;
    *variables.anomaly = anomaly_before_;
  }
}

RunningScope::RunningScope(lua_State* L, lua_State* co)
    : data_(state_data(L)), before_(data_.running) {
  data_.running = co;
  if (data_.stop.requested())
    stop_at_next_instruction(co);
  else if (co != data_.main_thread)
    watch_small_stack(co);
}

RunningScope::~RunningScope() {
  data_.running = before_;
  if (data_.stop.requested()) stop_at_next_instruction(before_);
}

BackwardScope::BackwardScope(lua_State* L) : entry_(state_data(L)), running_(L, L) {}

// --- coroutines ----------------------------------------------------------------------------------

namespace {

int collect_state(lua_State* L) {
  auto* state = static_cast<CoroutineState*>(lua_touserdata(L, 1));
  StateData& data = state_data(L);
  if (data.current == state) data.current = &data.main;
  state->~CoroutineState();
  return 0;
}

// The state of `co`, made like that of the running coroutine when it is the first time. It lives as
// long as `co`: the value of a weak key.
CoroutineState& coroutine_state(lua_State* L, lua_State* co) {
  StateData& data = state_data(L);
  if (co == data.main_thread) return data.main;
  if (lua_checkstack(co, 1) == 0) luaL_error(L, "too many arguments to resume");
  lua_rawgeti(L, LUA_REGISTRYINDEX, data.coroutines_ref);
  lua_pushthread(co);
  lua_xmove(co, L, 1);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    auto* made = new (lua_newuserdatauv(L, sizeof(CoroutineState), 0)) CoroutineState(execution);
    made->devices = device_state;
    made->devices.guard = 0;  // that of who resumes it
    made->cudnn = cudnn_settings;
    made->anomaly = anomaly_mode;
    lua_rawgeti(L, LUA_REGISTRYINDEX, data.coroutine_metatable_ref);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, -5);
  }
  auto* state = static_cast<CoroutineState*>(lua_touserdata(L, -1));
  lua_pop(L, 3);
  return *state;
}

}  // namespace

void prepare_coroutine_states(lua_State* L) {
  StateData& data = state_data(L);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  data.coroutines_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, guard<collect_state>);
  lua_setfield(L, -2, "__gc");
  data.coroutine_metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

CoroutineScope::CoroutineScope(lua_State* L, lua_State* co)
    : running_(L, co), data_(state_data(L)), resumer_(data_.current) {
  charge_switch(data_);
  // A limit may be younger than the coroutine.
  if (data_.limits.given.instructions > 0 && lua_gethook(co) == nullptr) set_usual_hook(co);
  CoroutineState& state = coroutine_state(L, co);
  const Variables& variables = this_variables();
  keep(*resumer_, variables);
  modes_.emplace(state.modes);  // on top of the resumer's, where there is room
  ModeEntry* const modes = execution.modes;
  data_.current = &state;
  install(state, variables);
  execution.modes = modes;
  end_dropped(data_);
}

CoroutineScope::~CoroutineScope() {
  modes_.reset();
  const Variables& variables = this_variables();
  keep(*data_.current, variables);
  data_.current = resumer_;
  install(*resumer_, variables);
  end_dropped(data_);
}

void enter_coroutine(std::optional<CoroutineScope>& scope, lua_State* L, lua_State* co) {
  try {
    scope.emplace(L, co);
    return;
  } catch (const Error& e) {
    lua_pushstring(L, e.what());
  }
  lua_error(L);
}

int resume_coroutine(lua_State* L, lua_State* co, int arguments, int* results) {
  const CallScope call(L);
  std::optional<CoroutineScope> scope;
  enter_coroutine(scope, L, co);
  return lua_resume(co, L, arguments, results);
}

}  // namespace moonlet
