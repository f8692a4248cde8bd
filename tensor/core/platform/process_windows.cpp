// tensor/core/platform/process_windows.cpp: processes, consoles and clocks of Windows.
#include <fcntl.h>
#include <io.h>
#include <windows.h>
//
#include <shellapi.h>

#include <cstdio>
#include <cstdlib>

#include "tensor/core/error.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/text_windows.h"

namespace moonlet::platform {

namespace {

HANDLE handle_of(int stream) noexcept {
  constexpr DWORD kHandles[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
  return stream >= 0 && stream < 3 ? GetStdHandle(kHandles[stream]) : INVALID_HANDLE_VALUE;
}

void show_sequences(int stream) noexcept {
  constexpr DWORD kSequences = 0x0004;  // ENABLE_VIRTUAL_TERMINAL_PROCESSING
  DWORD mode = 0;
  if (GetConsoleMode(handle_of(stream), &mode))
    SetConsoleMode(handle_of(stream), mode | kSequences);
}

}  // namespace

std::string executable_path() {
  std::wstring path(32768, L'\0');
  const DWORD length = GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size()));
  check(length > 0 && length < path.size(),
        "the system does not say where the executable of this process is");
  path.resize(length);
  return narrow(path);
}

int process_id() noexcept { return static_cast<int>(GetCurrentProcessId()); }

std::vector<char*> arguments(int argc, char** argv) {
  int count = 0;
  wchar_t** const all = CommandLineToArgvW(GetCommandLineW(), &count);
  if (all == nullptr || count != argc) return {argv, argv + argc};
  static std::vector<std::string>& kept = *new std::vector<std::string>;
  for (int i = 0; i < count; ++i) kept.push_back(narrow(all[i]));
  LocalFree(all);
  std::vector<char*> out;
  for (std::string& each : kept) out.push_back(each.data());
  return out;
}

bool is_terminal(int stream) noexcept {
  DWORD mode = 0;
  return GetConsoleMode(handle_of(stream), &mode) != 0;
}

std::optional<TerminalSize> terminal_size(int stream) noexcept {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!GetConsoleScreenBufferInfo(handle_of(stream), &info)) return std::nullopt;
  return TerminalSize{info.srWindow.Right - info.srWindow.Left + 1,
                      info.srWindow.Bottom - info.srWindow.Top + 1};
}

namespace {

UINT code_page_before = 0;

void restore_code_page() noexcept {
  std::fflush(nullptr);
  SetConsoleOutputCP(code_page_before);
}

}  // namespace

// Consoles get bytes as they are: Wine's C library takes those of text for Windows-1252. A line's
// end needs no \r there. Without a buffer a string is written whole, where one for consoles would
// take characters of several bytes apart.
void prepare_output() noexcept {
  std::setvbuf(stderr, nullptr, _IONBF, 0);
  if (!is_terminal(1) && !is_terminal(2)) return;
  code_page_before = GetConsoleOutputCP();
  if (SetConsoleOutputCP(CP_UTF8)) std::atexit(restore_code_page);
  for (const int stream : {1, 2}) {
    if (!is_terminal(stream)) continue;
    if (stream == 1) std::setvbuf(stdout, nullptr, _IONBF, 0);
    show_sequences(stream);
    _setmode(stream, _O_BINARY);
  }
}

// What is typed is read as UTF-16.
void use_utf8_terminal() noexcept {}

namespace {

// What the console has given and read_line has not: one read may bring several lines.
std::wstring& unread() {
  static std::wstring& it = *new std::wstring;
  return it;
}

LineRead read_console_line(std::string& line) {
  constexpr wchar_t kControlZ = 26;
  std::wstring& text = unread();
  size_t end = 0;
  while ((end = text.find(L'\n')) == text.npos) {
    wchar_t block[1024];
    DWORD count = 0;
    SetLastError(ERROR_SUCCESS);
    const BOOL good = ReadConsoleW(handle_of(0), block, std::size(block), &count, nullptr);
    if (GetLastError() == ERROR_OPERATION_ABORTED) return LineRead::kInterrupted;
    if (!good || count == 0) return LineRead::kEnd;
    text.append(block, count);
    if (text[0] == kControlZ) {
      text.clear();
      return LineRead::kEnd;
    }
  }
  std::wstring_view whole(text.data(), end);
  if (whole.ends_with(L'\r')) whole.remove_suffix(1);
  line += narrow(whole);
  text.erase(0, end + 1);
  return LineRead::kLine;
}

}  // namespace

LineRead read_line(std::string& line) {
  if (is_terminal(0)) return read_console_line(line);
  int c = 0;
  while ((c = std::getc(stdin)) != EOF && c != '\n') line.push_back(static_cast<char>(c));
  return c == EOF ? LineRead::kEnd : LineRead::kLine;
}

const char* const kEndKeys = "Ctrl-Z with Enter";

const char* variable(const char* name) {
  static thread_local std::string value;
  const wchar_t* const found = _wgetenv(wide(name).c_str());
  if (found == nullptr) return nullptr;
  value = narrow(found);
  return value.c_str();
}

bool set_variable(const char* name, const char* value) noexcept {
  return _putenv_s(name, value != nullptr ? value : "") == 0;
}

int64_t clock_now() noexcept {
  LARGE_INTEGER frequency, ticks;
  QueryPerformanceFrequency(&frequency);
  QueryPerformanceCounter(&ticks);
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t whole = ticks.QuadPart / frequency.QuadPart;
  const int64_t rest = ticks.QuadPart % frequency.QuadPart;
  return whole * kSecond + rest * kSecond / frequency.QuadPart;
}

int64_t coarse_clock_now() noexcept { return clock_now(); }

}  // namespace moonlet::platform
