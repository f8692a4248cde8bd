// tensor/core/warning.cpp: shows warnings once each.
#include "tensor/core/warning.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>

namespace moonlet {
namespace {

std::atomic<WarningHandler> handler{nullptr};

// The keys that were shown on stderr.
struct Shown {
  std::mutex mutex;
  std::set<std::string> keys;
};

Shown& shown() {
  static Shown value;
  return value;
}

}  // namespace

void set_warning_handler(WarningHandler given) { handler = given; }

void warn_once(const char* key, const std::string& message) {
  const WarningHandler handle = handler;
  if (handle != nullptr && handle(key, message)) return;
  const std::lock_guard lock(shown().mutex);
  if (shown().keys.insert(key).second)
    std::fprintf(stderr, "moonlet: warning: %s\n", message.c_str());
}

}  // namespace moonlet
