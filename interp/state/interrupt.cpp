// interp/state/interrupt.cpp: Ctrl-C requests a stop, and a debug hook meets requests in Lua code.
#include "interp/state/interrupt.h"

#include <atomic>
#include <chrono>

#include "interp/state/run_limits.h"
#include "interp/state/state.h"
#include "tensor/io/files.h"

namespace moonlet {
namespace {

constexpr const char* kReason = "interrupted!";

// How long a request of the prompt's user is given before the next one ends the process.
constexpr int64_t kPromptPatience = 1'000'000'000;

std::atomic<lua_State*> target{nullptr};
std::atomic<bool> pressed_before{false};
std::atomic<int64_t> pressed_at{0};  // nanoseconds
// Of the prompt: whether there is one, whether Ctrl-C was pressed while nothing ran, whether the
// process is about to end.
std::atomic<bool> prompting{false}, pressed_idle{false}, leaving{false};

void stop(lua_State* L, lua_Debug*) {
  StopFlag& flag = state_data(L).stop;
  // A coroutine may keep its hook after another one was stopped; that request is over.
  const char* reason = flag.take();
  if (!flag.requested()) set_usual_hook(L);
  if (reason != nullptr) luaL_error(L, "%s", reason);
}

int64_t now() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

[[noreturn]] void leave() noexcept {
  constexpr char kMessage[] = "\nmoonlet: interrupted twice, leaving\n";
  io::remove_temporary_files();
  platform::leave(kMessage, sizeof kMessage - 1, 130);
}

// Whether the user of a prompt may still expect an effect of the last one.
bool is_patient() noexcept { return prompting && now() - pressed_at < kPromptPatience; }

void press(StateData& data) noexcept {
  pressed_at = now();
  if (pressed_before.exchange(true))
    data.stop.request_until_cancelled(kReason);
  else
    data.stop.request(kReason);
  stop_soon(data);
}

void press_idle() noexcept {
  if (!pressed_idle.exchange(true)) {
    pressed_at = now();
    if (prompting) return;
  }
  if (leaving && !is_patient()) leave();
}

// On the thread of the scripts, or while it stands still.
void on_interrupt() noexcept {
  lua_State* L = target.load();
  if (L == nullptr) return press_idle();
  StateData& data = state_data(L);
  if (!data.stop.requested())
    press(data);
  else if (!is_patient())
    leave();
}

void handle(bool restart) noexcept {
  platform::InterruptAction before;
  before.set(on_interrupt, restart);
}

}  // namespace

void stop_at_next_instruction(lua_State* L) noexcept { lua_sethook(L, stop, LUA_MASKCOUNT, 1); }

void stop_soon(StateData& data) noexcept {
  // The main thread gets the hook too, in case the coroutine yields for good before it runs another
  // instruction.
  stop_at_next_instruction(data.running);
  if (data.running != data.main_thread) stop_at_next_instruction(data.main_thread);
}

void raise_stop(lua_State* L) {
  const char* reason = state_data(L).stop.take();
  if (reason != nullptr) luaL_error(L, "%s", reason);
}

InterruptScope::InterruptScope(lua_State* L) noexcept {
  pressed_before = false;
  target = L;
  // Not SA_RESTART: a blocked io.read returns, and the script stops at its next instruction.
  before_.set(on_interrupt, false);
  if (pressed_idle.exchange(false)) press(state_data(L));
}

InterruptScope::~InterruptScope() {
  before_.restore();
  lua_State* L = target.exchange(nullptr);
  state_data(L).stop.cancel();
  set_usual_hook(L);
}

// --- prompts -------------------------------------------------------------------------------------

// Restarting: what is written between two commands is written whole.
void keep_prompt_alive() noexcept {
  prompting = true;
  handle(true);
}

PromptReadScope::PromptReadScope() noexcept {
  pressed_idle = false;
  if (prompting) handle(false);
}

// What was pressed before the line was complete is not for the command.
PromptReadScope::~PromptReadScope() {
  pressed_idle = false;
  if (prompting) handle(true);
}

bool PromptReadScope::interrupted() const noexcept { return pressed_idle; }

void leave_interrupts() noexcept {
  target = nullptr;
  pressed_idle = false;
  leaving = true;
}

}  // namespace moonlet
