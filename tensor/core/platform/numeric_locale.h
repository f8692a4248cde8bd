// tensor/core/platform/numeric_locale.h: the locale "C" for the numbers of one thread.
#pragma once

namespace moonlet::platform {

// While alive, the C library reads and writes this thread's numbers as in the locale "C".
class NumericLocale {
 public:
  NumericLocale() noexcept;
  NumericLocale(const NumericLocale&) = delete;
  NumericLocale& operator=(const NumericLocale&) = delete;
  ~NumericLocale();

 private:
  void* before_ = nullptr;  // null when there is nothing to restore
};

}  // namespace moonlet::platform
