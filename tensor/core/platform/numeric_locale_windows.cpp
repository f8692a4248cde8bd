// tensor/core/platform/numeric_locale_windows.cpp: the locale of a thread, which the C library
// keeps apart where it is told to.
#include <locale.h>
#include <string.h>

#include "tensor/core/platform/numeric_locale.h"

namespace moonlet::platform {
namespace {

struct Before {
  int kind;  // of the thread's locale
  char* name;
};

}  // namespace

NumericLocale::NumericLocale() noexcept {
  const char* name = setlocale(LC_NUMERIC, nullptr);
  if (name == nullptr || strcmp(name, "C") == 0) return;
  const int kind = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
  before_ = new Before{kind, _strdup(name)};
  setlocale(LC_NUMERIC, "C");
}

NumericLocale::~NumericLocale() {
  if (before_ == nullptr) return;
  auto* before = static_cast<Before*>(before_);
  setlocale(LC_NUMERIC, before->name);
  _configthreadlocale(before->kind);
  free(before->name);
  delete before;
}

}  // namespace moonlet::platform
