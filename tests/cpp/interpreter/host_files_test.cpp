// tests/cpp/interpreter/host_files_test.cpp: interpreters whose files the host keeps.
#include "tests/cpp/catch2.h"

#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "interp/embed/moonlet.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

// The host's files, and an interpreter without `io` that has them alone.
struct Host {
  std::map<std::string, std::string> files;
  bool shortens = false, throws_other = false;

  Interpreter::Options options() {
    Interpreter::Options options;
    options.libraries.io = options.libraries.os = false;
    options.files.size = [this](const std::string& path) -> std::optional<uint64_t> {
      if (path == "secret") throw std::runtime_error("not for you");
      if (throws_other) throw 1;
      const auto found = files.find(path);
      if (found == files.end()) return {};
      return found->second.size();
    };
    options.files.read = [this](const std::string& path, uint64_t at, char* out, size_t count) {
      if (shortens) throw std::runtime_error("it became shorter");
      std::memcpy(out, files.at(path).data() + at, count);
    };
    options.files.write = [this](const std::string& path,
                                 const std::vector<std::string_view>& parts) {
      if (path.find("full") != path.npos) throw std::runtime_error("the store is full");
      std::string bytes;
      for (const std::string_view part : parts) bytes += part;
      files[path] = bytes;
    };
    return options;
  }
};

}  // namespace

TEST_CASE("what scripts save is the host's") {
  Host host;
  Interpreter lua(host.options());
  lua.run_string(R"(
    ml = require 'moonlet'
    for _, ending in ipairs { 'safetensors', 'pt', 'npz' } do
      ml.save('state.' .. ending, { w = ml.tensor { 1.0, 2, 3 } })
      assert(ml.load('state.' .. ending).w:sum():item() == 6)
    end
    ml.save('x.npy', ml.arange(4))
    assert(#ml.load 'x.npy' == 4)
    ml.data.write_csv('t.csv', ml.ones(2, 3))
    assert(ml.data.read_csv('t.csv').shape[2] == 3)
    ml.data.write_png(ml.zeros { 3, 4, 5, dtype = ml.uint8 }, 'p.png')
    assert(ml.data.read_image('p.png').shape[3] == 5))");
  CHECK(host.files.size() == 6);
  CHECK(contains(host.files["p.png"], "PNG"));
  // Another interpreter of the same host finds it.
  Interpreter other(host.options());
  CHECK(other.run_string("return require 'moonlet'.load('x.npy'):sum():item()")[0].number() == 10);
}

TEST_CASE("scripts come from the host's files") {
  Host host;
  host.files = {{"main.lua", "#!/usr/bin/moonlet\nlocal m = require 'mods.one' return m.f(2)"},
                {"./mods/one.lua", "return { f = function(x) return x + (dofile 'two.lua') end }"},
                {"two.lua", "return 40"},
                {"bad.lua", "return ="}};
  Interpreter lua(host.options());
  CHECK(lua.run_file("main.lua")[0].integer() == 42);
  CHECK(contains(message_of<ScriptError>([&] { lua.run_file("bad.lua"); }), "bad.lua:1:"));
  CHECK(lua.run_string("return loadfile 'none.lua'")[0].is_nil());
  CHECK(contains(lua.run_string("return select(2, loadfile 'none.lua')")[0].string(),
                 "No such file"));
  CHECK(contains(message_of<ScriptError>([&] { lua.run_string("require 'mods.none'"); }),
                 "no file './mods/none.lua'"));
  // A file of the system is none of the host's.
  CHECK(contains(message_of<ScriptError>([&] { lua.run_string("dofile '/etc/passwd'"); }),
                 "No such file"));
  CHECK(lua.run_string("return loadfile('two.lua', 't', {})()")[0].integer() == 40);
  CHECK(lua.run_string("return loadfile('two.lua', 'b')")[0].is_nil());
}

TEST_CASE("what the host refuses is an error with its reason") {
  Host host;
  Interpreter lua(host.options());
  lua.run_string("ml = require 'moonlet'");
  const auto message = [&](const char* code) {
    return message_of<ScriptError>([&] { lua.run_string(code); });
  };
  CHECK(contains(message("ml.load 'secret'"), "load: 'secret': not for you"));
  CHECK(contains(message("ml.load 'none.pt'"), "No such file"));
  CHECK(
      contains(message("ml.save('full.npy', ml.ones(2))"), "save: 'full.npy': the store is full"));
  lua.run_string("ml.save('x.npy', ml.ones(2))");
  CHECK(
      contains(message("ml.Storage { file = 'x.npy', dtype = 'uint8' }"), "no file of the system"));
  host.shortens = true;
  CHECK(contains(message("ml.load 'x.npy'"), "it became shorter"));
  host.throws_other = true;
  CHECK(contains(message("ml.load 'x.npy'"), "no std::exception"));
  host.throws_other = host.shortens = false;
  CHECK(lua.run_string("return ml.load('x.npy'):sum():item()")[0].number() == 2);

  Interpreter::Options read_only = host.options();
  read_only.files.write = nullptr;
  Interpreter reader(read_only);
  reader.run_string("ml = require 'moonlet'");
  CHECK(
      contains(message_of<ScriptError>([&] { reader.run_string("ml.save('y.npy', ml.ones(2))"); }),
               "takes no files"));
  Interpreter::Options half;
  half.files.size = read_only.files.size;
  CHECK(contains(message_of<Error>([&] { const Interpreter wrong(half); }),
                 "both 'size' and 'read'"));
}

TEST_CASE("values go to streams of the host and come from them") {
  Interpreter lua;
  const Value state =
      lua.run_string("ml = require 'moonlet' return { w = ml.ones(3), step = ml.tensor(7) }")[0];
  for (const char* format : {"safetensors", "pt", "npz"}) {
    std::stringstream stream;
    stream << "head ";
    lua.save(stream, format, state);
    std::string head;
    stream >> head;
    stream.get();
    lua.set("back", lua.load(stream));
    CHECK(lua.run_string("return back.w:sum():item() + back.step:item()")[0].number() == 10);
  }
  std::stringstream program;
  lua.save(program, "program",
           lua.run_string("return ml.export(function(x) return x * 2 end, { ml.ones(2) })")[0]);
  lua.set("program", lua.load(program));
  CHECK(lua.run_string("return program(ml.ones(2)):sum():item()")[0].number() == 4);

  std::istringstream nonsense("nonsense");
  CHECK(contains(message_of<ScriptError>([&] { lua.load(nonsense); }), "load_string"));
  std::ostringstream full;
  full.setstate(std::ios::badbit);
  CHECK(contains(message_of<Error>([&] { lua.save(full, "npz", state); }), "cannot be written"));
  std::istringstream broken("x");
  broken.setstate(std::ios::badbit);
  CHECK(contains(message_of<Error>([&] { lua.load(broken); }), "cannot be read"));
}

TEST_CASE("strings stand for files without any") {
  Interpreter::Options options;
  options.libraries.io = false;
  Interpreter lua(options);
  CHECK(lua.run_string(
               "local ml = require 'moonlet' "
               "return ml.load_string(ml.save_string('pt', {x = ml.ones(3)})).x:sum():item()")[0]
            .number() == 3);
  CHECK(contains(
      message_of<ScriptError>([&] { lua.run_string("require 'moonlet'.load '/etc/passwd'"); }),
      "no access to files"));
}
