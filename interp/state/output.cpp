// interp/state/output.cpp: print, and streams of the C library that hand on what is written to
// them.
#include "interp/state/output.h"

#include <cerrno>
#include <memory>
#include <new>
#include <string>

#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/platform/streams.h"

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

// hand_on(name, ...): writes as io.write does. -> true, or nil and why not.
int l_hand_on(lua_State* L) {
  const bool is_error = std::string_view(luaL_checkstring(L, 1)) == "stderr";
  std::string text;
  for (int i = 2, count = lua_gettop(L); i <= count; ++i) {
    char number[64];
    size_t size = 0;
    const char* piece = number;
    if (lua_type(L, i) != LUA_TNUMBER)
      piece = luaL_checklstring(L, i, &size);
    else if (lua_isinteger(L, i))
      size = static_cast<size_t>(lua_integer2str(number, sizeof number, lua_tointeger(L, i)));
    else
      size = static_cast<size_t>(lua_number2str(number, sizeof number, lua_tonumber(L, i)));
    text.append(piece, size);
  }
  try {
    state_data(L).options.output(is_error ? Stream::Error : Stream::Output, text);
    lua_pushboolean(L, 1);
    return 1;
  } catch (const std::exception&) {
    errno = EIO;
    return luaL_fileresult(L, 0, nullptr);
  }
}

// Stands for Lua's files where the C library has no streams that go to a function.
constexpr char kObjects[] = R"lua(
local io, hand_on = ...
local write, output = io.write, io.output
local function stream(name)
  local self = setmetatable({}, { __name = "FILE*", __tostring = function() return "file (" .. name .. ")" end
})
  function self:write(...)
    local good, message, code = hand_on(name, ...)
    if good then return self end
    return good, message, code
  end
  function self:flush() return self end
  function self:setvbuf() return true end
  function self:seek() return nil, "it has no positions" end
  function self:close() return nil, "cannot close standard file" end
  return self
end
local out = stream "stdout"
local current = out
io.stdout, io.stderr = out, stream "stderr"
function io.write(...)
  if current then return current:write(...) end
  return write(...)
end
function io.output(...)
  if ... == nil then return current or output() end
  current = (...) == out and out or nil
  return current or output(...)
end
)lua";

// The io library is on top of the stack.
void replace_by_objects(lua_State* L) {
  if (luaL_loadbufferx(L, kObjects, sizeof kObjects - 1, "=io", "t") != LUA_OK) lua_error(L);
  lua_pushvalue(L, -2);
  lua_pushcfunction(L, guard<l_hand_on>);
  lua_call(L, 2, 0);
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
    return 0;
  }
}

std::FILE* RedirectedStreams::open(const StateData& data, Stream stream) {
  auto target = std::make_unique<Target>(Target{data, stream, nullptr});
  targets_.reserve(targets_.size() + 1);
  target->file = platform::open_stream(
      [](void* to, const char* text, size_t size) {
        return write(to, text, size) == static_cast<ssize_t>(size);
      },
      target.get());
  if (target->file == nullptr) throw std::bad_alloc();
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
  if (platform::kHasFunctionStreams) {
    replace_stream(L, "stdout", Stream::Output);
    replace_stream(L, "stderr", Stream::Error);
  } else {
    replace_by_objects(L);
  }
  lua_pop(L, 1);
}

}  // namespace moonlet
