// tensor/io/cache_folder.cpp: where the cache is.
#include "tensor/io/cache_folder.h"

#include <cstdlib>

#include "tensor/runtime/execution.h"

namespace moonlet::io {

namespace {
std::string variable(const char* name) {
  const char* value = execution.reads_environment ? std::getenv(name) : nullptr;
  return value ? value : "";
}
}  // namespace

std::string cache_folder() {
  if (!execution.reads_environment) return "";
  const std::string set = variable("MOONLET_CACHE");
  if (set == "off") return "";
  if (!set.empty()) return set;
  const std::string base = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (!base.empty()) return base + "/moonlet";
  return home.empty() ? "" : home + "/.cache/moonlet";
}

}  // namespace moonlet::io
