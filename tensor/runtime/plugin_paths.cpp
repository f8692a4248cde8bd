// tensor/runtime/plugin_paths.cpp: the paths that a plugin is looked for at.
#include "tensor/runtime/plugin_paths.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/io/bundle.h"
#include "tensor/io/files.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

std::string own_folder() {
  const platform::LoadedObject own = platform::object_of(reinterpret_cast<void*>(&own_folder));
  if (own.base == nullptr) return ".";
  const std::string path = platform::resolved_path(own.file);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

namespace {
// A path of the plugin in the executable's bundle, which is a copy in memory, as the loader opens
// what is named alone; empty where there is none.
std::string path_in_bundle(const std::string& file) {
  const std::shared_ptr<const io::Bundle>& bundle = io::own_bundle();
  const io::BundleEntry* entry = bundle != nullptr ? bundle->find(file) : nullptr;
  if (entry == nullptr || entry->kind != io::BundleKind::Plugin) return {};
  static std::mutex mutex;
  static std::map<std::string, std::string> opened;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = opened.find(file);
  if (found != opened.end()) return found->second;
  io::BundleFiles files(bundle);
  const io::FileSystemScope scope(&files);
  const int copy = io::InputFile(file, "plugin").release();  // open as long as the plugin is
  return opened[file] = text("/proc/self/fd/", copy);
}
}  // namespace

std::vector<std::string> plugin_paths(const std::string& file, const std::string& folder,
                                      const char* variable) {
  const char* wanted = execution.reads_environment ? std::getenv(variable) : nullptr;
  if (wanted) return {wanted};
  const std::string own = own_folder();
  std::vector<std::string> out;
  if (const std::string bundled = path_in_bundle(file); !bundled.empty()) out.push_back(bundled);
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
