// tests/small/interpreter.cpp: a script in a host of chosen ops.  usage: interpreter SCRIPT
#include <moonlet/moonlet.h>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  moonlet::Interpreter lua;
  if (argc > 1) lua.run_file(argv[1]);
  try {
    lua.run_string("return require('moonlet').ones(2):erfinv()");
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
}
