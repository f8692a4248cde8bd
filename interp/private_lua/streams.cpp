// interp/private_lua/streams.cpp: libc's streams as the private Lua's objects name them. They are
// set when the program or library is loaded; a stream assigned later is not seen.
#include <cstdio>

extern "C" {
FILE* moonlet_stdin = nullptr;
FILE* moonlet_stdout = nullptr;
FILE* moonlet_stderr = nullptr;
}

namespace {

// Before the initialisers of a host, which may make interpreters.
[[gnu::constructor(101)]] void set_streams() {
  moonlet_stdin = stdin;
  moonlet_stdout = stdout;
  moonlet_stderr = stderr;
}

}  // namespace
