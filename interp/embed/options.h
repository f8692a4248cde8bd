// moonlet/options.h: what the scripts of an interpreter may do: libraries, environment, limits, and
// where their output goes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Files that the host keeps for scripts. What Moonlet reads and writes by a path (`ml.load`,
// `ml.save`, `dofile`, `require`, tables, pictures, sounds, `run_file`), it asks these for, and not
// the system; Lua's own `io` is of the system: without that library they are all that scripts have.
// Called on whatever thread the interpreter or a worker of its DataLoader runs; what they throw is
// why the file cannot be read or written.
struct HostFiles {
  // The bytes of a file; nothing where there is none.
  std::function<std::optional<uint64_t>(const std::string& path)> size;
  // Fills `out` with `count` bytes from position `at`.
  std::function<void(const std::string& path, uint64_t at, char* out, size_t count)> read;
  // Makes or replaces a file, whole or not at all. Empty: none can be written.
  std::function<void(const std::string& path, const std::vector<std::string_view>& parts)> write;
};

// When garbage is collected.
enum class Collector : uint8_t {
  // As memory is allocated: young objects often, all now and then, which takes some milliseconds
  // where scripts hold much.
  Automatic,
  // As memory is allocated, in short steps: for hosts that have no milliseconds to spare.
  Bounded,
  // When the host says so (Interpreter::collect_for, Interpreter::collect).
  Manual
};

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
  // of LAPACK that takes long is left to end by itself on a thread of its own, four at most. From
  // 100 ms on it is measured to 4 ms.
  std::chrono::nanoseconds wall_time{0};
  // With another one than Automatic, scripts may collect, too, but not change how it is done. Where
  // memory is short, all is collected at once.
  Collector collector = Collector::Automatic;
  // Of Bounded: how long a step may take. What Lua does not divide takes as long as it takes: the
  // end of a cycle visits each tensor and each weak table, and a table is marked whole.
  std::chrono::microseconds collector_pause{100};
  // How many CPU threads ops may use, until a script or Interpreter::set_num_threads says
  // otherwise; 0: as many as the thread that makes the interpreter (num_threads in moonlet/ops.h).
  int threads = 0;
  // Where files are, when `size` and `read` are given; else those of the system.
  HostFiles files;
  // Where output goes; empty: the process's standard streams.
  OutputFunction output;
};

// Those of InterpreterOptions that can be others for the next run.
struct RunLimits {
  int64_t lua_bytes = 0;
  int64_t tensor_bytes = 0;
  int64_t instructions = 0;
  std::chrono::nanoseconds wall_time{0};
};

}  // namespace moonlet
