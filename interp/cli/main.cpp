// interp/cli/main.cpp: the `moonlet` executable.
#include "interp/cli/cli.h"
#include "tensor/core/platform/process.h"
#include "tensor/cpu/common/abandonable.h"

int main(int argc, char** argv) {
  moonlet::cpu::leave_abandoned_at_exit();
  moonlet::platform::prepare_output();
  std::vector<char*> arguments = moonlet::platform::arguments(argc, argv);
  return moonlet::run_cli(argc, arguments.data());
}
