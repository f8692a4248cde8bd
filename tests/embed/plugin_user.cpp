// tests/embed/plugin_user.cpp: runs its argument, which uses the emulated CUDA device and
// returns 4.
#include <moonlet/moonlet.h>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    moonlet::Interpreter::Options options;
    options.environment = true;  // MOONLET_CUDA_PLUGIN may name the plugin
    moonlet::Interpreter lua(options);
    return lua.run_string(argv[1])[0].number() == 4 ? 0 : 1;
  } catch (const moonlet::Error& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
}
