// interp/embed/carried.h: the exceptions of a host that are on their way through Lua as error
// messages.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace moonlet {

// A script sees the message; a host that gets the message as an uncaught error throws the
// exception. Kept until the host's outermost call ends; a script that catches many drops the
// oldest.
class CarriedExceptions {
 public:
  void add(std::string_view message, std::exception_ptr exception);
  // The newest one of that message, or null.
  std::exception_ptr find(std::string_view message) const noexcept;
  bool empty() const noexcept { return list_.empty(); }
  void clear() noexcept { list_.clear(); }

 private:
  struct Carried {
    std::string message;
    std::exception_ptr exception;
  };
  std::vector<Carried> list_;  // oldest first
};

}  // namespace moonlet
