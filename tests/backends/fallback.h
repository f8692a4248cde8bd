// tests/backends/fallback.h: kernels of host2 made of the CPU's: what a kernel takes is copied to
// the host, and what it has written is copied back.
#pragma once

#include <map>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/core/dispatch.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels_copy.h"
#include "tensor/pointwise/plan.h"

namespace moonlet::host2 {

// Blocks of the other memory. Their addresses lie where the host has none: who reads or writes them
// but through this class ends the process.
class Memory {
 public:
  static void* allocate(size_t bytes);
  static void release(void* data) noexcept;
  static void read(void* to, const void* from, size_t bytes);
  static void write(void* to, const void* from, size_t bytes);
  // The first byte and the size of the block that an address lies in.
  static std::pair<char*, size_t> block_of(const void* data);
};

bool is_here(const Tensor& x);
// A copy of a host's tensor in the other memory.
Tensor moved_here(const Tensor& host);

// The blocks of one call on the host. Tensors that share a block share its copy.
class Mirrors {
 public:
  Mirrors() = default;
  ~Mirrors();
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;
  // x with its memory on the host; x itself where it is there.
  Tensor of(const Tensor& x, bool written);
  char* of(char* data, bool written);
  // Copies back what was written.
  void give_back();

 private:
  struct Mirror {
    Storage* storage = nullptr;
    std::vector<char> bytes;
    bool written = false;
  };
  Mirror& mirror(char* first, size_t bytes);

  std::map<char*, Mirror> mirrors_;
};

// An argument on the host, and what becomes of it after the call.
template <class A>
struct Argument {
  Argument(A given, Mirrors&) : value(static_cast<A>(given)) {}
  A get() { return static_cast<A>(value); }
  void finish() {}
  A value;
};
template <>
struct Argument<const Tensor&> {
  Argument(const Tensor& given, Mirrors& mirrors) : value(mirrors.of(given, false)) {}
  const Tensor& get() { return value; }
  void finish() {}
  Tensor value;
};
template <>
struct Argument<Tensor&> {
  Argument(Tensor& given, Mirrors& mirrors)
      : target(given), value(mirrors.of(given, true)), before(value) {}
  Tensor& get() { return value; }
  void finish() {
    if (!value.is_same(before)) target = moved_here(value);
  }
  Tensor& target;
  Tensor value, before;
};
template <>
struct Argument<const std::vector<Tensor>&> {
  Argument(const std::vector<Tensor>& given, Mirrors& mirrors) {
    for (const Tensor& x : given) value.push_back(mirrors.of(x, true));
  }
  const std::vector<Tensor>& get() { return value; }
  void finish() {}
  std::vector<Tensor> value;
};

// Kernel `Kernel` of family `Family` of the table.
template <auto Family, auto Kernel>
struct Fallback;
template <class Kernels, class R, class... A, const Kernels* KernelTable::*Family,
          R (*Kernels::*Kernel)(A...)>
struct Fallback<Family, Kernel> {
  static R call(A... given) {
    Mirrors mirrors;
    std::tuple<Argument<A>...> arguments{Argument<A>(given, mirrors)...};
    const auto kernel = kernel_table(DeviceType::CPU)->*Family->*Kernel;
    return std::apply(
        [&](auto&... each) {
          if constexpr (std::is_void_v<R>) {
            kernel(each.get()...);
            mirrors.give_back();
            (each.finish(), ...);
          } else {
            const R host = kernel(each.get()...);
            mirrors.give_back();
            (each.finish(), ...);
            return moved_here(host);
          }
        },
        arguments);
  }
};

// The pointwise kernel of those indices.
template <int Family, int Index>
void pointwise(const PointwisePlan& plan) {
  Mirrors mirrors;
  PointwisePlan host = plan;
  host.device = Device{};
  host.out.data = mirrors.of(plan.out.data, true);
  for (int i = 0; i < plan.inputs; ++i)
    if (!plan.in[i].scalar) host.in[i].data = mirrors.of(plan.in[i].data, false);
  kernel_table(DeviceType::CPU)->pointwise_ops[Family][Index](host);
  mirrors.give_back();
}

}  // namespace moonlet::host2
