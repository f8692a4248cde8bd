// interp/main.cpp: the `moonlet` executable.
#include "interp/cli.h"
#include "tensor/cpu/abandonable.h"

int main(int argc, char** argv) {
  moonlet::cpu::leave_abandoned_at_exit();
  return moonlet::run_cli(argc, argv);
}
