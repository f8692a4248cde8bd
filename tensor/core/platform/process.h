// tensor/core/platform/process.h: the process, its arguments, and the terminal that it runs on.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moonlet::platform {

int process_id() noexcept;
// The path of the program's file. Throws Error where the system does not say.
std::string executable_path();

// The arguments of main as UTF-8; pointers into memory that lasts.
std::vector<char*> arguments(int argc, char** argv);

// Whether the standard stream of that number, 0 to 2, is a terminal.
bool is_terminal(int stream) noexcept;

struct TerminalSize {
  int columns = 0, rows = 0;
};
// Of the terminal that a standard stream is; none where it is no terminal or does not say.
std::optional<TerminalSize> terminal_size(int stream) noexcept;

// At the start of a program: standard error hands on at once what is written to it, and a terminal
// shows UTF-8 and the escape sequences of colours until the program ends.
void prepare_output() noexcept;
// Makes the C library read characters of what is typed as UTF-8.
void use_utf8_terminal() noexcept;

// The keys that end what is typed.
extern const char* const kEndKeys;

// Adds what standard input has up to the next end of a line, without that, as UTF-8 where it is a
// console. kInterrupted: the console says that Ctrl-C has ended it, whose handler may run a little
// later.
enum class LineRead { kLine, kEnd, kInterrupted };
LineRead read_line(std::string& line);

// A variable of the environment as UTF-8; null where it is not set. What it points to lasts as long
// as what std::getenv gives, or the thread's next call.
const char* variable(const char* name);
// Sets it, or where `value` is null makes that it is not set. For names and values in ASCII.
bool set_variable(const char* name, const char* value) noexcept;

}  // namespace moonlet::platform
