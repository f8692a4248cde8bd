// interp/state/host_file_system.h: the files of a host (HostFiles) as a file system of what reads
// and writes by paths.
#pragma once

#include "interp/embed/options.h"
#include "tensor/io/file_system.h"

namespace moonlet {

class HostFileSystem final : public io::FileSystem {
 public:
  explicit HostFileSystem(HostFiles files) : files_(std::move(files)) {}

  bool covers(const std::string&) const override { return true; }
  std::optional<uint64_t> size(const std::string& path) override;
  void read(const std::string& path, uint64_t at, char* out, size_t count) override;
  void write(const std::string& path, const std::vector<std::string_view>& parts) override;

 private:
  const HostFiles files_;
};

}  // namespace moonlet
