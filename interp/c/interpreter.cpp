// interp/c/interpreter.cpp: interpreters of the C interface: their options, calls into them,
// globals, and what can be asked of them from outside.
#include <algorithm>
#include <cstring>
#include <memory>

#include "interp/c/callbacks.h"
#include "interp/embed/session.h"
#include "tensor/runtime/threads.h"

using namespace moonlet::c;
using moonlet::Function;
using moonlet::Interpreter;
using moonlet::Value;
using moonlet::Values;

namespace {

// The options that a caller of an older or newer header gives: what lies beyond their size is 0.
moonlet_options options_in(const moonlet_options* given, const char* function) {
  moonlet_options out{};
  if (given == nullptr) return out;
  if (given->size < offsetof(moonlet_options, without) || given->size > 4096)
    refuse(function, ": 'options': expected a size of ", sizeof(moonlet_options), ", got ",
           given->size);
  std::memcpy(&out, given, std::min(given->size, sizeof out));
  return out;
}

moonlet::Libraries libraries_without(uint32_t bits, const char* function) {
  constexpr uint32_t kAll = MOONLET_LIB_PACKAGE * 2 - 1;
  if ((bits & ~kAll) != 0)
    refuse(function, ": 'without': expected bits of MOONLET_LIB_..., got ",
           static_cast<int64_t>(bits));
  const auto has = [&](uint32_t bit) { return (bits & bit) == 0; };
  return {.coroutine = has(MOONLET_LIB_COROUTINE),
          .table = has(MOONLET_LIB_TABLE),
          .string = has(MOONLET_LIB_STRING),
          .utf8 = has(MOONLET_LIB_UTF8),
          .math = has(MOONLET_LIB_MATH),
          .io = has(MOONLET_LIB_IO),
          .os = has(MOONLET_LIB_OS),
          .debug = has(MOONLET_LIB_DEBUG),
          .package = has(MOONLET_LIB_PACKAGE)};
}

moonlet::Collector collector_in(const moonlet_options& given, const char* function) {
  if (given.collector_pause < 0)
    refuse(function, ": 'collector_pause': expected 0 or more, got ", given.collector_pause);
  switch (given.collector) {
    case MOONLET_COLLECT_AUTOMATIC: return moonlet::Collector::Automatic;
    case MOONLET_COLLECT_BOUNDED: return moonlet::Collector::Bounded;
    case MOONLET_COLLECT_MANUAL: return moonlet::Collector::Manual;
    default: refuse(function, ": 'collector': expected MOONLET_COLLECT_..., got ", given.collector);
  }
}

void check_limits(const moonlet_options& given, const char* function) {
  for (const int64_t limit :
       {given.lua_bytes, given.tensor_bytes, given.instructions, given.wall_time})
    if (limit < 0) refuse(function, ": 'options': expected limits from 0 on, got ", limit);
}

moonlet::HostFiles files_in(const moonlet_options& given, const char* function) {
  moonlet::HostFiles out;
  if ((given.file_size == nullptr) != (given.read_file == nullptr) ||
      (given.file_size == nullptr && given.write_file != nullptr))
    refuse(function, ": 'options': expected both 'file_size' and 'read_file', or no files");
  if (given.file_size == nullptr) return out;
  void* user = given.user;
  out.size = [ask = given.file_size, user](const std::string& path) -> std::optional<uint64_t> {
    int64_t bytes = -1;
    ask_host([&] { return ask(user, path.c_str(), &bytes); });
    if (bytes < 0) return {};
    return static_cast<uint64_t>(bytes);
  };
  out.read = [read = given.read_file, user](const std::string& path, uint64_t at, char* to,
                                            size_t count) {
    ask_host([&] { return read(user, path.c_str(), at, to, count); });
  };
  if (given.write_file == nullptr) return out;
  out.write = [write = given.write_file, user](const std::string& path,
                                               const std::vector<std::string_view>& parts) {
    std::vector<const char*> starts;
    std::vector<size_t> sizes;
    for (const std::string_view part : parts) {
      starts.push_back(part.data());
      sizes.push_back(part.size());
    }
    ask_host([&] { return write(user, path.c_str(), starts.data(), sizes.data(), sizes.size()); });
  };
  return out;
}

moonlet::InterpreterOptions interpreter_options(const moonlet_options& given,
                                                const char* function) {
  check_limits(given, function);
  if (given.threads < 0 || given.threads > moonlet::kMaxThreads)
    refuse(function, ": 'threads': expected 0 to ", moonlet::kMaxThreads, ", got ", given.threads);
  moonlet::InterpreterOptions out;
  out.libraries = libraries_without(given.without, function);
  out.environment = given.environment != 0;
  out.bytecode = given.bytecode != 0;
  out.lua_bytes = given.lua_bytes;
  out.tensor_bytes = given.tensor_bytes;
  out.instructions = given.instructions;
  out.wall_time = std::chrono::nanoseconds(given.wall_time);
  out.threads = given.threads;
  out.collector = collector_in(given, function);
  if (given.collector_pause != 0)
    out.collector_pause = std::chrono::microseconds(given.collector_pause);
  out.files = files_in(given, function);
  if (given.output != nullptr)
    out.output = [write = given.output, user = given.user](moonlet::Stream stream,
                                                           std::string_view text) {
      write(user, stream == moonlet::Stream::Error ? 1 : 0, text.data(), text.size());
    };
  return out;
}

// Calls `body(Interpreter&)` and gives the Values that it returns.
template <class Body>
moonlet_status give_results(moonlet_interpreter lua, const char* function, moonlet_value* results,
                            size_t capacity, size_t* count, Body&& body) {
  return guarded([&] {
    Shared& shared = interpreter_of(lua, function);
    inside(shared, [&] { give_values(body(*shared.lua), results, capacity, count, shared); });
  });
}

// Calls `body(Interpreter&)` inside.
template <class Body>
moonlet_status run_inside(moonlet_interpreter lua, const char* function, Body&& body) {
  return guarded([&] {
    Shared& shared = interpreter_of(lua, function);
    inside(shared, [&] { body(*shared.lua, shared); });
  });
}

// A function of module moonlet.
Function module_function(Interpreter& lua, const char* name) {
  return lua.call("require", "moonlet").at(0).table().get(name).function();
}

moonlet::detail::Session& session_of(Interpreter& lua) {
  return moonlet::detail::Session::of(lua.state());
}

}  // namespace

moonlet_status moonlet_open(const moonlet_options* options, moonlet_interpreter* lua) {
  const char* function = __func__;
  return guarded([&] {
    not_null(lua, function, "lua");
    auto shared = std::make_unique<Shared>();
    shared->lua.emplace(interpreter_options(options_in(options, function), function));
    shared->handle =
        static_cast<moonlet_interpreter>(new_handle(HandleKind::Interpreter, shared.get()));
    *lua = shared.release()->handle;
  });
}

moonlet_status moonlet_close(moonlet_interpreter lua) {
  const char* function = __func__;
  return guarded([&] {
    Shared& shared = interpreter_of(lua, function);
    const Inside call(shared);
    if (release_handle(lua, HandleKind::Interpreter) == nullptr)
      refuse_handle(function, "lua", lua, HandleKind::Interpreter);
    shared.lua.reset();
    shared.closed_inside = true;
  });
}

moonlet_status moonlet_run(moonlet_interpreter lua, const char* code, size_t size, const char* name,
                           moonlet_value* results, size_t capacity, size_t* count) {
  const char* function = __func__;
  return give_results(lua, function, results, capacity, count, [&](Interpreter& to) {
    if (size > 0) not_null(code, function, "code");
    return to.run_string({size > 0 ? code : "", size}, name != nullptr ? name : "script");
  });
}

moonlet_status moonlet_run_file(moonlet_interpreter lua, const char* path, moonlet_value* results,
                                size_t capacity, size_t* count) {
  const char* function = __func__;
  return give_results(lua, function, results, capacity, count, [&](Interpreter& to) {
    return to.run_file(std::string(text_in(path, function, "path")));
  });
}

moonlet_status moonlet_call(moonlet_interpreter lua, const char* path,
                            const moonlet_value* arguments, size_t argument_count,
                            moonlet_value* results, size_t capacity, size_t* count) {
  const char* function = __func__;
  return give_results(lua, function, results, capacity, count, [&](Interpreter& to) {
    const Arguments given(arguments, argument_count, function);
    return to.call_path(std::string(text_in(path, function, "path")), given.data(), given.size());
  });
}

moonlet_status moonlet_call_within(moonlet_interpreter lua, int64_t nanoseconds, const char* path,
                                   const moonlet_value* arguments, size_t argument_count,
                                   moonlet_value* results, size_t capacity, size_t* count) {
  const char* function = __func__;
  return give_results(lua, function, results, capacity, count, [&](Interpreter& to) {
    const Arguments given(arguments, argument_count, function);
    return to.call_values_within(std::chrono::nanoseconds(nanoseconds),
                                 std::string(text_in(path, function, "path")), given.data(),
                                 given.size());
  });
}

moonlet_status moonlet_get(moonlet_interpreter lua, const char* path, moonlet_value* value) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared& shared) {
    give_value(to.get(std::string(text_in(path, function, "path"))), value, shared);
  });
}

moonlet_status moonlet_set(moonlet_interpreter lua, const char* path, const moonlet_value* value) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared&) {
    to.set(std::string(text_in(path, function, "path")),
           value_in(not_null(value, function, "value"), function, 0));
  });
}

moonlet_status moonlet_load(moonlet_interpreter lua, const char* path, moonlet_value* value) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared& shared) {
    const Value file{text_in(path, function, "path")};
    Values results = module_function(to, "load").call(&file, 1);
    give_value(results.empty() ? Value() : std::move(results[0]), value, shared);
  });
}

moonlet_status moonlet_save(moonlet_interpreter lua, const char* path, const moonlet_value* value) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared&) {
    const Value arguments[] = {Value(text_in(path, function, "path")),
                               value_in(not_null(value, function, "value"), function, 0)};
    module_function(to, "save").call(arguments, 2);
  });
}

moonlet_status moonlet_load_bytes(moonlet_interpreter lua, const void* bytes, size_t size,
                                  moonlet_value* value) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared& shared) {
    const auto* start = static_cast<const char*>(bytes);
    not_null(start, function, "bytes");
    const Value file{std::string_view(start, size)};
    Values results = module_function(to, "load_string").call(&file, 1);
    give_value(results.empty() ? Value() : std::move(results[0]), value, shared);
  });
}

moonlet_status moonlet_save_bytes(moonlet_interpreter lua, const char* format,
                                  const moonlet_value* value, moonlet_value* bytes) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared& shared) {
    const Value arguments[] = {Value(text_in(format, function, "format")),
                               value_in(not_null(value, function, "value"), function, 0)};
    Values results = module_function(to, "save_string").call(arguments, 2);
    give_value(std::move(results.at(0)), bytes, shared);
  });
}

moonlet_status moonlet_require(moonlet_interpreter lua, const char* name, moonlet_value* module) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared& shared) {
    const Value wanted{text_in(name, function, "name")};
    Values results = to.call_path("require", &wanted, 1);
    give_value(results.empty() ? Value() : std::move(results[0]), module, shared);
  });
}

moonlet_status moonlet_interrupt(moonlet_interpreter lua) {
  const char* function = __func__;
  return guarded([&] {
    Shared& shared = interpreter_of(lua, function);
    if (shared.lua) shared.lua->interrupt();
  });
}

moonlet_status moonlet_collect(moonlet_interpreter lua) {
  return run_inside(lua, __func__, [&](Interpreter& to, Shared&) { to.collect(); });
}

moonlet_status moonlet_collect_step(moonlet_interpreter lua, int32_t kilobytes, int32_t* done) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared&) {
    if (kilobytes < 0) refuse(function, ": 'kilobytes': expected 0 or more, got ", kilobytes);
    int ended = 0;
    session_of(to).protect([&](lua_State* L) { ended = lua_gc(L, LUA_GCSTEP, kilobytes); });
    give(done, ended);
  });
}

moonlet_status moonlet_collect_for(moonlet_interpreter lua, int64_t microseconds, int32_t* done) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared&) {
    if (microseconds < 0)
      refuse(function, ": 'microseconds': expected 0 or more, got ", microseconds);
    give(done, to.collect_for(std::chrono::microseconds(microseconds)) ? 1 : 0);
  });
}

moonlet_status moonlet_set_limits(moonlet_interpreter lua, const moonlet_options* limits) {
  const char* function = __func__;
  return run_inside(lua, function, [&](Interpreter& to, Shared&) {
    const moonlet_options given = options_in(&not_null(limits, function, "limits"), function);
    check_limits(given, function);
    to.set_limits({.lua_bytes = given.lua_bytes,
                   .tensor_bytes = given.tensor_bytes,
                   .instructions = given.instructions,
                   .wall_time = std::chrono::nanoseconds(given.wall_time)});
  });
}

moonlet_status moonlet_lua_bytes(moonlet_interpreter lua, int64_t* bytes) {
  return run_inside(lua, __func__, [&](Interpreter& to, Shared&) {
    lua_State* L = to.state();
    give(bytes, int64_t{lua_gc(L, LUA_GCCOUNT)} * 1024 + lua_gc(L, LUA_GCCOUNTB));
  });
}

moonlet_status moonlet_get_threads(moonlet_interpreter lua, int32_t* count) {
  return run_inside(lua, __func__,
                    [&](Interpreter& to, Shared&) { give(count, to.num_threads()); });
}

moonlet_status moonlet_set_threads(moonlet_interpreter lua, int32_t count) {
  return run_inside(lua, __func__, [&](Interpreter& to, Shared&) { to.set_num_threads(count); });
}
