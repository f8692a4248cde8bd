// interp/cli/own_bundle.cpp: the header in this executable, which `moonlet bundle` fills in, and
// the bundle that it is of.
#include "interp/cli/own_bundle.h"

#include <cstring>
#include <string>

#include "interp/state/bundled.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/process.h"

namespace moonlet {
namespace {

// Read as what it is in the file, whatever the compiler knows of it.
[[gnu::used]] alignas(64) const volatile unsigned char header_bytes[sizeof(io::BundleHeader)] = {
    0x4d, 0x6f, 0x6f, 0x6e, 0x6c, 0x65, 0x74, 0x20, 0x62, 0x75, 0x6e, 0x64, 0x6c, 0x65, 0x0a, 0x8d,
    0x1a, 0xff, 0xc4, 0x69, 0x2d, 0xb8, 0xde, 0x47, 0xa1, 0xf2, 0x3b, 0x96, 0x0d, 0x7c, 0xe5, 0x01};

io::BundleHeader own_header() {
  unsigned char bytes[sizeof header_bytes];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = header_bytes[i];
  io::BundleHeader header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace

bool has_own_bundle() { return !own_header().is_empty(); }

std::shared_ptr<const io::Bundle> open_own_bundle(const std::string& title) {
  std::shared_ptr<const io::Bundle> bundle =
      io::bundle_of_executable(own_header(), platform::executable_path(), title);
  bundle->verify(bundle->entries()[0]);
  check(bundle->main() != nullptr, title, ": there is no script to run in the bundle");
  return bundle;
}

}  // namespace moonlet
