// tests/hostile/failing_malloc.cpp: preloaded into the interpreter it makes allocations fail, in
// processes of their own: a Lua module with
//   count(f)                   how many allocations f makes
//   try(first, many, f, after) forks; the child's allocations number `first` and `many` - 1 behind
//   it
//                              fail in f, which may raise an error, and none in `after`, which may
//                              not. Returns nil or what went wrong: a signal, or the error of
//                              `after`
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lua.hpp"

namespace {

std::atomic<bool> armed{false};
std::atomic<long> made{0};
long first_failing = 0, last_failing = 0;
// Of this thread, which asks who calls: that may allocate. Not `armed`, which the end of a job
// clears while threads of it are still in here.
__attribute__((tls_model("initial-exec"))) thread_local bool asking = false;

bool is_in(const void* position, const char* library) {
  Dl_info info;
  return dladdr(position, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, library) != nullptr;
}

// libgomp ends the process by itself when it gets no memory, which it asks for where a team or a
// thread begins; so does libc for the list of what ends with a thread.
bool is_fatal(const void* caller) {
  Dl_info info;
  if (is_in(caller, "libgomp")) return true;
  if (dladdr(caller, &info) != 0 && info.dli_sname != nullptr &&
      std::strstr(info.dli_sname, "__cxa_thread_atexit") != nullptr)
    return true;
  // And oneDNN crashes when it makes the kernels of its products, once, by libc's pthread_once.
  void* frames[24];
  const int count = backtrace(frames, 24);
  for (int i = 1; i + 1 < count; ++i)
    if (is_in(frames[i - 1], "libdnnl") && is_in(frames[i], "libc.so") &&
        is_in(frames[i + 1], "libdnnl"))
      return true;
  // libgomp has the memory of a new thread's variables from the loader, by pthread_create.
  for (int i = 1; i + 1 < count; ++i)
    if (is_in(frames[i + 1], "libgomp") && dladdr(frames[i], &info) != 0 &&
        info.dli_sname != nullptr && std::strstr(info.dli_sname, "pthread_create") != nullptr)
      return true;
  return false;
}

bool fails(const void* caller) {
  if (asking || !armed.load(std::memory_order_relaxed)) return false;
  const long number = made.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < first_failing || number > last_failing) return false;
  asking = true;
  const bool fatal = is_fatal(caller);
  asking = false;
  if (fatal) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(block, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
}

namespace {

void begin(long first, long many) {
  first_failing = first;
  last_failing = first + many - 1;
  made = 0;
  armed = true;
}

int l_count(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  begin(0, 0);
  const int status = lua_pcall(L, 0, 0, 0);
  armed = false;
  if (status != LUA_OK) return lua_error(L);
  lua_pushinteger(L, made);
  return 1;
}

// Where a child was that a signal ends.
void show_position(int signal) {
  armed = false;
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

[[noreturn]] void run_child(lua_State* L, int out) {
  alarm(300);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(signal, show_position);
  begin(luaL_checkinteger(L, 1), luaL_checkinteger(L, 2));
  lua_pushvalue(L, 3);
  lua_pcall(L, 0, 0, 0);
  armed = false;
  lua_settop(L, 4);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) _exit(0);
  size_t size = 0;
  const char* text = luaL_tolstring(L, -1, &size);
  (void)!write(out, text, size < 4000 ? size : 4000);
  _exit(1);
}

int l_try(lua_State* L) {
  lua_settop(L, 4);
  int ends[2];
  if (pipe(ends) != 0) return luaL_error(L, "pipe: %s", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return luaL_error(L, "fork: %s", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    run_child(L, ends[1]);
  }
  close(ends[1]);
  char text[4001];
  size_t size = 0;
  for (ssize_t got;
       size < sizeof text - 1 && (got = read(ends[0], text + size, sizeof text - 1 - size)) > 0;)
    size += static_cast<size_t>(got);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    lua_pushfstring(L, "signal %d", WTERMSIG(status));
    return 1;
  }
  if (WEXITSTATUS(status) == 0) return 0;
  lua_pushfstring(L, "status %d: %s", WEXITSTATUS(status), size > 0 ? (text[size] = 0, text) : "");
  return 1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int luaopen_failing_malloc(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"count", l_count}, {"try", l_try}, {nullptr, nullptr}};
  luaL_newlib(L, kFunctions);
  return 1;
}
