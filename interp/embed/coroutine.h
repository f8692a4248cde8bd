// moonlet/coroutine.h: coroutines of scripts, resumed by the host: generators, and scripts that
// wait for what comes later (Yield and std::future, moonlet/typed.h).
#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include "interp/embed/typed.h"

#pragma GCC visibility push(default)

namespace moonlet {

// A coroutine held by the host like a Table. Copies name the same coroutine.
class Coroutine {
 public:
  enum class Status : uint8_t {
    Suspended,  // it has yielded, or not begun
    Running,    // it, or what it resumed, is what runs
    Dead        // it has returned or failed
  };

  // A new one, of a function of the script.
  explicit Coroutine(const Function& function);

  // Goes on until it yields or returns, and gives what it yielded or returned. The arguments are
  // those of the function at first, then what `yield` returns. Throws ScriptError, with the
  // coroutine's traceback, and Error when it is dead or runs.
  template <class... A>
  Values resume(A&&... arguments) const {
    const Values values{Value(std::forward<A>(arguments))...};
    return resume_values(values);
  }
  Values resume_values(const Values& arguments) const;

  Status status() const;
  bool done() const { return status() == Status::Dead; }
  // Whether it waits for a future of the host that has no result yet: `resume` would come back at
  // once. A loop of the host asks this of its coroutines, which takes no time of the scripts.
  bool waits() const;

 private:
  friend struct detail::Session;
  friend struct detail::Access;
  friend struct Convert<Coroutine>;
  explicit Coroutine(std::shared_ptr<detail::Reference> reference)
      : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

template <>
struct Convert<Coroutine> {
  static std::string name() { return "coroutine"; }
  static Fit fit(Stack& stack, int index);
  static Coroutine get(Stack& stack, int index);
  static void push(Stack& stack, const Coroutine& value);
};

}  // namespace moonlet

#pragma GCC visibility pop
