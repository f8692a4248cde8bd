// interp/state/host_file_system.cpp: asks the host for files; what it throws is the reason why not.
#include "interp/state/host_file_system.h"

#include <new>

#include "tensor/core/error.h"

namespace moonlet {
namespace {

template <class F>
auto ask(F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    fail(e.what());
  } catch (...) {
    fail("the host threw what is no std::exception");
  }
}

}  // namespace

std::optional<uint64_t> HostFileSystem::size(const std::string& path) {
  return ask([&] { return files_.size(path); });
}

void HostFileSystem::read(const std::string& path, uint64_t at, char* out, size_t count) {
  ask([&] { files_.read(path, at, out, count); });
}

void HostFileSystem::write(const std::string& path, const std::vector<std::string_view>& parts) {
  check(files_.write != nullptr, "the host takes no files");
  ask([&] { files_.write(path, parts); });
}

}  // namespace moonlet
