// interp/binding/tensor/tensor_userdata.h: the Lua value of a tensor: one full userdata that holds
// one counted reference, recognised by a mark in it that no other userdata has.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "interp/state/gc_pacer.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "lua.hpp"
#include "tensor/core/scalar.h"
#include "tensor/core/tensor.h"

namespace moonlet::binding {

inline BindingState& binding_state(lua_State* L) { return state_data(L).binding; }

// What the userdata of a tensor holds. To look at the mark is a third of the work of comparing
// metatables, which `debug` can set, besides. It is drawn when the program starts: userdata of C
// modules may hold what a script chose. What is collected gives its mark up, as its memory may be
// that of another userdata next, which need not write all of it.
struct TensorCell {
  static const uint64_t kMark;

  Tensor tensor;
  uint64_t mark = kMark;

  void end() noexcept {
    mark = 0;
    tensor = Tensor();
  }
};

inline TensorCell* marked_cell(lua_State* L, int index) {
  auto* const cell = static_cast<TensorCell*>(lua_touserdata(L, index));
  // A light userdata has no length.
  if (cell == nullptr || lua_rawlen(L, index) != sizeof(TensorCell)) return nullptr;
  return cell->mark == TensorCell::kMark ? cell : nullptr;
}

// The tensor at a stack index, or null when the value is none. It is undefined after `x:free()`.
inline Tensor* tensor_cell(lua_State* L, int index) {
  TensorCell* const cell = marked_cell(L, index);
  return cell != nullptr ? &cell->tensor : nullptr;
}

// The tensor at a stack index. Throws Error naming `op` when it is no tensor or has been freed.
Tensor& check_tensor(lua_State* L, int index, const char* op = "tensor");

// Whether a value was a tensor: after `x:free()`, or its finalizer.
bool is_freed(lua_State* L, int index);

// Creates the metatable (without __index, which module.cpp adds) and leaves it on the stack.
void push_new_metatable(lua_State* L);

// Pushes results of ops: a tensor, none where it is undefined, a list as a table, several results
// as several values. Each returns the number of values pushed.
int push_result(lua_State* L, Tensor tensor);
int push_result(lua_State* L, std::vector<Tensor> tensors);
int push_result(lua_State* L, const Scalar& scalar);
int push_result(lua_State* L, bool value);
int push_result(lua_State* L, int64_t value);
int push_result(lua_State* L, double value);
int push_string(lua_State* L, std::string_view text);
template <class... Ts>
int push_result(lua_State* L, std::tuple<Ts...> results) {
  return std::apply([L](auto&... each) { return (push_result(L, std::move(each)) + ... + 0); },
                    results);
}

// Pushes the first `count` items of the table at `index`; returns `count`.
int push_items(lua_State* L, int index, int count);

// Notes that something outside Lua may come to hold the tensor of the userdata at a stack index and
// to hand it back: `push_tensor` then pushes the same userdata while it lives. Ops that give back
// an argument of theirs need no note.
void note_seen(lua_State* L, int index);

// What `..` does with tensors and shapes: joins the texts of its two operands.
int concat(lua_State* L);

// "number", "Tensor", ... for messages.
const char* type_name(lua_State* L, int index);

// Whether scripts call the value: a function, or another object with `__call`. That of a tensor
// only raises an error.
bool is_callable(lua_State* L, int index);

// Notes as owed to the collector what this thread allocated since the last note.
void pay_collector(lua_State* L, BindingState& state);

// Runs `f` again after a full collection; the second failure is a Lua error.
int retry_after_collection(lua_State* L, int top, lua_CFunction f);

// The message of an error in the op that a script called: where an op that it is made of raised it,
// with the called one's name in front instead ("zeros: ..." for what `full` says).
std::string called_message(const char* message, const char* called);

// Runs `f`, whose errors then begin with the name `called`.
template <class F>
auto named(const char* called, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    throw Error(called_message(e.what(), called));
  }
}

// The guard of functions that allocate tensors: when memory runs out, all garbage is collected and
// the function runs once more. Such functions leave their arguments in place. Errors
// begin with the name `called`, where there is one.
template <lua_CFunction f, const char* called = nullptr>
int op_guard(lua_State* L) {
  const int top = lua_gettop(L);
  bool out_of_memory = false;
  try {
    const CallScope scope(L);
    gc::settle(L);
    return f(L);
  } catch (const OutOfMemory&) {
    out_of_memory = true;
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  } catch (const std::exception& e) {
    if constexpr (called != nullptr)
      push_exception(L, e, called_message(e.what(), called).c_str());
    else
      push_exception(L, e);
  }
  if (out_of_memory) return retry_after_collection(L, top, guard<f>);
  return lua_error(L);
}

// Hand-written parts, each adding its functions. Stack: the module at -2, the methods at -1.
void register_io(lua_State* L);
void register_construct(lua_State* L);
void register_settings(lua_State* L);
void register_memory(lua_State* L);
// Adds the module of functions of a kind of device, ml.NAME, with the methods of tensors on one.
void register_device_module(lua_State* L, DeviceType type);
void register_dtypes(lua_State* L);
void register_grad_mode(lua_State* L);
void register_generator(lua_State* L);
void register_tape(lua_State* L);
void register_methods(lua_State* L);
void register_elements(lua_State* L);
void register_pinned(lua_State* L);
void register_print(lua_State* L);
void register_storage(lua_State* L);
void register_tensor_classes(lua_State* L);
// Adds __index and __newindex to the metatable at -2; methods at -1.
void register_fields(lua_State* L);
// Whether `x.name` is a field, which no method may hide.
bool is_field(const char* name);

// The text of `print(x)`.
std::string format_tensor(const Tensor& x, const PrintOptions& options);
// The elements alone, of a tensor on any device; of more than the threshold only the ends.
std::string format_elements(const Tensor& x, const PrintOptions& options);

// Sets the functions of a {name, f} list, closed by a null name, in the table at `index`.
void set_functions(lua_State* L, int index, const luaL_Reg* functions);

}  // namespace moonlet::binding
