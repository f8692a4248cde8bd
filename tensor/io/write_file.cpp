// tensor/io/write_file.cpp: writing of whole files, of the system or of a host.
#include <cerrno>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/io/file_system.h"
#include "tensor/io/files.h"

namespace moonlet::io {

void remove_temporary_files() noexcept { platform::remove_temporary_files(); }

void write_file(const std::string& path, const std::vector<std::string_view>& parts,
                const char* op) {
  if (FileSystem* const files = file_system_of(path)) {
    try {
      return files->write(path, parts);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& e) {
      fail(op, ": '", path, "': ", e.what());
    }
  }
  const int error = platform::write_file(path, parts);
  if (error == ENXIO) fail(op, ": '", path, "': a socket, or a pipe that nobody reads");
  if (error != 0) fail(op, ": '", path, "': ", std::strerror(error));
}

}  // namespace moonlet::io
