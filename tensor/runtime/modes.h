// tensor/runtime/modes.h: the stack of modes. Every public op tests it once; when it is not empty,
// the innermost mode gets the call with boxed arguments instead, and may change it, replace it or
// let it go on to the modes below and the op itself.
#pragma once

#include <memory>
#include <utility>

#include "tensor/core/op_info.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

class ModeCall;

class Mode {
 public:
  Mode() = default;
  virtual ~Mode() = default;
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

  // One call of a public op. While it runs, this mode and those above it are off the stack.
  virtual void call(ModeCall& call) = 0;
  // Whether this mode takes the place of `below`, which then sees nothing that this one sees.
  virtual bool replaces(const Mode& below) const {
    static_cast<void>(below);
    return false;
  }
};

// A position on the stack.
struct ModeEntry {
  std::shared_ptr<Mode> mode;  // empty once it was removed, and in a floor
  ModeEntry* below = nullptr;
  int holders = 0;  // 0: it lives in a C++ scope, which takes it off
  int depth = 0;    // how many modes there are down to the bottom, with this one
};

// How many modes may be on the stack: a call takes some frames of C++ for each.
constexpr int kMaxModes = 200;

// Throws Error in the name of `op` when no other mode can be put on the stack.
void check_room_for_mode(const char* op);

// Whether the ops that an op is made of come to a mode that lets the op go on.
enum class InnerOps : uint8_t { Visible, Hidden };

// One call on its way down the stack, as one mode gets it.
class ModeCall {
 public:
  const OpInfo& op;
  BoxedValues& arguments;
  BoxedValues& results;

  // Hands the call, with the arguments as they are now, to the modes below and the op, which add
  // its results. May be called again.
  void proceed(InnerOps inner_ops = InnerOps::Visible);

 private:
  friend void intercept(const OpInfo& op, BoxedValues& arguments, BoxedValues& results);
  struct Walk;
  ModeCall(const OpInfo& called, BoxedValues& in, BoxedValues& out, Walk& walk,
           const ModeEntry& entry, const ModeCall* above)
      : op(called), arguments(in), results(out), walk_(walk), entry_(entry), above_(above) {}
  static void descend(const OpInfo& op, BoxedValues& in, BoxedValues& out, Walk& walk,
                      ModeEntry* entry, const ModeCall* above);
  static bool is_replaced(const Mode& mode, const ModeCall* above);

  Walk& walk_;
  const ModeEntry& entry_;
  const ModeCall* above_;
};

// Makes `visible` the stack for a C++ scope. What is put on it meanwhile and left there is dropped.
class ModesScope {
 public:
  explicit ModesScope(ModeEntry* visible);
  ~ModesScope();
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  ModeEntry floor_;  // never dropped, so that the end of the scope is found again
  ModeEntry* const before_;
};

// Takes all modes off for a C++ scope: for ops of the system's own that are nobody's business.
class NoModes {
 public:
  NoModes() : before_(std::exchange(execution.modes, nullptr)) {}
  ~NoModes() { execution.modes = before_; }
  NoModes(const NoModes&) = delete;
  NoModes& operator=(const NoModes&) = delete;

 private:
  ModeEntry* const before_;
};

// Puts a mode on the stack of this thread for a C++ scope.
class ModeScope {
 public:
  explicit ModeScope(Mode& mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  ModeEntry entry_;
};

// Puts a mode on the stack until the holder goes, in whatever order holders go and wherever the
// stack then is.
class ModeHolder {
 public:
  ModeHolder() = default;
  explicit ModeHolder(std::shared_ptr<Mode> mode);
  ~ModeHolder() { remove(); }
  ModeHolder(const ModeHolder&) = delete;
  ModeHolder& operator=(const ModeHolder&) = delete;

  bool active() const { return entry_ != nullptr; }
  void remove();

 private:
  ModeEntry* entry_ = nullptr;
};

// The modes that a coroutine has put on the stack, while it does not run.
class SuspendedModes {
 public:
  SuspendedModes() = default;
  ~SuspendedModes();
  SuspendedModes(const SuspendedModes&) = delete;
  SuspendedModes& operator=(const SuspendedModes&) = delete;

  bool empty() const { return top_ == nullptr; }
  void swap(SuspendedModes& other) noexcept { std::swap(top_, other.top_); }

 private:
  friend class ResumedModes;
  ModeEntry* top_ = nullptr;
};

// Puts them on top of what is on the stack, for the C++ scope in which the coroutine runs.
class ResumedModes {
 public:
  explicit ResumedModes(SuspendedModes& own);
  ~ResumedModes();
  ResumedModes(const ResumedModes&) = delete;
  ResumedModes& operator=(const ResumedModes&) = delete;

 private:
  SuspendedModes& own_;
  ModeEntry floor_;
};

// Whether some mode wants to see the ops of this thread.
inline bool intercepted() noexcept { return execution.modes != nullptr; }

// Hands a call to the modes and then to the op.
void intercept(const OpInfo& op, BoxedValues& arguments, BoxedValues& results);

// The innermost mode of a kind that satisfies a condition, or null.
template <class M, class Condition>
const M* find_mode(Condition&& holds) {
  for (const ModeEntry* e = execution.modes; e != nullptr; e = e->below) {
    const M* mode = dynamic_cast<const M*>(e->mode.get());
    if (mode != nullptr && holds(*mode)) return mode;
  }
  return nullptr;
}

}  // namespace moonlet
