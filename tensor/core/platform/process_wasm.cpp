// tensor/core/platform/process_wasm.cpp: what stands for a process in WebAssembly: clocks,
// variables of the environment, and a terminal where the page or node gives one.
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tensor/core/error.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/process.h"

namespace moonlet::platform {

int process_id() noexcept { return ::getpid(); }

std::string executable_path() { fail("WebAssembly has no file of the program"); }

std::vector<char*> arguments(int argc, char** argv) { return {argv, argv + argc}; }

bool is_terminal(int stream) noexcept { return ::isatty(stream) != 0; }

std::optional<TerminalSize> terminal_size(int) noexcept { return std::nullopt; }

// Text is UTF-8 there.
void prepare_output() noexcept {}
void use_utf8_terminal() noexcept {}

// node's; the page leaves no prompt.
const char* const kEndKeys = "Ctrl-D";

LineRead read_line(std::string& line) {
  int c = 0;
  while ((c = std::getc(stdin)) != EOF && c != '\n') line.push_back(static_cast<char>(c));
  return c == EOF ? LineRead::kEnd : LineRead::kLine;
}

const char* variable(const char* name) { return std::getenv(name); }

bool set_variable(const char* name, const char* value) noexcept {
  return (value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name)) == 0;
}

int64_t clock_now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

int64_t coarse_clock_now() noexcept { return clock_now(); }

}  // namespace moonlet::platform
