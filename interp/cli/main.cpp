// interp/cli/main.cpp: the `moonlet` executable.
#include "interp/cli/cli.h"
#include "tensor/cpu/common/abandonable.h"

int main(int argc, char** argv) {
  moonlet::cpu::leave_abandoned_at_exit();
  return moonlet::run_cli(argc, argv);
}
