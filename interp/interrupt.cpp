// interp/interrupt.cpp: Ctrl-C requests a stop, and a debug hook meets requests in Lua code.
#include "interp/interrupt.h"

#include <atomic>

#include <unistd.h>

#include "interp/run_limits.h"
#include "interp/state.h"
#include "tensor/io/files.h"

namespace moonlet {
namespace {

constexpr const char* kReason = "interrupted!";

std::atomic<lua_State*> target{nullptr};
std::atomic<bool> pressed_before{false};

void stop(lua_State* L, lua_Debug*) {
  StopFlag& flag = state_data(L).stop;
  // A coroutine may keep its hook after another one was stopped; that request is over.
  const char* reason = flag.take();
  if (!flag.requested()) set_usual_hook(L);
  if (reason != nullptr) luaL_error(L, "%s", reason);
}

void on_signal(int) {
  lua_State* L = target.load();
  if (L == nullptr) return;
  StateData& data = state_data(L);
  if (data.stop.requested()) {
    constexpr char kMessage[] = "\nmoonlet: interrupted twice, leaving\n";
    (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    io::remove_temporary_files();
    _exit(130);
  }
  if (pressed_before.exchange(true))
    data.stop.request_until_cancelled(kReason);
  else
    data.stop.request(kReason);
  stop_soon(data);
}

}  // namespace

void stop_at_next_instruction(lua_State* L) noexcept { lua_sethook(L, stop, LUA_MASKCOUNT, 1); }

void stop_soon(StateData& data) noexcept {
  // The main thread gets the hook too, in case the coroutine yields for good before it runs another
  // instruction.
  stop_at_next_instruction(data.running);
  if (data.running != data.main_thread) stop_at_next_instruction(data.main_thread);
}

InterruptScope::InterruptScope(lua_State* L) noexcept {
  pressed_before = false;
  target = L;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // Not SA_RESTART: a blocked io.read returns, and the script stops at its next instruction.
  sigaction(SIGINT, &action, &before_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &before_, nullptr);
  lua_State* L = target.exchange(nullptr);
  state_data(L).stop.cancel();
  lua_sethook(L, nullptr, 0, 0);
}

}  // namespace moonlet
