// interp/modules/child_process.h: programs that are run without a shell, and files that one process
// holds at a time. Both wait no longer than the interpreter may run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tensor/io/files.h"

namespace moonlet {

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
  void release() { file_.close(); }

 private:
  io::Descriptor file_;
};

}  // namespace moonlet
