// interp/binding/device/raw_kernels.cpp: what stdlib/cuda/kernels.lua is made of: kernels that
// scripts write, and the arguments of their launches.
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interp/binding/arg_reader.h"
#include "interp/binding/device/device_module.h"
#include "tensor/core/dispatch.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/raw_kernels.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "moonlet.raw_kernel";

enum class Kind : uint8_t { Pointer, Signed, Unsigned, Floating, Bool };

struct Parameter {
  std::string name, type;  // "x", "const float*"
  Kind kind = Kind::Pointer;
  int bytes = 8;        // of a number
  bool written = true;  // of a pointer
  bool typed = false;   // of a pointer: its elements have that dtype
  DType dtype = DType::Float32;
};

struct RawCell {
  RawSource source;
  std::vector<Parameter> parameters;
  std::vector<std::shared_ptr<const RawKernel>> compiled;  // by the number of the device
};

int l_collect(lua_State* L) {
  auto* const cell = static_cast<RawCell*>(luaL_checkudata(L, 1, kName));
  std::destroy_at(cell);
  new (cell) RawCell;
  return 0;
}

RawCell& cell_at(lua_State* L) {
  auto* const cell = static_cast<RawCell*>(luaL_testudata(L, 1, kName));
  check(cell != nullptr, "kernel: a kernel is expected, got ", type_name(L, 1));
  check(!cell->source.name.empty(), "kernel: this kernel is gone");
  return *cell;
}

std::string string_field(lua_State* L, const char* key) {
  lua_getfield(L, -1, key);
  size_t length = 0;
  const char* const value = lua_tolstring(L, -1, &length);
  std::string out(value ? value : "", value ? length : 0);
  lua_pop(L, 1);
  return out;
}

Kind kind_from(std::string_view name) {
  if (name == "int") return Kind::Signed;
  if (name == "uint") return Kind::Unsigned;
  if (name == "float") return Kind::Floating;
  if (name == "bool") return Kind::Bool;
  return Kind::Pointer;
}

// The table on top of the stack.
Parameter read_parameter(lua_State* L) {
  Parameter out{string_field(L, "name"), string_field(L, "type")};
  out.kind = kind_from(string_field(L, "kind"));
  lua_getfield(L, -1, "bytes");
  out.bytes = static_cast<int>(lua_tointeger(L, -1));
  lua_getfield(L, -2, "const");
  out.written = lua_toboolean(L, -1) == 0;
  lua_pop(L, 2);
  const std::string dtype = string_field(L, "dtype");
  out.typed = !dtype.empty();
  if (out.typed) out.dtype = dtype_from_name(dtype);
  return out;
}

// A kernel is native code, which reads and writes what memory it likes: only scripts that may load
// such code have it.
void check_native_code(lua_State* L) {
  const Libraries& given = state_data(L).options.libraries;
  const char* missing = !given.os ? "os" : !given.io ? "io" : !given.package ? "package" : nullptr;
  check(missing == nullptr, name(module_type(L)),
        ".kernel: this interpreter may not compile and load native code, as it has no library ",
        missing != nullptr ? missing : "");
}

// source, name, options, parameters -> kernel
int l_new(lua_State* L) {
  check_native_code(L);
  size_t length = 0;
  const char* const text = luaL_checklstring(L, 1, &length);
  const char* const called = luaL_checkstring(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_settop(L, 4);
  auto* const cell = new (lua_newuserdatauv(L, sizeof(RawCell), 0)) RawCell;
  if (luaL_newmetatable(L, kName) != 0) {
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "kernel");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  cell->source.text.assign(text, length);
  cell->source.name = called;
  for (lua_Integer i = 1; lua_rawgeti(L, 3, i) == LUA_TSTRING; ++i) {
    cell->source.options.emplace_back(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  for (lua_Integer i = 1; lua_rawgeti(L, 4, i) == LUA_TTABLE; ++i) {
    cell->parameters.push_back(read_parameter(L));
    cell->source.parameters.push_back(cell->parameters.back().type);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return 1;
}

const RawKernel& compiled(lua_State* L, RawCell& cell, int device) {
  Backend& backend = module_backend(L, cell.source.name.c_str());
  RawKernels* const kernels = backend.raw_kernels();
  check(kernels != nullptr, cell.source.name, ": nothing compiles kernels for ",
        title_of(module_type(L)),
        " devices here: the compiler of the toolkit that Moonlet was built with (NVRTC) is not "
        "found");
  const auto at = static_cast<size_t>(device);
  if (cell.compiled.size() <= at) cell.compiled.resize(at + 1);
  if (!cell.compiled[at]) cell.compiled[at] = kernels->compile(cell.source, device);
  return *cell.compiled[at];
}

// kernel, device: compiles it now.
int l_compile(lua_State* L) {
  RawCell& cell = cell_at(L);
  compiled(L, cell, device_argument(L, 2, cell.source.name.c_str()));
  return 0;
}

// --- launches ------------------------------------------------------------------------------------

class Arguments {
 public:
  Arguments(lua_State* L, const RawCell& cell) : L_(L), cell_(cell) {}

  uint64_t read(int index, const Parameter& parameter) {
    if (parameter.kind == Kind::Pointer) return pointer(index, parameter);
    uint64_t word = 0;
    if (parameter.kind == Kind::Floating) return floating(index, parameter);
    if (parameter.kind == Kind::Bool) {
      if (!lua_isboolean(L_, index)) bad(index, parameter, "true or false");
      return static_cast<uint64_t>(lua_toboolean(L_, index));
    }
    const std::optional<int64_t> value = whole_number(L_, index);
    if (!value) bad(index, parameter, "an integer");
    check_range(*value, parameter);
    std::memcpy(&word, &*value, static_cast<size_t>(parameter.bytes));
    return word;
  }

  // The device of the tensors; -1 without any.
  int device() const { return device_.index; }
  bool any() const { return any_; }
  const std::vector<Tensor>& written() const { return written_; }

 private:
  [[noreturn]] void bad(int index, const Parameter& parameter, const char* wanted) const {
    fail(cell_.source.name, ": argument '", parameter.name, "' (", parameter.type, ") must be ",
         wanted, ", got ", type_name(L_, index));
  }

  void check_range(int64_t value, const Parameter& parameter) const {
    const int bits = 8 * parameter.bytes;
    const bool is_signed = parameter.kind == Kind::Signed;
    if (bits == 64) {
      check(is_signed || value >= 0, cell_.source.name, ": argument '", parameter.name,
            "' must not be negative for ", parameter.type, ", got ", value);
      return;
    }
    const int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    const int64_t low = is_signed ? -high - 1 : 0;
    check(value >= low && value <= high, cell_.source.name, ": argument '", parameter.name,
          "' must be from ", low, " to ", high, " for ", parameter.type, ", got ", value);
  }

  uint64_t floating(int index, const Parameter& parameter) const {
    if (lua_type(L_, index) != LUA_TNUMBER) bad(index, parameter, "a number");
    uint64_t word = 0;
    const double value = lua_tonumber(L_, index);
    const auto narrow = static_cast<float>(value);
    if (parameter.bytes == 4)
      std::memcpy(&word, &narrow, sizeof narrow);
    else
      std::memcpy(&word, &value, sizeof value);
    return word;
  }

  uint64_t pointer(int index, const Parameter& parameter) {
    if (lua_isnil(L_, index)) return 0;
    const Tensor* const x = tensor_cell(L_, index);
    if (x == nullptr || !x->defined()) bad(index, parameter, "a tensor, or nil for no address");
    const char* const op = cell_.source.name.c_str();
    check(!x->device().is_batched(), op, ": argument '", parameter.name,
          "' is inside vmap, where it has no memory of its own; ml.ops.define gives the kernel a "
          "rule for vmap");
    const Device device = x->device();
    check(device.type == module_type(L_), op, ": argument '", parameter.name, "' is on ", device,
          ", and the kernel runs on ", name(module_type(L_)), " devices");
    check(!any_ || device == device_, op, ": argument '", parameter.name, "' is on ", device,
          ", and the tensors before it are on ", device_);
    if (parameter.typed && x->dtype() != parameter.dtype)
      fail(op, ": argument '", parameter.name, "' (", parameter.type, ") must have dtype ",
           parameter.dtype, ", got ", x->dtype());
    if (parameter.written) {
      check_unrecorded_write(*x, parameter);
      written_.push_back(*x);
    }
    any_ = true;
    device_ = device;
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(x->raw()));
  }

  void check_unrecorded_write(const Tensor& x, const Parameter& parameter) const {
    check(!execution.grad_mode || !x.requires_grad(), cell_.source.name, ": argument '",
          parameter.name,
          "' requires grad, and the tape does not see what a kernel writes; declare "
          "it const, or call the kernel under ml.no_grad");
  }

  lua_State* const L_;
  const RawCell& cell_;
  Device device_{};
  bool any_ = false;
  std::vector<Tensor> written_;
};

// The table at a stack index as three sizes.
std::array<int64_t, 3> sizes_at(lua_State* L, int index) {
  std::array<int64_t, 3> out{1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    if (lua_rawgeti(L, index, i + 1) != LUA_TNIL)
      out[static_cast<size_t>(i)] = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  return out;
}

// kernel, device for a kernel without tensors, grid, block, bytes of shared memory, arguments. A
// function that is captured or put off ends there: what the kernel does is not known.
int l_launch(lua_State* L) {
  RawCell& cell = cell_at(L);
  const char* const op = cell.source.name.c_str();
  constexpr int kFirst = 6;
  const int given = lua_gettop(L) - kFirst + 1;
  const int wanted = static_cast<int>(cell.parameters.size());
  check(given == wanted, op, ": takes ", wanted, wanted == 1 ? " argument" : " arguments",
        " after its grid, got ", given);
  program::note_values_read(op);
  program::run_deferred();
  RawLaunch launch{sizes_at(L, 3), sizes_at(L, 4), luaL_checkinteger(L, 5), {}};
  Arguments arguments(L, cell);
  for (int i = 0; i < wanted; ++i)
    launch.words.push_back(arguments.read(kFirst + i, cell.parameters[static_cast<size_t>(i)]));
  const int device = arguments.any() ? arguments.device() : device_argument(L, 2, op);
  const RawKernel& kernel = compiled(L, cell, device);
  for (const Tensor& x : arguments.written()) mark_changed(x, op);
  kernel.launch(launch);
  return 0;
}

}  // namespace

void register_raw_kernels(lua_State* L, DeviceType type) {
  static const luaL_Reg kFunctions[] = {{"_kernel", guard<l_new>},
                                        {"_compile_kernel", guard<l_compile>},
                                        {"_launch_kernel", guard<l_launch>},
                                        {nullptr, nullptr}};
  set_module_functions(L, type, kFunctions);
}

}  // namespace moonlet::binding
