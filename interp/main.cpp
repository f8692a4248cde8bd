// interp/main.cpp: the `moonlet` executable.
#include "interp/cli.h"

int main(int argc, char** argv) { return moonlet::run_cli(argc, argv); }
