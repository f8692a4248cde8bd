// interp/cli/cli.h: the command line of the `moonlet` executable.
#pragma once

namespace moonlet {

// Does what the arguments say and returns the exit code: 0, or 1 after an error.
int run_cli(int argc, char** argv);

}  // namespace moonlet
