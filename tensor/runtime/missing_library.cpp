// tensor/runtime/missing_library.cpp: looks for a library in the folders of toolkits and Python's
// packages, and opens it. A plugin that wants it by name gets the one that is open.
#include "tensor/runtime/missing_library.h"

#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {

std::string variable(const char* name) {
  const char* value = execution.reads_environment ? std::getenv(name) : nullptr;
  return value ? value : "";
}

// The folders of a toolkit; none where it has no name.
std::vector<std::string> toolkit_folders(const std::string& toolkit) {
  std::vector<std::string> out;
  if (toolkit.empty()) return out;
  std::string capitals;
  for (const char c : toolkit)
    capitals += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const char* end : {"_HOME", "_PATH"})
    if (const std::string home = variable((capitals + end).c_str()); !home.empty())
      for (const char* part : {"/lib64", "/lib", "/targets/*/lib"}) out.push_back(home + part);
  for (const char* part : {"/lib64", "-*/lib64"}) out.push_back("/usr/local/" + toolkit + part);
  return out;
}

// Patterns of folders, as of glob(3). Of Python, where `pip install` puts NVIDIA's packages.
std::vector<std::string> folders(const std::string& toolkit) {
  std::vector<std::string> out = toolkit_folders(toolkit);
  std::vector<std::string> roots;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = variable(name); !root.empty()) roots.push_back(root);
  if (!roots.empty() && !variable("CONDA_PREFIX").empty()) out.push_back(roots.back() + "/lib");
  if (const std::string home = variable("HOME"); !home.empty()) roots.push_back(home + "/.local");
  for (const char* root : {"/usr/local", "/usr"}) roots.push_back(root);
  for (const std::string& root : roots)
    out.push_back(root + "/lib/python3*/*-packages/nvidia/*/lib");
  return out;
}

// The files of that name in those folders.
std::vector<std::string> files_named(const std::string& name, const std::string& toolkit) {
  std::vector<std::string> out;
  for (const std::string& folder : folders(toolkit))
    for (std::string& file : platform::files_matching(text(folder, "/", name)))
      out.push_back(std::move(file));
  return out;
}

constexpr int kDeepest = 8;  // libraries that want libraries
constexpr int kMost = 32;    // libraries that one wants

void* open(const std::string& path, platform::Binding binding, const std::string& toolkit,
           std::string& reason, int depth);

// For good: what is opened next uses it.
bool open_wanted(const std::string& name, const std::string& toolkit, int depth,
                 std::string& reason) {
  for (const std::string& file : files_named(name, toolkit)) {
    if (open(file, platform::Binding::kNowForAll, toolkit, reason, depth)) return true;
  }
  return false;
}

void* open(const std::string& path, platform::Binding binding, const std::string& toolkit,
           std::string& reason, int depth) {
  std::string last;
  for (int i = 0; i < kMost; ++i) {
    if (void* handle = platform::open_library(path, binding, reason)) return handle;
    const std::string name = platform::missing_library_in(reason, path);
    if (name.empty() || name == last || depth == kDeepest) return nullptr;
    std::string why;
    if (!open_wanted(name, toolkit, depth + 1, why)) {
      reason = text(path, " wants ", name);
      if (!why.empty()) {
        reason += ", which cannot be opened: " + why;
        return nullptr;
      }
      reason += ", which is neither where the loader looks nor in";
      const char* between = " ";
      for (const std::string& folder : folders(toolkit)) {
        reason += between;
        reason += folder;
        between = ", ";
      }
      reason += "; install it, or name its folder in LD_LIBRARY_PATH";
      return nullptr;
    }
    last = name;
  }
  return nullptr;
}

}  // namespace

void* open_with_libraries(const std::string& path, const std::string& toolkit,
                          std::string& reason) {
  return open(path, platform::Binding::kNow, toolkit, reason, 0);
}

void* open_library(const std::string& name, std::string& reason, const std::string& toolkit) {
  constexpr auto kBinding = platform::Binding::kNow;
  if (void* handle = open(name, kBinding, toolkit, reason, 0)) return handle;
  for (const std::string& file : files_named(name, toolkit))
    if (void* handle = open(file, kBinding, toolkit, reason, 0)) return handle;
  return nullptr;
}

}  // namespace moonlet
