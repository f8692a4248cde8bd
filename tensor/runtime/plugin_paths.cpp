// tensor/runtime/plugin_paths.cpp: the paths that a plugin is looked for at.
#include "tensor/runtime/plugin_paths.h"

#include <dlfcn.h>

#include <cstdlib>

#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_folder), &info) || !info.dli_fname) return ".";
  std::string path = info.dli_fname;
  if (char* real = realpath(path.c_str(), nullptr)) {
    path = real;
    free(real);
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> plugin_paths(const std::string& file, const std::string& folder,
                                      const char* variable) {
  const char* wanted = execution.reads_environment ? std::getenv(variable) : nullptr;
  if (wanted) return {wanted};
  const std::string own = own_folder();
  std::vector<std::string> out;
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
          MOONLET_PLUGIN_DIR "/../../include", MOONLET_PLUGIN_DIR "/../../../include"};
}

}  // namespace moonlet
