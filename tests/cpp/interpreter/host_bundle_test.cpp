// tests/cpp/interpreter/host_bundle_test.cpp: interpreters of hosts that carry a bundle.
#include "tests/cpp/catch2.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "interp/embed/bundle.h"
#include "tensor/core/error.h"
#include "tensor/io/bundle.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path = (fs::temp_directory_path() / "moonlet-bundle-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string of(const std::string& name) const { return path + "/" + name; }
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A bundle of a script, a module, and a file that is large enough to be mapped.
std::string sample(const Folder& folder) {
  const std::string path = folder.of("sample.bundle");
  Interpreter lua;
  lua.set("path", folder.of("w"));
  lua.run_string("ml = require 'moonlet' ml.save(path, { w = ml.ones(40000) })");
  io::write_bundle(path, "",
                   {{"main.lua", io::BundleKind::Main, "", "return (require 'part.one') + 1"},
                    {"part/one.lua", io::BundleKind::Script, "", "return 41"},
                    {"w.safetensors", io::BundleKind::File, folder.of("w"), ""},
                    {"empty", io::BundleKind::File, "", ""}},
                   "test");
  return path;
}

}  // namespace

TEST_CASE("a host carries a bundle in memory") {
  const Folder folder;
  const std::string bytes = read(sample(folder));
  Interpreter::Options options;
  options.libraries.io = false;
  Interpreter lua(options);
  open_bundle(lua, bytes);
  CHECK(lua.run_file("main.lua")[0].integer() == 42);
  CHECK(
      lua.run_string("return require 'moonlet'.load('w.safetensors').w:sum():item()")[0].number() ==
      40000);
  // A file of the system is none of it.
  write(folder.of("other.lua"), "return 1");
  lua.set("path", folder.of("other.lua"));
  CHECK(message_of([&] {
          lua.run_string("require 'moonlet'.load(path)");
        }).find("no access to files") != std::string::npos);
  CHECK(message_of([&] {
          lua.run_string("require 'moonlet'.save('empty', {})");
        }).find("'empty': it is in the bundle, which is only read") != std::string::npos);
}

TEST_CASE("a host carries a bundle in a file, from which weights are mapped") {
  const Folder folder;
  const std::string path = sample(folder);
  Interpreter lua;
  open_bundle_file(lua, path);
  CHECK(lua.run_file("main.lua")[0].integer() == 42);
  const Value w = lua.run_string("return require 'moonlet'.load('w.safetensors').w")[0];
  CHECK(w.tensor().storage().is_mapped());
  lua.run_string("return require 'moonlet'.load('w.safetensors').w:add_(1)");
  CHECK(lua.run_string("return require 'moonlet'.load('w.safetensors').w[1]:item()")[0].number() ==
        1);
  CHECK(message_of([&] { open_bundle_file(lua, path); }).find("has a bundle") != std::string::npos);
}

// As a section of an executable: pages of a file that nobody can write to.
TEST_CASE("weights of a bundle in pages of a file are mapped") {
  const Folder folder;
  const std::string bytes = read(sample(folder));
  const size_t page = 65536;
  write(folder.of("program"), std::string(page, 'x') + bytes);
  const int file = ::open(folder.of("program").c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  const size_t all = page + bytes.size();
  void* const pages = ::mmap(nullptr, all, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  REQUIRE(pages != MAP_FAILED);
  const auto mapped = [](std::string_view bundle) {
    Interpreter lua;
    open_bundle(lua, bundle);
    const Value w =
        lua.run_string("local w = require 'moonlet'.load('w.safetensors').w w:add_(1) return w")[0];
    CHECK(w.tensor().data<float>()[7] == 2);
    const auto again =
        lua.run_string("return require 'moonlet'.load('w.safetensors').w:sum():item()");
    CHECK(again[0].number() == 40000);
    return w.tensor().storage().is_mapped();
  };
  CHECK(mapped({static_cast<const char*>(pages) + page, bytes.size()}));
  CHECK_FALSE(mapped(bytes));  // memory of the process
  // Another file of that name is not what was mapped.
  fs::remove(folder.of("program"));
  write(folder.of("program"), std::string(all, 'y'));
  CHECK_FALSE(mapped({static_cast<const char*>(pages) + page, bytes.size()}));
  ::munmap(pages, all);
}

TEST_CASE("files of the host are behind those of the bundle") {
  const Folder folder;
  const std::string bytes = read(sample(folder));
  Interpreter::Options options;
  options.files.size = [](const std::string& path) -> std::optional<uint64_t> {
    if (path != "./host.lua" && path != "main.lua") return {};
    return 8;
  };
  options.files.read = [](const std::string&, uint64_t at, char* out, size_t count) {
    std::memcpy(out, &"return 7"[at], count);
  };
  Interpreter lua(options);
  CHECK(lua.run_file("main.lua")[0].integer() == 7);
  open_bundle(lua, bytes);
  CHECK(lua.run_file("main.lua")[0].integer() == 42);
  CHECK(lua.run_string("return require 'host'")[0].integer() == 7);
}

TEST_CASE("compiled scripts of a host's bundle need the option bytecode") {
  const Folder folder;
  std::string code;
  {
    Interpreter lua;
    code = lua.run_string("return string.dump(load 'return 5')")[0].string();
  }
  const std::string path = folder.of("compiled");
  io::write_bundle(path, "", {{"main.lua", io::BundleKind::Main, "", code}}, "test");
  Interpreter::Options options;
  {
    Interpreter lua(options);
    open_bundle_file(lua, path);
    CHECK(message_of([&] { lua.run_file("main.lua"); }).find("attempt to load a binary chunk") !=
          std::string::npos);
  }
  options.bytecode = true;
  Interpreter lua(options);
  open_bundle_file(lua, path);
  CHECK(lua.run_file("main.lua")[0].integer() == 5);
}

TEST_CASE("a bundle of a host that is damaged is refused") {
  const Folder folder;
  const std::string path = sample(folder);
  std::string bytes = read(path);
  const auto message = [&](const std::string& changed) {
    return message_of([&] {
      Interpreter lua;
      open_bundle(lua, changed);
      lua.run_string("return require 'moonlet'.load('w.safetensors')");
    });
  };
  CHECK(message("nothing").find("there is no bundle in it") != std::string::npos);
  CHECK(message(bytes + "x").find("1 bytes behind its end") != std::string::npos);
  CHECK(message(bytes.substr(0, bytes.size() - 1)).find("it is cut off") != std::string::npos);
  const uint64_t at = io::open_bundle(path)->find("w.safetensors")->at;
  bytes[at + 150000] ^= 1;
  CHECK(message(bytes).find("'w.safetensors' in it was changed: bytes " +
                            std::to_string(at + io::kBundleBlock)) != std::string::npos);
}
