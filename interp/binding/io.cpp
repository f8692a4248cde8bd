// interp/binding/io.cpp: what tensor/io/ reads and writes, for Lua: tensors as strings of bytes,
// and module moonlet.io, files of tensors.
#include "interp/binding/io.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "interp/binding/arg_reader.h"
#include "interp/binding/csv.h"
#include "interp/binding/file_parts.h"
#include "interp/state/entry.h"
#include "tensor/io/bytes.h"
#include "tensor/io/idx.h"
#include "tensor/io/picture.h"
#include "tensor/io/picture_frames.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/sound.h"

namespace moonlet::binding {
namespace {

// --- bytes ---------------------------------------------------------------------------------------

Dims shape_argument(lua_State* L, int index, const char* op) {
  Dims out;
  if (lua_type(L, index) != LUA_TTABLE)
    fail(op, ": the shape must be a table of sizes, got ", type_name(L, index));
  const int64_t count = luaL_len(L, index);
  for (int64_t i = 1; i <= count; ++i) {
    lua_geti(L, index, i);
    const auto size = whole_number(L, -1);
    if (!size || *size < 0) fail(op, ": size ", i, " of the shape is no size");
    out.push_back(*size);
    lua_pop(L, 1);
  }
  return out;
}

// from_bytes(bytes, dtype, shape?) -> tensor; without a shape, one dimension.
int l_from_bytes(lua_State* L) {
  constexpr const char* kOp = "from_bytes";
  if (lua_type(L, 1) != LUA_TSTRING) fail(kOp, ": a string is expected, got ", type_name(L, 1));
  if (lua_type(L, 2) != LUA_TSTRING) fail(kOp, ": a dtype is expected, got ", type_name(L, 2));
  size_t size = 0;
  const char* bytes = lua_tolstring(L, 1, &size);
  const DType dtype = dtype_from_name(lua_tostring(L, 2));
  Dims shape{static_cast<int64_t>(size / size_of(dtype))};
  if (!lua_isnoneornil(L, 3)) shape = shape_argument(L, 3, kOp);
  const int64_t count = numel_of(shape, kOp);
  if (static_cast<uint64_t>(count) * size_of(dtype) != size)
    fail(kOp, ": ", size, " bytes do not fill shape ", shape, " of ", name(dtype));
  Tensor out = empty_plain(shape, {dtype, {}}, kOp);
  if (size > 0) std::memcpy(out.raw(), bytes, size);
  io::check_bool_bytes(out, kOp);
  return push_result(L, out);
}

// to_bytes(x) -> string, little-endian, in row order.
int l_to_bytes(lua_State* L) {
  const Tensor rows = io::host_rows(check_tensor(L, 1, "to_bytes"), "to_bytes");
  return push_string(L, io::bytes_of(rows));
}

// The option max_bytes of a reader, where there is one; 0 stands for the usual bound.
int64_t max_bytes_argument(lua_State* L, int index) { return luaL_optinteger(L, index, 0); }

// --- safetensors ---------------------------------------------------------------------------------

void push_texts(lua_State* L, const std::map<std::string, std::string>& texts) {
  lua_createtable(L, 0, static_cast<int>(texts.size()));
  for (const auto& [name, value] : texts) {
    push_string(L, name);
    push_string(L, value);
    lua_rawset(L, -3);
  }
}

// read_safetensors(path, mmap, max_bytes) -> { name = tensor }, { name = metadata string },
// { name = type } of those that are left out
int l_read_safetensors(lua_State* L) {
  const std::string path = path_argument(L, 1, "load");
  const io::LoadOptions options{.mmap = lua_toboolean(L, 2) != 0,
                                .max_bytes = max_bytes_argument(L, 3)};
  io::Safetensors file = io::load_safetensors(path, options, "load");
  lua_createtable(L, 0, static_cast<int>(file.tensors.size()));
  for (auto& [name, tensor] : file.tensors) {
    push_string(L, name);
    push_result(L, std::move(tensor));
    lua_rawset(L, -3);
  }
  push_texts(L, file.metadata);
  push_texts(L, file.left_out);
  return 3;
}

std::string checked_text(lua_State* L, int index, const char* what) {
  size_t size = 0;
  if (lua_type(L, index) != LUA_TSTRING) fail("save: ", what, " must be a string");
  const char* bytes = lua_tolstring(L, index, &size);
  return {bytes, size};
}

// write_safetensors(path, { name = tensor }, { name = metadata string })
int l_write_safetensors(lua_State* L) {
  const std::string path = path_argument(L, 1, "save");
  io::NamedTensors tensors;
  lua_pushnil(L);
  while (lua_next(L, 2) != 0) {
    tensors.emplace(checked_text(L, -2, "a tensor's name"), check_tensor(L, -1, "save"));
    lua_pop(L, 1);
  }
  io::Metadata metadata;
  lua_pushnil(L);
  while (lua_next(L, 3) != 0) {
    metadata.emplace(checked_text(L, -2, "metadata's name"), checked_text(L, -1, "metadata"));
    lua_pop(L, 1);
  }
  io::save_safetensors(path, tensors, metadata, "save");
  return 0;
}

// --- arrays -----------------------------------------------------------------------------------

// read_idx(path, max_bytes) -> tensor
int l_read_idx(lua_State* L) {
  constexpr const char* kOp = "read_idx";
  return push_result(L, io::read_idx(path_argument(L, 1, kOp), kOp, max_bytes_argument(L, 2)));
}

// --- pictures ------------------------------------------------------------------------------------

// read_picture(path, channels, all frames, max_bytes) -> a tensor of (height, width, channels), and
// of (frames, height, width, channels) with all of them; Exif's orientation. Channels 0 are those
// of the file.
int l_read_picture(lua_State* L) {
  constexpr const char* kOp = "read_image";
  const std::string path = path_argument(L, 1, kOp);
  io::PictureOptions options{.mode = static_cast<io::PictureMode>(luaL_checkinteger(L, 2))};
  options.all_frames = lua_toboolean(L, 3) != 0;
  options.max_bytes = max_bytes_argument(L, 4);
  const io::Picture picture = io::read_picture(path, options, kOp);
  push_result(L, picture.pixels);
  lua_pushinteger(L, picture.orientation);
  return 2;
}

// without_webp() -> nil, or why WebP pictures cannot be read
int l_without_webp(lua_State* L) {
  const std::string why = io::webp_unavailable();
  if (why.empty()) return 0;
  return push_string(L, why);
}

// encode_png(tensor, level) -> the bytes of a file; the tensor is (height, width, channels)
int l_encode_png(lua_State* L) {
  const auto level = static_cast<int>(luaL_checkinteger(L, 2));
  return push_string(L, io::encode_png(check_tensor(L, 1, "write_png"), level, "write_png"));
}

// encode_jpeg(tensor, quality) -> the bytes of a file
int l_encode_jpeg(lua_State* L) {
  const auto quality = static_cast<int>(luaL_checkinteger(L, 2));
  return push_string(L, io::encode_jpeg(check_tensor(L, 1, "write_jpeg"), quality, "write_jpeg"));
}

// --- sound ---------------------------------------------------------------------------------------

// read_sound(path, offset, count, max_bytes) -> a tensor of (samples, channels), the rate
int l_read_sound(lua_State* L) {
  constexpr const char* kOp = "audio.load";
  const std::string path = path_argument(L, 1, kOp);
  const io::SoundPart part{luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)};
  const io::Sound sound = io::read_sound(path, part, kOp, max_bytes_argument(L, 4));
  push_result(L, sound.samples);
  lua_pushinteger(L, sound.rate);
  return 2;
}

// without_sound() -> nil, or why only WAV files can be read
int l_without_sound(lua_State* L) {
  const std::string why = io::sound_unavailable();
  if (why.empty()) return 0;
  return push_string(L, why);
}

// decode_adpcm(bytes, channels, bytes of a block, coefficients or nil) -> a tensor of (samples,
// channels). Microsoft's have coefficients.
int l_decode_adpcm(lua_State* L) {
  size_t size = 0;
  const char* data = luaL_checklstring(L, 1, &size);
  io::AdpcmFormat format;
  format.channels = luaL_checkinteger(L, 2);
  format.block_bytes = luaL_checkinteger(L, 3);
  format.microsoft = !lua_isnoneornil(L, 4);
  check(format.channels > 0 && format.block_bytes > 0, "decode_adpcm: the format is damaged");
  size_t coefficients = 0;
  const char* pairs = format.microsoft ? luaL_checklstring(L, 4, &coefficients) : "";
  format.coefficients = {pairs, coefficients};
  return push_result(L, io::decode_adpcm({data, size}, format, "read_wav"));
}

int open_io(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"read_idx", op_guard<l_read_idx>},
                                        {"read_picture", op_guard<l_read_picture>},
                                        {"without_webp", op_guard<l_without_webp>},
                                        {"read_sound", op_guard<l_read_sound>},
                                        {"without_sound", op_guard<l_without_sound>},
                                        {"decode_adpcm", op_guard<l_decode_adpcm>},
                                        {"encode_png", op_guard<l_encode_png>},
                                        {"encode_jpeg", op_guard<l_encode_jpeg>},
                                        {"read_safetensors", op_guard<l_read_safetensors>},
                                        {"write_safetensors", op_guard<l_write_safetensors>},
                                        {nullptr, nullptr}};
  // The tensor type has to exist before the first tensor is made here.
  luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
  lua_pop(L, 1);
  lua_newtable(L);
  set_functions(L, -1, kFunctions);
  register_csv(L);
  register_file_parts(L);
  return 1;
}

}  // namespace

void register_io(lua_State* L) {
  static const luaL_Reg kModule[] = {{"from_bytes", op_guard<l_from_bytes>}, {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"to_bytes", op_guard<l_to_bytes>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
}

std::string path_argument(lua_State* L, int index, const char* op) {
  if (lua_type(L, index) != LUA_TSTRING)
    fail(op, ": a path is expected, got ", type_name(L, index));
  size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  std::string path(text, size);
  if (path.find('\0') != path.npos) fail(op, ": a path holds no zero byte");
  check_files_allowed(op, path);
  return path;
}

}  // namespace moonlet::binding

int luaopen_moonlet_io(lua_State* L) { return moonlet::guard<moonlet::binding::open_io>(L); }
