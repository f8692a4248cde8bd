// tensor/core/platform/numeric_locale_posix.cpp: the locale of a thread by uselocale.
#include <locale.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "tensor/core/platform/numeric_locale.h"

namespace moonlet::platform {

NumericLocale::NumericLocale() noexcept {
  static const locale_t kC = ::newlocale(LC_ALL_MASK, "C", nullptr);
  if (kC != nullptr) before_ = ::uselocale(kC);
}

NumericLocale::~NumericLocale() {
  if (before_ != nullptr) ::uselocale(static_cast<locale_t>(before_));
}

}  // namespace moonlet::platform
