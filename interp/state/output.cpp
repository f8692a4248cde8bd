// interp/state/output.cpp: print, and streams of the C library that hand on what is written to
// them.
#include "interp/state/output.h"

#include <cerrno>
#include <memory>
#include <new>
#include <string>

#include "interp/state/guard.h"
#include "interp/state/state.h"

namespace moonlet {
namespace {

// One piece for each call, so that lines of several threads do not mix.
int l_print(lua_State* L) {
  std::string text;
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    size_t size = 0;
    const char* piece = luaL_tolstring(L, i, &size);
    if (i > 1) text += '\t';
    text.append(piece, size);
    lua_pop(L, 1);
  }
  text += '\n';
  StateData& data = state_data(L);
  try {
    data.options.output(Stream::Output, text);
    return 0;
  } catch (const std::exception& e) {
    push_exception(L, e);
    if (const char* message = lua_tostring(L, -1))
      data.carried.add(message, std::current_exception());
  }
  return lua_error(L);
}

int refuse_close(lua_State* L) {
  auto* stream = static_cast<luaL_Stream*>(luaL_checkudata(L, 1, LUA_FILEHANDLE));
  stream->closef = refuse_close;  // it stays open
  luaL_pushfail(L);
  lua_pushliteral(L, "cannot close standard file");
  return 2;
}

// Makes the stream io.NAME; the io library is on top of the stack.
void replace_stream(lua_State* L, const char* name, Stream which) {
  StateData& data = state_data(L);
  auto* stream = static_cast<luaL_Stream*>(lua_newuserdatauv(L, sizeof(luaL_Stream), 0));
  stream->f = nullptr;
  stream->closef = nullptr;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  stream->f = data.streams.open(data, which);
  stream->closef = refuse_close;
  if (which == Stream::Output) {
    lua_getfield(L, -2, "output");
    lua_pushvalue(L, -2);
    lua_call(L, 1, 0);
  }
  lua_setfield(L, -2, name);
}

}  // namespace

void write_output(const StateData& data, Stream stream, std::string_view text) noexcept {
  if (data.options.output) {
    try {
      data.options.output(stream, text);
    } catch (const std::exception&) {
      // A message that nobody takes.
    }
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stream == Stream::Output ? stdout : stderr);
}

ssize_t RedirectedStreams::write(void* target, const char* text, size_t size) {
  const auto& to = *static_cast<const Target*>(target);
  try {
    to.data.options.output(to.stream, {text, size});
    return static_cast<ssize_t>(size);
  } catch (const std::exception&) {
    errno = EIO;  // what io.write returns then
    return 0;
  }
}

std::FILE* RedirectedStreams::open(const StateData& data, Stream stream) {
  auto target = std::make_unique<Target>(Target{data, stream, nullptr});
  targets_.reserve(targets_.size() + 1);
  target->file = fopencookie(target.get(), "w", {nullptr, write, nullptr, nullptr});
  if (target->file == nullptr) throw std::bad_alloc();
  std::setvbuf(target->file, nullptr, _IONBF, 0);
  targets_.push_back(target.release());
  return targets_.back()->file;
}

RedirectedStreams::~RedirectedStreams() {
  for (Target* target : targets_) {
    std::fclose(target->file);
    delete target;
  }
}

void redirect_output(lua_State* L) {
  if (!state_data(L).options.output) return;
  lua_pushcfunction(L, guard<l_print>);
  lua_setglobal(L, "print");
  lua_getglobal(L, LUA_IOLIBNAME);
  replace_stream(L, "stdout", Stream::Output);
  replace_stream(L, "stderr", Stream::Error);
  lua_pop(L, 1);
}

}  // namespace moonlet
