// interp/interrupt.cpp: turns SIGINT into a Lua error through a debug hook.
#include "interp/interrupt.h"

#include <atomic>
#include <ctime>

#include <unistd.h>

#include "interp/state.h"

namespace moonlet {
namespace {

std::atomic<lua_State*> target{nullptr};
std::atomic<bool> pending{false};
std::atomic<int64_t> pending_since{0};

static_assert(std::atomic<int64_t>::is_always_lock_free, "used in a signal handler");

constexpr int kEveryEvent = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
constexpr int64_t kSecond = 1'000'000'000;

int64_t now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

void stop(lua_State* L, lua_Debug*) {
  lua_sethook(L, nullptr, 0, 0);
  // A coroutine may keep its hook after another one was stopped; that interrupt is over.
  if (pending.exchange(false)) luaL_error(L, "interrupted!");
}

void on_signal(int) {
  lua_State* L = target.load();
  if (L == nullptr) return;
  const int64_t time = now();
  if (pending.exchange(true) && time - pending_since.load() < kSecond) {
    constexpr char kMessage[] = "\nmoonlet: interrupted twice, leaving\n";
    (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    _exit(130);
  }
  pending_since = time;
  // lua_sethook is made to be called from a signal handler. The main thread gets the hook too, in
  // case the coroutine yields for good before it runs another instruction.
  lua_State* running = state_data(L).running;
  lua_sethook(running, stop, kEveryEvent, 1);
  if (running != L) lua_sethook(L, stop, kEveryEvent, 1);
}

}  // namespace

bool interrupted() noexcept { return pending.load(std::memory_order_relaxed); }

InterruptScope::InterruptScope(lua_State* L) noexcept {
  pending = false;
  target = L;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &before_, nullptr);
  lua_State* L = target.exchange(nullptr);
  if (pending.exchange(false)) lua_sethook(L, nullptr, 0, 0);
}

}  // namespace moonlet
