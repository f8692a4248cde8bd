// tensor/runtime/plugin_paths.cpp: the paths that a plugin is looked for at.
#include "tensor/runtime/plugin_paths.h"

#include <cstdlib>

#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

std::string own_folder() {
  const platform::LoadedObject own = platform::object_of(reinterpret_cast<void*>(&own_folder));
  if (own.base == nullptr) return ".";
  const std::string path = platform::resolved_path(own.file);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string (*bundled_plugin)(const std::string& file) = nullptr;

std::vector<std::string> plugin_paths(const std::string& file, const std::string& folder,
                                      const char* variable) {
  const char* wanted = execution.reads_environment ? std::getenv(variable) : nullptr;
  if (wanted) return {wanted};
  const std::string own = own_folder();
  std::vector<std::string> out;
  const std::string bundled = bundled_plugin != nullptr ? bundled_plugin(file) : "";
  if (!bundled.empty()) out.push_back(bundled);
  for (const std::string& position :
       {own, text(own, "/", folder), text(own, "/../", folder), text(own, "/../../", folder),
        text(own, "/moonlet"), text(own, "/../" MOONLET_LIBDIR "/moonlet"),
        std::string(MOONLET_PLUGIN_DIR)})
    out.push_back(text(position, "/", file));
  return out;
}

std::vector<std::string> header_folders() {
  const std::string own = own_folder();
  return {text(own, "/include"), text(own, "/../include"), text(own, "/../../include"),
          text(MOONLET_PLUGIN_DIR, "/../../include"),
          text(MOONLET_PLUGIN_DIR, "/../../../include")};
}

}  // namespace moonlet
