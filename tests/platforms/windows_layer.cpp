// tests/platforms/windows_layer.cpp: what the platform layer does on Windows, without the rest; run
// by windows.sh where Wine is. Prints what is wrong, and ends with 1 when anything is.
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/platform/clock.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/core/platform/memory.h"
#include "tensor/core/platform/numeric_locale.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/static_mutex.h"
#include "tensor/core/platform/threads.h"
#include "tests/platforms/layer_checks.h"

namespace {

using namespace moonlet;
using namespace moonlet::platform;

std::string contents(const std::string& path) {
  const int file = open_to_read(path);
  if (file < 0) return "cannot be opened";
  char bytes[64];
  const int64_t count = read_at(file, bytes, sizeof bytes, 0);
  close_file(file);
  return {bytes, static_cast<size_t>(count < 0 ? 0 : count)};
}

void test_writing(const std::string& folder) {
  const std::string path = folder + "\\z\xC3\xA4hler \xE2\x82\xAC.txt";
  expect(write_file(path, {"a\r\n", "b\n\x1a", "c"}) == 0, "a file is written by a name in UTF-8");
  expect(contents(path) ==
             "a\r\nb\n\x1a"
             "c",
         "bytes are written and read as they are");
  expect(write_file(path, {"second"}) == 0 && contents(path) == "second", "a file is replaced");
  std::string other = path;
  other[folder.size()] = '/';
  expect(is_same_file(path, other) && !is_same_file(path, folder) && !is_same_file(path, "none"),
         "a file is the same by another name");
  const std::vector<std::string> names = names_in(folder);
  expect(names.size() == 1 && path.ends_with("\\" + names[0]), "no other file is left");
  expect(write_file(folder, {"x"}) == EISDIR, "a folder is not written to");
  expect(write_file(folder + "/none/x", {"x"}) == ENOENT, "a folder that is missing is told");
  errno = 0;
  expect(open_to_read(folder) < 0 && errno == EISDIR, "a folder is not read");
  errno = 0;
  expect(open_to_read(folder + "/none") < 0 && errno == ENOENT, "a file that is missing is told");
  FileInfo info;
  expect(describe(path, info) == 0 && info.kind == FileKind::kRegular && info.size == 6,
         "describe");
  expect(describe(folder, info) == 0 && info.kind == FileKind::kFolder, "describe a folder");
  expect(exists(path) && is_readable(path) && !exists(path + "x"), "exists");
  const int copy = open_copy("in memory");
  char bytes[16] = {};
  expect(copy >= 0 && read_at(copy, bytes, 16, 3) == 6 && !std::strcmp(bytes, "memory"), "a copy");
  close_file(copy);
  expect(last_separator("a/b\\c") == 3, "both separators");
  expect(user_rocks().ends_with("\\luarocks\\"), "the folder of LuaRocks");
}

void test_mapping(const std::string& path) {
  expect(write_file(path, {"0123456789"}) == 0, "write what is mapped");
  {
    const FileToMap file(path, false, false);
    char* data = static_cast<char*>(file.map(file.size()));
    data[0] = 'x';
    expect(std::string_view(data, 3) == "x12", "private pages take writes");
    unmap(data, 10);
  }
  expect(contents(path) == "0123456789", "private pages leave the file");
  {
    const FileToMap file(path, true, true);
    file.grow_to(12);
    char* data = static_cast<char*>(file.map(12));
    data[11] = 'y';
    unmap(data, 12);
  }
  const std::string now = contents(path);
  expect(now.size() == 12 && now[11] == 'y' && now[0] == '0', "shared pages are the file's");
  try {
    const FileToMap none(path + ".none", false, false);
    expect(false, "a file that is missing cannot be mapped");
  } catch (const Error& e) {
    expect(std::string_view(e.what()).find(".none") != std::string_view::npos, "errors name it");
  }
}

void test_folders(const std::string& folder) {
  const std::string deep = folder +
                           "/\xC3\xBC"
                           "ber/zwei\\drei";
  expect(make_folders(deep).empty() && make_folders(deep).empty(), "folders are made, once");
  FileInfo info;
  expect(describe(deep, info) == 0 && info.kind == FileKind::kFolder, "they are there");
  expect(write_file(folder + "/file", {"x"}) == 0, "a file among folders");
  expect(!make_folders(folder + "/file/under").empty(), "no folder is made below a file");
  expect(names_in(folder) == std::vector<std::string>{"file",
                                                      "\xC3\xBC"
                                                      "ber/"},
         "names_in");
  expect(make_private(folder + "/own") && contents(folder + "/own").empty(), "make_private");
}

std::atomic<bool> seen{false}, ends{false};
std::atomic<int> id{0};

void test_threads() {
  std::thread other([] {
    id = thread_id();
    while (!ends) {
    }
  });
  while (id == 0) std::this_thread::yield();
  wake_thread(
      id, nullptr, [](void* flag) noexcept { *static_cast<std::atomic<bool>*>(flag) = true; },
      &seen);
  expect(seen, "another thread is halted, and goes on");
  ends = true;
  other.join();
  const StackRange stack = stack_of_this_thread();
  const auto here = reinterpret_cast<uintptr_t>(&stack);
  expect(here > stack.lowest && here - stack.lowest < stack.size, "the stack's bounds");
  expect(default_stack_size() >= (size_t{1} << 20), "the size of stacks");
  static constinit StaticMutex mutex;
  int64_t sum = 0;
  const auto add = [&] {
    for (int i = 0; i < 10000; ++i) {
      const std::lock_guard lock(mutex);
      ++sum;
    }
  };
  std::thread adder(add);
  add();
  adder.join();
  expect(sum == 20000, "a mutex that is there before any code runs");
}

void test_rest() {
  std::string reason;
  expect(open_library("no such library.dll", Binding::kNow, reason) == nullptr, "no library");
  expect(reason.find("no such library.dll: ") == 0, "why a library cannot be opened");
  void* kernel = open_library("kernel32.dll", Binding::kNow, reason);
  expect(kernel != nullptr && find_symbol(kernel, "GetTickCount") != nullptr, "a library");
  expect(find_symbol(kernel, "moonlet") == nullptr, "a function that it has not");
  const LoadedObject own = object_of(reinterpret_cast<const void*>(&test_rest));
  expect(own.base != nullptr && std::strstr(own.file, ".exe") != nullptr, "the program's file");
  expect(machine_memory() > (int64_t{1} << 28), "the machine's memory");
  char* pages = static_cast<char*>(allocate_pages(size_t{4} << 20, 0));
  expect(pages != nullptr && pages[0] == 0 && pages[(4 << 20) - 1] == 0, "pages of zeros");
  free_pages(pages, size_t{4} << 20);
  expect(!can_allocate_pages(size_t{1} << 50), "more than there is");
  void* aligned = allocate_aligned(64, 128);
  expect(reinterpret_cast<uintptr_t>(aligned) % 64 == 0, "aligned memory");
  free_aligned(aligned);
  const int64_t before = clock_now();
  expect(clock_now() >= before && coarse_clock_now() >= before, "clocks");
  expect(set_variable("MOONLET_LAYER", "1") && std::string_view(variable("MOONLET_LAYER")) == "1" &&
             set_variable("MOONLET_LAYER", nullptr) && variable("MOONLET_LAYER") == nullptr,
         "variables");
  char text[16];
  const NumericLocale numbers;
  std::snprintf(text, sizeof text, "%.1f", 1.5);
  expect(std::string_view(text) == "1.5", "numbers of the locale C");
  expect(std::string_view(static_cast<char*>(memmem("abababac", 8, "ababac", 6))) == "ababac" &&
             memmem("abc", 3, "abd", 3) == nullptr,
         "memmem");
  int sign = 0;
  lgamma_r(-0.5, &sign);
  expect(sign == -1, "the sign of gamma(-0.5)");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<char*> given = arguments(argc, argv);
  const std::string folder = given.size() > 1 ? given[1] : "";
  expect(folder.ends_with("\xC3\xA9"), "arguments are UTF-8");
  expect(make_folders(folder + "/1").empty() && make_folders(folder + "/2").empty(), "folders");
  test_writing(folder + "/1");
  test_mapping(folder + "/mapped");
  test_folders(folder + "/2");
  test_threads();
  test_rest();
  std::printf("%d wrong\n", failures);
  return failures != 0 ? 1 : 0;
}
