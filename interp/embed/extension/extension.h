// moonlet/extension.h: an extension: a shared library that gives scripts functions, classes and
// ops:
//
//   #include <moonlet/extension.h>
//
//   static double twice(double x) { return 2 * x; }
//
//   MOONLET_EXTENSION(mylib, module) {
//     module.function("twice", &twice);
//     module.bind<Synth>("Synth").constructor<int>().method("note", &Synth::note);
//     module.op<"mylib::snake(Tensor x, float a=1.0) -> Tensor">().pointwise(...);
//   }
//
// It is loaded by `ml.ext.load_library "mylib.so"`, which returns the table that `module` fills.
// The block runs in each interpreter that loads the library; what it says of ops holds for the
// process and is the same each time. A library is never unloaded: ops, node names and classes point
// into it. It is compiled against the headers of the Moonlet that loads it, and refused otherwise.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "interp/embed/class.h"
#include "interp/embed/extension/native_op.h"
#include "interp/embed/moonlet.h"
#include "interp/embed/typed.h"
#include "interp/extension_abi.h"

#pragma GCC visibility push(default)

namespace moonlet {

class Extension;

// What a library says of itself, under the name kExtensionSymbol. It is read before anything of the
// library is called.
struct ExtensionInfo {
  const char* abi;   // kExtensionAbi of its build
  const char* name;  // of the module
  void (*load)(Extension& module);
};
inline constexpr const char* kExtensionSymbol = "moonlet_extension_v1";

// What an extension is given while it is loaded into an interpreter.
class Extension {
 public:
  Extension(Interpreter& interpreter, const ExtensionInfo& info);
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;

  // The interpreter that loads it, for what else the extension sets there. It is valid while the
  // block runs; values of it, as the module, may be kept.
  Interpreter& interpreter() const { return interpreter_; }
  // The table that loading returns.
  const Table& module() const { return module_; }
  const char* name() const { return info_.name; }

  // A function of the module, with parameters and a result of its own, or overload(f, g).
  template <class F>
  Extension& function(const std::string& name, F&& function) {
    add_function(name, detail::make_set(full_name(name), std::forward<F>(function)));
    return *this;
  }
  // A value of the module.
  template <class V>
  Extension& set(const std::string& name, V&& value) {
    module_.set(Value(name), std::forward<V>(value));
    return *this;
  }
  // A class of the module.
  template <class T>
  Class<T> bind(const std::string& name) {
    return Class<T>(add_class(name, typeid(T)));
  }
  // An op, which is registered when the block has run. moonlet/native_op.h says what can be said
  // of it.
  template <FixedString schema>
  NativeOp& op() {
    return add_op(detail::native_entries<schema>());
  }

  // Registers what was declared, and gives the interpreter the functions and methods of the ops.
  void finish();

 private:
  std::string full_name(const std::string& name) const { return info_.name + ("." + name); }
  void add_function(const std::string& name, detail::FunctionSet set);
  detail::ClassRecord& add_class(const std::string& name, const std::type_info& type);
  NativeOp& add_op(const detail::NativeEntries& entries);

  Interpreter& interpreter_;
  const ExtensionInfo& info_;
  const Table module_;
  std::vector<std::unique_ptr<NativeOp>> ops_;
};

// What `ml.ext.load_library` does with an extension in a library, with one in the host's own code:
//
//   MOONLET_EXTENSION(mylib, module) { ... }
//   lua.set("mylib", moonlet::load_extension(lua, moonlet_extension_v1));
//
// Returns its module, the same one each time. Throws what the block does, and Error for an op that
// is declared wrongly.
Table load_extension(Interpreter& interpreter, const ExtensionInfo& info);

}  // namespace moonlet

// Makes a library an extension of that name; a block with the name of its `Extension&` follows.
#define MOONLET_EXTENSION(NAME, MODULE)                                                          \
  static void moonlet_load_##NAME(::moonlet::Extension& MODULE);                                 \
  extern "C" [[gnu::visibility("default")]] const ::moonlet::ExtensionInfo moonlet_extension_v1; \
  const ::moonlet::ExtensionInfo moonlet_extension_v1 = {::moonlet::kExtensionAbi, #NAME,        \
                                                         &moonlet_load_##NAME};                  \
  static void moonlet_load_##NAME([[maybe_unused]] ::moonlet::Extension& MODULE)

#pragma GCC visibility pop
