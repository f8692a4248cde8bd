// tests/backends/host2.cpp: a backend of two devices whose memory is the host's, at addresses that
// the host cannot use. The module `host2` registers it, and nothing else knows of it: what works
// there works through the registry of backends.
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "lua.hpp"
#include "tensor/runtime/backend.h"
#include "tests/backends/fallback.h"

namespace moonlet {
extern const KernelTable host2_kernels;
}

namespace moonlet::host2 {

namespace {

// No address has this bit, so that no mistake goes unnoticed.
constexpr uintptr_t kAway = uintptr_t{1} << 54;
char* away(const void* host) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(host) + kAway);
}
char* back(const void* data) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(data) - kAway);
}

struct Blocks {
  std::mutex mutex;
  std::map<char*, size_t> sizes;  // by the address that is shown
};
Blocks& blocks() {
  static Blocks& it = *new Blocks;
  return it;
}

DeviceType own_type() { return device_type_from_name("host2"); }

}  // namespace

void* Memory::allocate(size_t bytes) {
  void* const host = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (host == nullptr) throw OutOfMemory("out of memory on host2");
  const std::lock_guard lock(blocks().mutex);
  blocks().sizes.emplace(away(host), bytes);
  return away(host);
}

void Memory::release(void* data) noexcept {
  const std::lock_guard lock(blocks().mutex);
  blocks().sizes.erase(static_cast<char*>(data));
  std::free(back(data));
}

void Memory::read(void* to, const void* from, size_t bytes) { std::memcpy(to, back(from), bytes); }
void Memory::write(void* to, const void* from, size_t bytes) { std::memcpy(back(to), from, bytes); }

std::pair<char*, size_t> Memory::block_of(const void* data) {
  const std::lock_guard lock(blocks().mutex);
  auto found = blocks().sizes.upper_bound(static_cast<char*>(const_cast<void*>(data)));
  check(found != blocks().sizes.begin(), "host2: a kernel was given an address of the host's");
  return *--found;
}

bool is_here(const Tensor& x) { return x.device().type == own_type(); }

Tensor moved_here(const Tensor& host) {
  if (!host.defined()) return host;
  Tensor dense = clone_plain(host);
  if (!dense.is_contiguous()) {
    dense = empty_plain(host.sizes(), options_of(host), "to");
    kernel_table(DeviceType::CPU)->copy->copy(dense, host);
  }
  Tensor out = empty_plain(host.sizes(), {host.dtype(), Device{own_type(), 0}}, "to");
  Memory::write(out.raw(), dense.raw(),
                static_cast<size_t>(host.numel()) * static_cast<size_t>(size_of(host.dtype())));
  return out;
}

Mirrors::~Mirrors() {
  for (auto& [first, mirror] : mirrors_)
    if (mirror.storage) mirror.storage->release();
}

Mirrors::Mirror& Mirrors::mirror(char* first, size_t bytes) {
  Mirror& out = mirrors_[first];
  if (out.storage) return out;
  out.bytes.resize(bytes + 128);
  char* const aligned =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(out.bytes.data()) + 63) / 64 * 64);
  if (bytes > 0) Memory::read(aligned, first, bytes);
  out.storage = Storage::foreign(aligned, bytes, Device{}, {});
  return out;
}

Tensor Mirrors::of(const Tensor& x, bool written) {
  if (!x.defined() || x.device().is_cpu()) return x;
  if (!is_here(x)) return on_host(x);
  Mirror& found = mirror(x.storage().data(), x.storage().bytes());
  found.written = found.written || written;
  return view_of(*found.storage, x.sizes(), x.strides(), x.offset(), x.dtype());
}

char* Mirrors::of(char* data, bool written) {
  const auto [first, bytes] = Memory::block_of(data);
  Mirror& found = mirror(first, bytes);
  found.written = found.written || written;
  return found.storage->data() + (data - first);
}

void Mirrors::give_back() {
  for (auto& [first, mirror] : mirrors_)
    if (mirror.written && mirror.storage->bytes() > 0)
      Memory::write(first, mirror.storage->data(), mirror.storage->bytes());
}

namespace {

class Host2Allocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device device, void**) override {
    require_device(device, "host2");
    return Memory::allocate(bytes);
  }
  void deallocate(void* data, size_t, Device, void*) noexcept override { Memory::release(data); }
};

// What every backend has, and nothing that some have.
class Host2 final : public Backend {
 public:
  int device_count() override { return 2; }
  std::string device_name(int) override { return "another memory of the host"; }
  const KernelTable& kernels() override { return host2_kernels; }
  Allocator& allocator() override { return allocator_; }
  void transfer(Tensor& out, const Tensor& in) override { host2_copy(out, in); }
  void synchronize(int) override {}

 private:
  static void host2_copy(Tensor& out, const Tensor& in) { host2_kernels.copy->copy(out, in); }
  Host2Allocator allocator_;
};

Backend* open_host2(DeviceType, std::string*) {
  static Host2& it = *new Host2;
  return &it;
}

}  // namespace
}  // namespace moonlet::host2

extern "C" __attribute__((visibility("default"))) int luaopen_host2(lua_State* L) {
  if (!moonlet::find_device_type("host2"))
    moonlet::register_backend(
        {.name = "host2", .title = "host2", .open = moonlet::host2::open_host2});
  lua_pushliteral(L, "host2");
  return 1;
}
