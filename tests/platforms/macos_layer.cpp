// tests/platforms/macos_layer.cpp: what the platform layer does where it is compiled as for macOS
// (macos_names.h), without the rest; run by macos.sh. Prints what is wrong, and ends with 1 when
// anything is.
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tensor/core/platform/charconv.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/memory.h"
#include "tensor/core/platform/numeric_locale.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/programs.h"
#include "tensor/core/platform/streams.h"
#include "tensor/core/platform/threads.h"
#include "tensor/io/files.h"
#include "tests/platforms/layer_checks.h"

// The rest of its file wants zlib.
int moonlet::io::Descriptor::close() {
  const int fd = release();
  return fd >= 0 ? platform::close_file(fd) : 0;
}

namespace {

using namespace moonlet;
using namespace moonlet::platform;

std::string reading(std::string_view text) {
  double value = 7;
  const auto [end, error] = platform::from_chars(text.data(), text.data() + text.size(), value);
  const std::string rest(end, text.data() + text.size());
  if (error == std::errc::invalid_argument) return "none, " + rest;
  if (error == std::errc::result_out_of_range) return "out of range, " + rest;
  return std::to_string(value) + ", " + rest;
}

void test_numbers() {
  expect(reading("1.5e3x") == "1500.000000, x", "a number with what follows");
  expect(reading("+1") == "none, +1" && reading(" 1") == "none,  1", "no sign but minus");
  expect(reading("-0x10") == "-0.000000, x10", "no hexadecimal digits");
  expect(reading("1e999") == "out of range, " && reading("-1e-999") == "out of range, " &&
             reading("0e5") == "0.000000, ",
         "too large and too small");
  expect(reading("-inf") == "-inf, " && reading("none") == "none, none", "names");
}

std::string contents(const std::string& path) {
  const int file = open_to_read(path);
  if (file < 0) return "cannot be opened";
  char bytes[64];
  const int64_t count = read_at(file, bytes, sizeof bytes, 0);
  close_file(file);
  return {bytes, static_cast<size_t>(count < 0 ? 0 : count)};
}

void test_files(const std::string& folder) {
  const std::string path = folder + "/f";
  expect(write_file(path, {"one\n", "two"}) == 0 && contents(path) == "one\ntwo", "a new file");
  expect(write_file(path, {"second"}) == 0 && contents(path) == "second", "a file is replaced");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  expect(write_file(path, {std::string(1000, 'x')}) == EFBIG, "a limit of files is an error");
  setrlimit(RLIMIT_FSIZE, &before);
  expect(contents(path) == "second" && names_in(folder).size() == 1, "which leaves no other file");
  const FileToMap file(path, true, false);
  file.grow_to(100'000);
  file.grow_to(200'000);
  struct stat info {};
  stat(path.c_str(), &info);
  expect(
      info.st_size == 200'000 && info.st_blocks * 512 >= 200'000 && info.st_blocks * 512 < 250'000,
      "a file grows, and has its blocks");
  const int copy = open_copy("some bytes");
  char bytes[16];
  expect(read_at(copy, bytes, sizeof bytes, 0) == 10, "a file without a name");
  close_file(copy);
  expect(file_stamp(path)->changed ==
             int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
         "the time of a file");
}

void test_streams() {
  std::string written;
  std::FILE* stream = open_stream(
      [](void* to, const char* text, size_t size) {
        if (size == 1) return false;
        static_cast<std::string*>(to)->append(text, size);
        return true;
      },
      &written);
  expect(std::fputs("text", stream) >= 0 && written == "text", "streams to functions");
  errno = 0;
  expect(std::fputc('x', stream) == EOF && errno == EIO, "what a function refuses");
  std::fclose(stream);
}

std::atomic<int> woken{0};

void test_threads() {
  int here = 0;
  const StackRange stack = stack_of_this_thread();
  const auto at = reinterpret_cast<uintptr_t>(&here);
  expect(at > stack.lowest && at - stack.lowest < stack.size, "the stack's bounds");
  std::atomic<int> id{0}, heard{0};
  std::thread other([&] {
    unblock_wake();
    id = thread_id();
    while (woken == 0) std::this_thread::yield();
    heard = woken == thread_id() ? 1 : 2;
  });
  while (id == 0) std::this_thread::yield();
  expect(id != thread_id(), "threads have numbers");
  wake_thread(
      id, []() noexcept { woken = thread_id(); }, nullptr, nullptr);
  other.join();
  expect(heard == 1, "a thread is woken by its number");
  at_exit([](int) { std::printf("at the exit\n"); });
}

void test_process() {
  expect(machine_memory() > (int64_t{1} << 28), "the machine's memory");
  expect(executable_path().ends_with("/layer"), "the executable");
  expect(clock_now() <= clock_now() && coarse_clock_now() > 0, "clocks");
  setenv("MOONLET_LAYER", "ä", 1);
  const ProgramResult result =
      run_program({{"/bin/sh", "-c", "echo $MOONLET_LAYER; exit 3"}, environment(), {}});
  expect(result.output == "ä\n" && result.status == 3, "a program, and its environment");
  const NumericLocale locale;
  expect(std::strtod("1.5", nullptr) == 1.5, "numbers with a point");
}

}  // namespace

int main() {
  const std::string folder = new_folder("/tmp/moonlet-layer");
  test_numbers();
  test_files(folder);
  test_streams();
  test_threads();
  test_process();
  std::remove((folder + "/f").c_str());
  expect(std::remove(folder.c_str()) == 0, "no other file is left");
  std::printf("%d wrong\n", failures);
  return failures != 0 ? 1 : 0;
}
