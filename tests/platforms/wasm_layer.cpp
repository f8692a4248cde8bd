// tests/platforms/wasm_layer.cpp: what the platform layer does in WebAssembly, without the rest;
// run by wasm.sh under node. Prints what is wrong, and ends with 1 when anything is.
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/platform/charconv.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/core/platform/memory.h"
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

template <class T>
std::string shortest(T value) {
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string reading(std::string_view text) {
  double value = 7;
  const auto [end, error] = platform::from_chars(text.data(), text.data() + text.size(), value);
  const std::string rest(end, text.data() + text.size());
  if (error == std::errc::invalid_argument) return "none, " + rest;
  if (error == std::errc::result_out_of_range) return "out of range, " + rest;
  return shortest(value) + ", " + rest;
}

void test_numbers() {
  expect(shortest(0.1) == "0.1" && shortest(0.1f) == "0.1", "the shortest text");
  expect(shortest(1.0 / 3) == "0.3333333333333333" && shortest(1.0f / 3) == "0.33333334",
         "all digits it takes");
  expect(shortest(-5e-324) == "-5e-324", "the smallest number");
  expect(shortest(1e22) == "1e+22" && shortest(123456.0) == "123456" && shortest(-0.0) == "-0" &&
             shortest(1e-7) == "1e-07" && shortest(0.001) == "0.001",
         "an exponent where that is shorter");
  char text[16];
  const auto fixed = std::to_chars(text, text + 16, 2.5, std::chars_format::fixed, 3);
  expect(std::string(text, fixed.ptr) == "2.500", "digits behind the point");
  expect(std::to_chars(text, text + 3, 2.5, std::chars_format::fixed, 3).ec ==
             std::errc::value_too_large,
         "a text that does not fit");
  expect(reading("1.5e3x") == "1500, x", "a number with what follows");
  expect(reading("-0.25") == "-0.25, ", "a sign");
  expect(reading("+1") == "none, +1" && reading(" 1") == "none,  1", "no others");
  expect(reading("0x10") == "0, x10", "no hexadecimal digits");
  expect(reading("1e999") == "out of range, ", "too large");
  expect(reading("1e-999") == "out of range, " && reading("0e5") == "0, ", "too small");
  expect(reading("inf") == "inf, " && reading("none") == "none, none", "names");
  expect(moonlet::text(size_t{3}, " ", 4L, " ", uint64_t{5}, " ", int8_t{-1}) == "3 4 5 -1",
         "in messages");
}

std::string contents(const std::string& path) {
  const int file = open_to_read(path);
  if (file < 0) return "cannot be opened";
  char bytes[64];
  const int64_t count = read_at(file, bytes, sizeof bytes, 0);
  close_file(file);
  return {bytes, static_cast<size_t>(count < 0 ? 0 : count)};
}

void test_files() {
  expect(make_folders("/tmp/a/b").empty(), "folders are made");
  expect(write_file("/tmp/a/f", {"one\n", "two"}) == 0 && contents("/tmp/a/f") == "one\ntwo",
         "a file is written");
  expect(write_file("/tmp/a/f", {"second"}) == 0 && contents("/tmp/a/f") == "second",
         "a file is replaced");
  expect(names_in("/tmp/a").size() == 2, "no other file is left");
  expect(write_file("/tmp/a", {"x"}) == EISDIR && write_file("/tmp/none/x", {"x"}) == ENOENT,
         "what cannot be written is told");
  {
    const FileToMap file("/tmp/a/f", false, false);
    char* data = static_cast<char*>(file.map(file.size()));
    expect(std::string_view(data, 6) == "second", "a file is mapped");
    data[0] = 'x';
    unmap(data, 6);
  }
  expect(contents("/tmp/a/f") == "second", "private pages leave the file");
  {
    const FileToMap file("/tmp/a/shared", true, true);
    file.grow_to(4);
    char* data = static_cast<char*>(file.map(4));
    data[3] = 'y';
    unmap(data, 4);
  }
  expect(contents("/tmp/a/shared")[3] == 'y', "shared pages are the file's");
  std::string written;
  std::FILE* stream = open_stream(
      [](void* to, const char* text, size_t size) {
        static_cast<std::string*>(to)->append(text, size);
        return true;
      },
      &written);
  expect(kHasFunctionStreams && stream != nullptr, "streams to functions");
  std::fputs("text", stream);
  std::fclose(stream);
  expect(written == "text", "what is written to them");
}

void test_rest() {
  char* pages = static_cast<char*>(allocate_pages(size_t{4} << 20, 65536));
  expect(pages != nullptr && pages[0] == 0 && pages[(4 << 20) - 1] == 0, "pages of zeros");
  free_pages(pages, size_t{4} << 20);
  pages = static_cast<char*>(allocate_pages(100'001, 65536));
  expect(pages != nullptr && pages[100'000] == 0 && reinterpret_cast<uintptr_t>(pages) % 65536 == 0,
         "a size that is no multiple of the alignment");
  free_pages(pages, 100'001);
  expect(!can_allocate_pages(size_t{3} << 30), "more than there is");
  expect(machine_memory() >= (int64_t{1} << 28), "the memory that there may be");
  const StackRange stack = stack_of_this_thread();
  const auto here = reinterpret_cast<uintptr_t>(&stack);
  expect(here > stack.lowest && here - stack.lowest < stack.size, "the stack's bounds");
  std::string reason;
  expect(open_library("x.so", Binding::kNow, reason) == nullptr &&
             reason == "x.so: WebAssembly opens no shared libraries",
         "there are no libraries");
  expect(resolved_path(".").starts_with('/') && resolved_path("x") == resolved_path(".") + "/x",
         "absolute paths");
  try {
    run_program({{"/bin/true"}, {}, {}});
    expect(false, "there are no programs");
  } catch (const Error& e) {
    expect(std::string_view(e.what()).find("WebAssembly runs no programs") == 0,
           "and that is said");
  }
  try {
    std::thread([] {}).join();
    expect(false, "there are no threads");
  } catch (const std::system_error&) {
  }
  const int64_t before = clock_now();
  expect(clock_now() >= before, "a clock");
  expect(set_variable("MOONLET_LAYER", "1") && std::string_view(variable("MOONLET_LAYER")) == "1",
         "variables");
}

}  // namespace

int main() {
  test_numbers();
  test_files();
  test_rest();
  std::printf("%d wrong\n", failures);
  return failures != 0 ? 1 : 0;
}
