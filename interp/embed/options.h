// moonlet/options.h: what the scripts of an interpreter may do: libraries, environment, limits, and
// where their output goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace moonlet {

// Which of Lua's standard libraries scripts see. The basic functions are always there, and strings
// keep their methods.
struct Libraries {
  bool coroutine = true;
  bool table = true;
  bool string = true;
  bool utf8 = true;
  bool math = true;
  // Without it dofile, loadfile and Moonlet's functions that read or write files are gone or fail;
  // print stays.
  bool io = true;
  bool os = true;
  // As much of it as cannot crash the host: see docs/embedding.md.
  bool debug = true;
  // Without it `require` finds Moonlet's own modules only.
  bool package = true;
};

// Which of the streams a text was written to.
enum class Stream : uint8_t { Output, Error };

// Gets what a script writes with print, io.write, io.stdout, io.stderr, warn and what is built on
// them, piece by piece. Runs on the thread that runs the script; an exception from it fails the
// script's call.
using OutputFunction = std::function<void(Stream, std::string_view)>;

// A limit of 0 is none. Those of instructions and time hold for each run: a call of the host into
// the interpreter with all that is nested in it. A run that passes a limit ends with LimitExceeded,
// whatever the script catches; the interpreter can be used again after that.
struct InterpreterOptions {
  Libraries libraries;
  // Whether LUA_PATH, LUA_CPATH and MOONLET_STDLIB are read, and os.getenv sees variables.
  bool environment = false;
  // Whether `load`, `loadfile` and run_file take precompiled chunks, which can crash the process
  // when they were tampered with.
  bool bytecode = false;
  // What Lua's own values may take: tables, strings, functions.
  int64_t lua_bytes = 0;
  // What may be taken beside Lua's values: by the tensors that the interpreter has made, on all
  // devices, also those that the host holds, with some 600 bytes for each tensor and view; by the
  // tape; by what a call makes on its way. Memory that the host lends, and mapped files, are not
  // counted.
  int64_t tensor_bytes = 0;
  // Instructions of Lua's virtual machine, in steps of 100. Counting makes Lua code slower. A call
  // of a library function or an op is one instruction, resuming a coroutine a step.
  int64_t instructions = 0;
  // How long a run may take. Checked before each Lua instruction, within long ops and the library
  // functions of Lua that may take long (a pattern, a sort), and whenever a tensor is made. A call
  // of LAPACK that takes long is left to end by itself on a thread of its own, four at most.
  std::chrono::nanoseconds wall_time{0};
  // How many CPU threads ops may use, until a script or Interpreter::set_num_threads says
  // otherwise; 0: as many as the thread that makes the interpreter (num_threads in moonlet/ops.h).
  int threads = 0;
  // Where output goes; empty: the process's standard streams.
  OutputFunction output;
};

}  // namespace moonlet
