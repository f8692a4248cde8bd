// moonlet/overrides.h: virtual methods that scripts may override: the base of the class of the host
// that asks the script.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "interp/embed/typed.h"

#pragma GCC visibility push(default)

namespace moonlet {

class Overrides;

namespace detail {
// The script's part of an object, as the first argument of its methods.
struct ScriptSelf {
  const Overrides* object;
};
void push_script_self(Stack& stack, const Overrides& object);
}  // namespace detail

template <>
struct Convert<detail::ScriptSelf> {
  static std::string name() { return "object"; }
  static Fit fit(Stack&, int) { return Fit::None; }
  static void push(Stack& stack, const detail::ScriptSelf& self) {
    detail::push_script_self(stack, *self.object);
  }
};

// The second base of a class that passes virtual methods on to scripts:
//
//   struct ScriptedNode : Node, moonlet::Overrides {
//     using Node::Node;
//     double process(double x) override {
//       return overridden<double>("process", [&] { return Node::process(x); }, x);
//     }
//     std::string title() const override { return required<std::string>("title"); }
//   };
//   lua.bind<Node, ScriptedNode>("Node")
//
// Objects that scripts make of their own subclasses are of this type. Names are those of the
// binding. Called on the thread of the interpreter, as all of it.
class Overrides {
 public:
  Overrides();
  Overrides(const Overrides&) = delete;
  Overrides& operator=(const Overrides&) = delete;

 protected:
  ~Overrides();
  // What the script's method of that name returns, or `base()` where it has none.
  template <class R, class Base, class... A>
  R overridden(const char* name, Base&& base, A&&... arguments) const {
    const std::optional<Function> method = find(name, false);
    if (!method) return base();
    const TypedFunction<R(detail::ScriptSelf, A...)> call(*method, name);
    return call(detail::ScriptSelf{this}, std::forward<A>(arguments)...);
  }
  // The same of a method that the script must have.
  template <class R, class... A>
  R required(const char* name, A&&... arguments) const {
    const TypedFunction<R(detail::ScriptSelf, A...)> call(*find(name, true), name);
    return call(detail::ScriptSelf{this}, std::forward<A>(arguments)...);
  }

 private:
  friend struct detail::Access;
  // The script's method of that name.
  std::optional<Function> find(const char* name, bool required) const;

  struct Link;
  std::unique_ptr<Link> link_;  // to the script's object, from the end of its construction on
};

}  // namespace moonlet

#pragma GCC visibility pop
