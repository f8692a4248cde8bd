// tests/cpp/extension/extension_rights_test.cpp: which interpreters may compile and load native
// code, and what ends a compiler.
#include "tests/cpp/catch2.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "interp/embed/moonlet.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

constexpr const char* kLoad = R"(
  return require("moonlet").ext.load_inline { name = "two", cpp = "int two() { return 2; }",
    functions = { "two" } }.two())";

// A folder, with a compiler that compiles nothing, and variables that name both.
class Workshop {
 public:
  Workshop() {
    char name[] = "/tmp/moonlet-rights-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/cxx") << "#!/bin/sh\ncase \" $* \" in *\" -c \"*|*c++-header*)\n"
                                    << "sleep 60 & echo $! >" << folder_ << "/pid; wait;; esac\n";
    std::filesystem::permissions(folder_ + "/cxx", std::filesystem::perms::owner_all);
    setenv("CXX", (folder_ + "/cxx").c_str(), 1);
    setenv("MOONLET_CACHE", (folder_ + "/cache").c_str(), 1);
  }
  ~Workshop() {
    unsetenv("CXX");
    unsetenv("MOONLET_CACHE");
    std::filesystem::remove_all(folder_);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  // The process that the compiler waits for, or 0.
  int sleeping() const {
    int pid = 0;
    std::ifstream(folder_ + "/pid") >> pid;
    return pid;
  }

 private:
  std::string folder_;
};

bool ends(int pid) {
  for (int i = 0; i < 1000; ++i) {
    // What has ended may wait for its parent, the first process of the machine.
    std::ifstream about("/proc/" + std::to_string(pid) + "/stat");
    std::string word;
    char state = 'Z';
    about >> word >> word >> state;
    if (state == 'Z') return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

}  // namespace

TEST_CASE("only scripts with all libraries compile and load native code", "[ext]") {
  for (bool Libraries::*each : {&Libraries::os, &Libraries::io, &Libraries::package}) {
    InterpreterOptions options;
    options.libraries.*each = false;
    const std::string name = each == &Libraries::os   ? "os"
                             : each == &Libraries::io ? "io"
                                                      : "package";
    Interpreter lua(options);
    const std::string wanted =
        "this interpreter may not compile and load native code, as it has no "
        "library " +
        name;
    const auto refused = [&](const std::string& code, const std::string& text) {
      const std::string message = message_of<ScriptError>([&] { lua.run_string(code); });
      INFO(message);
      CHECK(contains(message, text.c_str()));
    };
    refused(kLoad, "ext.load_inline: " + wanted);
    for (const char* call : {"load { name = 'a', sources = 'a.cpp' }", "load_library '/tmp/a.so'"})
      refused(std::string("require('moonlet').ext.") + call, wanted);
    // Nor by what the library does it with.
    for (const char* call : {"run({ '/bin/true' }, {})", "open('/tmp/a.so', 'x')", "lock('/tmp/a')",
                             "read('/etc/passwd', 'x')", "remove_folder('/tmp/none')"})
      refused(std::string("require('moonlet.extension_tools').") + call, wanted);
  }
}

TEST_CASE("a limit of time ends the compiler", "[ext]") {
  const Workshop workshop;
  InterpreterOptions options;
  options.environment = true;
  options.wall_time = 500ms;
  Interpreter lua(options);
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(lua.run_string(kLoad), LimitExceeded);
  CHECK(std::chrono::steady_clock::now() - began < 30s);  // sixty without it
  // On a busy machine the limit may come before the compiler.
  if (workshop.sleeping() != 0) CHECK(ends(workshop.sleeping()));
}

TEST_CASE("an interrupt of the host ends the compiler", "[ext]") {
  const Workshop workshop;
  InterpreterOptions options;
  options.environment = true;
  Interpreter lua(options);
  std::thread other([&] {
    while (workshop.sleeping() == 0) std::this_thread::sleep_for(5ms);
    lua.interrupt();
  });
  CHECK_THROWS_AS(lua.run_string(kLoad), ScriptInterrupted);
  other.join();
  CHECK(ends(workshop.sleeping()));
}
