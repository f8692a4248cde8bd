// tensor/core/platform/programs.h: programs that are run without a shell, and files and folders
// that one process, or one user, has for itself. What waits does so no longer than the interpreter
// may run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moonlet::platform {

// Why there are none on this system; null where there are.
extern const char* const kNoPrograms;

struct Program {
  // The path of the program, and its arguments.
  std::vector<std::string> arguments;
  // "NAME=value" for each variable that it sees.
  std::vector<std::string> environment;
  // Called some ten times a second while it runs; what it throws ends the program.
  std::function<void()> tick;
};

struct ProgramResult {
  // The exit code; 128 and the number of the signal that ended it; -1 where that is not known.
  int status = -1;
  // What it wrote to its standard output and error, up to a MiB: what came after that is left out.
  std::string output;
};

// Runs a program to its end, with nothing to read. A stop of the interpreter, and an exception of
// `tick`, end it with all programs that it has started. Throws Error where it cannot be started.
ProgramResult run_program(const Program& program);

// Holds the file, which is made where there is none, until it ends: other threads and processes
// wait for that. Where its process dies the file is free again. `tick` is as for run_program;
// throws Error where the file cannot be made.
class FileLock {
 public:
  FileLock(const std::string& path, const std::function<void()>& tick);
  ~FileLock() { release(); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  void release() noexcept;

 private:
  int file_ = -1;
};

// Whether there is a program in that file that this process may run.
bool is_program(const std::string& path);

// The variables of this process, as of Program.
std::vector<std::string> environment();

// A new folder that is this user's, whose path begins so. Throws Error.
std::string new_folder(std::string beginning);

// Why others could write what is in a folder, or there is none; null when nobody could.
const char* why_not_own(const std::string& folder);

// The size of a file, and when it was changed last, in nanoseconds; none where there is no file.
struct FileStamp {
  int64_t size = 0, changed = 0;
};
std::optional<FileStamp> file_stamp(const std::string& path);

}  // namespace moonlet::platform
