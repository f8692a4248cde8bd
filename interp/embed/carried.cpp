// interp/embed/carried.cpp: a short list of exceptions, found by their messages.
#include "interp/embed/carried.h"

#include <utility>

namespace moonlet {

void CarriedExceptions::add(std::string_view message, std::exception_ptr exception) {
  constexpr size_t kMax = 16;
  if (list_.size() == kMax) list_.erase(list_.begin());
  list_.push_back({std::string(message), std::move(exception)});
}

std::exception_ptr CarriedExceptions::find(std::string_view message) const noexcept {
  for (auto it = list_.rbegin(); it != list_.rend(); ++it) {
    if (it->message == message) return it->exception;
  }
  return nullptr;
}

}  // namespace moonlet
