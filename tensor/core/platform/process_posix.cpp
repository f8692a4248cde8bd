// tensor/core/platform/process_posix.cpp: processes, terminals and clocks of POSIX systems.
#include <langinfo.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#else
#include <limits.h>
#include <mach-o/dyld.h>
#endif

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tensor/core/error.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/process.h"

namespace moonlet::platform {

int process_id() noexcept { return ::getpid(); }

std::string executable_path() {
#if defined(__linux__)
  // Where nothing is mounted, by the name that it was started by.
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && ::access(path.c_str(), R_OK) == 0) return path;
  const auto* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
#else
  char buffer[PATH_MAX];
  uint32_t size = sizeof buffer;
  const char* const name = ::_NSGetExecutablePath(buffer, &size) == 0 ? buffer : nullptr;
#endif
  check(name != nullptr, "the system does not say where the executable of this process is");
  return name;
}

std::vector<char*> arguments(int argc, char** argv) { return {argv, argv + argc}; }

bool is_terminal(int stream) noexcept { return ::isatty(stream) != 0; }

std::optional<TerminalSize> terminal_size(int stream) noexcept {
  winsize size{};
  if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

// So it is.
void prepare_output() noexcept {}

// As the locale says, but as UTF-8, which nearly every terminal sends, where the locale knows no
// more than ASCII.
void use_utf8_terminal() noexcept {
#ifdef __APPLE__
  const char *ascii = "US-ASCII", *utf8 = "UTF-8";
#else
  const char *ascii = "ANSI_X3.4-1968", *utf8 = "C.UTF-8";
#endif
  const char* name = std::setlocale(LC_CTYPE, "");
  if (name == nullptr || std::strcmp(::nl_langinfo(CODESET), ascii) == 0)
    std::setlocale(LC_CTYPE, utf8);
}

LineRead read_line(std::string& line) {
  int c = 0;
  while ((c = std::getc(stdin)) != EOF && c != '\n') line.push_back(static_cast<char>(c));
  return c == EOF ? LineRead::kEnd : LineRead::kLine;
}

const char* const kEndKeys = "Ctrl-D";

const char* variable(const char* name) { return std::getenv(name); }

bool set_variable(const char* name, const char* value) noexcept {
  return (value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name)) == 0;
}

namespace {
int64_t read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}
}  // namespace

int64_t clock_now() noexcept { return read_clock(CLOCK_MONOTONIC); }

int64_t coarse_clock_now() noexcept {
#ifdef CLOCK_MONOTONIC_COARSE
  return read_clock(CLOCK_MONOTONIC_COARSE);
#else
  return read_clock(CLOCK_MONOTONIC);
#endif
}

}  // namespace moonlet::platform
