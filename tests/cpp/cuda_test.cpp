// tests/cpp/cuda_test.cpp: the CUDA backend's memory, transfers, threads and errors. The ops
// themselves are compared with the CPU's by the generated op tests. Passes without a device.
#include "tests/cpp/catch2.h"

#include <thread>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_clone.h"
#include "tensor/raw_convert.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_gather.h"
#include "tensor/raw_reduce.h"
#include "tensor/runtime/allocator.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/streams.h"

using namespace moonlet;

namespace {

const DeviceType kCuda = device_type_from_name("cuda");
const Device kFirst{kCuda, 0};
Backend* cuda_backend() { return backend_of(kCuda); }
constexpr int64_t kMiB = 1 << 20;

bool no_device() {
  if (cuda_backend()) return false;
  WARN("no CUDA device: " << unavailable_reason(kCuda));
  return true;
}

Tensor numbered(const Dims& sizes, DType dtype) {
  Tensor x = empty_plain(sizes, {DType::Float32, {}});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 7);
  return dtype == DType::Float32 ? x : raw::convert(x, dtype, std::nullopt, {});
}

Tensor moved(const Tensor& x, Device device) { return raw::convert(x, std::nullopt, device, {}); }

// The bytes of x's elements in row order, on the host.
std::vector<char> bytes(const Tensor& x) {
  const Tensor here =
      raw::clone(x.device().is_cpu() ? x : moved(x, Device{}), MemoryFormat::Contiguous);
  return {here.raw(), here.raw() + here.numel() * static_cast<int64_t>(size_of(here.dtype()))};
}

double value(const Tensor& x) {
  const Tensor here = raw::convert(x, DType::Float64, Device{}, {});
  return *here.data<double>();
}

Tensor block(int64_t count) { return empty_plain({count}, {DType::UInt8, kFirst}); }

}  // namespace

TEST_CASE("a missing device gives a reason", "[cuda]") {
  if (cuda_backend()) {
    const int8_t after = static_cast<int8_t>(cuda_backend()->device_count());
    REQUIRE_THROWS_WITH(require_device({kCuda, after}, "zeros"),
                        ContainsSubstring("zeros: there is no device cuda:"));
  } else {
    REQUIRE(!unavailable_reason(kCuda).empty());
    REQUIRE_THROWS_WITH(require_device(kFirst, "zeros"),
                        ContainsSubstring("there is no CUDA device"));
  }
}

TEST_CASE("freed device memory is used again and can be given back", "[cuda]") {
  if (no_device()) return;
  Allocator& allocator = allocator_for(kCuda);
  allocator.empty_cache();
  const int64_t before = allocator.cached_bytes();
  char* first = nullptr;
  {
    const Tensor x = block(3 * kMiB);
    first = x.raw();
    REQUIRE(reinterpret_cast<uintptr_t>(first) % 64 == 0);
  }
  REQUIRE(allocator.cached_bytes() >= before + 3 * kMiB);
  REQUIRE(block(3 * kMiB).raw() == first);
  REQUIRE(block(0).numel() == 0);
  allocator.empty_cache();
  REQUIRE(allocator.cached_bytes() == before);
}

TEST_CASE("free neighbours join to serve a larger request", "[cuda]") {
  if (no_device()) return;
  Allocator& allocator = allocator_for(kCuda);
  allocator.empty_cache();
  {
    const Tensor a = block(4 * kMiB), b = block(4 * kMiB), c = block(4 * kMiB);
    REQUIRE(a.raw() != b.raw());
  }
  const int64_t cached = allocator.cached_bytes();
  {
    const Tensor whole = block(9 * kMiB);
    REQUIRE(allocator.cached_bytes() == cached - 9 * kMiB);
  }
  REQUIRE(allocator.cached_bytes() == cached);
}

TEST_CASE("running out of device memory is an error that leaves the rest usable", "[cuda]") {
  if (no_device()) return;
  const Tensor keep = moved(numbered({10}, DType::Float32), kFirst);
  REQUIRE_THROWS_AS(block(int64_t{1} << 50), OutOfMemory);
  REQUIRE_THROWS_WITH(block(int64_t{1} << 50), ContainsSubstring("out of memory"));
  REQUIRE(value(raw::sum(keep, {0}, false, std::nullopt)) == 24);
}

TEST_CASE("a failed allocation gives the cache back and tries again", "[cuda]") {
  if (no_device() || !cuda_backend()->emulated()) return;
  allocator_for(kCuda).empty_cache();
  const int64_t free_bytes = cuda_backend()->memory_reports()->free_and_total(0).first;
  const int64_t part = free_bytes * 2 / 5;
  { const Tensor a = block(part), b = block(part); }
  const Tensor larger = block(part + part / 2);
  REQUIRE(larger.raw() != nullptr);
}

namespace {
// A host's own allocator, on top of the one that it found.
class Counting final : public Allocator {
 public:
  explicit Counting(Allocator& below) : below_(below) {}
  void* allocate(size_t bytes, Device device, void** context) override {
    if (static_cast<int64_t>(bytes) > most) throw OutOfMemory("no more from the host");
    ++live;
    ++made;
    return below_.allocate(bytes, device, context);
  }
  void deallocate(void* data, size_t bytes, Device device, void* context) noexcept override {
    --live;
    below_.deallocate(data, bytes, device, context);
  }
  int live = 0, made = 0;
  int64_t most = 100 * kMiB;

 private:
  Allocator& below_;
};
}  // namespace

TEST_CASE("a host's allocator takes the place of the device's", "[cuda]") {
  if (no_device()) return;
  Allocator& before = allocator_for(kCuda);
  Counting counting(before);
  set_allocator(kCuda, &counting);
  {
    const Tensor x = moved(numbered({4, 5}, DType::Float32), kFirst);
    REQUIRE(value(raw::sum(x, {0, 1}, false, std::nullopt)) == 57);
    REQUIRE(counting.live == 1);
    REQUIRE(counting.made > 1);  // also what kernels make
    REQUIRE_THROWS_WITH(block(200 * kMiB), ContainsSubstring("no more from the host"));
    set_allocator(kCuda, nullptr);
    REQUIRE(&allocator_for(kCuda) == &before);
    const int made = counting.made;
    const Tensor y = block(10);
    REQUIRE(counting.made == made);
  }
  REQUIRE(counting.live == 0);  // memory goes back to where it came from
}

TEST_CASE("every dtype goes to the device and back", "[cuda]") {
  if (no_device()) return;
  for (int t = 0; t < kDTypeCount; ++t) {
    const Tensor x = numbered({5, 6}, static_cast<DType>(t));
    INFO(name(x.dtype()));
    REQUIRE(bytes(moved(x, kFirst)) == bytes(x));
    const Tensor turned = views::transpose(x, 0, 1);
    REQUIRE(bytes(moved(turned, kFirst)) == bytes(turned));
    REQUIRE(bytes(views::transpose(moved(x, kFirst), 0, 1)) == bytes(turned));
  }
  REQUIRE(moved(numbered({0, 3}, DType::Int64), kFirst).numel() == 0);
}

TEST_CASE("dtypes convert on the device as on the host", "[cuda]") {
  if (no_device()) return;
  for (int from = 0; from < kDTypeCount; ++from) {
    const Tensor x = numbered({33}, static_cast<DType>(from)), y = moved(x, kFirst);
    for (int to = 0; to < kDTypeCount; ++to) {
      INFO(name(x.dtype()) << " to " << name(static_cast<DType>(to)));
      const auto dtype = static_cast<DType>(to);
      REQUIRE(bytes(raw::convert(y, dtype, std::nullopt, {})) ==
              bytes(raw::convert(x, dtype, std::nullopt, {})));
    }
  }
}

TEST_CASE("copies work between layouts, sizes and devices", "[cuda]") {
  if (no_device()) return;
  const Tensor x = numbered({70, 65}, DType::Float32);
  const Tensor device = moved(x, kFirst);
  const Tensor turned = raw::clone(views::transpose(device, 0, 1), {});
  REQUIRE(bytes(turned) == bytes(views::transpose(x, 0, 1)));

  Tensor host = empty_plain({65, 70}, {DType::Float64, {}});
  Tensor part = views::transpose(host, 0, 1);
  raw::copy_(part, device);
  REQUIRE(bytes(part) == bytes(raw::convert(x, DType::Float64, std::nullopt, {})));

  Tensor wide = empty_plain({3, 70, 65}, {DType::Float32, kFirst});
  raw::copy_(wide, x);
  REQUIRE(bytes(views::select(wide, 0, 2)) == bytes(x));
  if (cuda_backend()->device_count() > 1) {
    const Tensor other = moved(device, {kCuda, 1});
    REQUIRE(other.device().index == 1);
    REQUIRE(bytes(other) == bytes(x));
  }
}

TEST_CASE("work of several threads on one device is in order", "[cuda]") {
  if (no_device()) return;
  std::vector<double> sums(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([t, &sums] {
      for (int round = 0; round < 20; ++round) {
        Tensor x = empty_plain({1000}, {DType::Float32, kFirst});
        raw::fill_(x, static_cast<double>(t + 1));
        sums[t] = value(raw::sum(raw::add(x, x), all_dims(x.dim()), false, std::nullopt));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < sums.size(); ++t) REQUIRE(sums[t] == 2000.0 * static_cast<double>(t + 1));
}

TEST_CASE("device errors name the op and leave the device usable", "[cuda]") {
  if (no_device()) return;
  const Tensor x = numbered({4}, DType::Float32), y = moved(x, kFirst);
  REQUIRE_THROWS_WITH(raw::add(x, y), ContainsSubstring("add: tensors on cpu and cuda:0"));
  Tensor bad = numbered({3}, DType::Int64);
  bad.data<int64_t>()[0] = 5;
  std::string on_host, on_device;
  try {
    raw::index_select(x, 0, bad);
  } catch (const Error& error) {
    on_host = error.what();
  }
  try {
    raw::index_select(y, 0, moved(bad, kFirst));
    cuda_backend()->synchronize(0);
  } catch (const Error& error) {
    on_device = error.what();
  }
  REQUIRE(!on_host.empty());
  REQUIRE_THAT(on_device, ContainsSubstring(": an earlier op on cuda:0 failed: " + on_host));
  const Tensor whole = moved(numbered({3}, DType::Int64), kFirst);
  raw::floor_divide(whole, whole);
  REQUIRE_THROWS_WITH(cuda_backend()->synchronize(0), ContainsSubstring("division by zero"));
  REQUIRE(value(raw::sum(y, all_dims(y.dim()), false, std::nullopt)) == 6);
}

TEST_CASE("what kernels report is for the interpreter whose op made it", "[cuda]") {
  if (no_device()) return;
  StopFlag first, second;
  ExecutionState one = execution, other = execution;
  one.stop = &first;
  other.stop = &second;
  const Tensor x = moved(numbered({4}, DType::Float32), kFirst);
  Tensor bad = numbered({1}, DType::Int64);
  bad.data<int64_t>()[0] = 9;
  const Tensor at = moved(bad, kFirst);
  const auto wait = [](ExecutionState& state) {
    const ExecutionScope scope(state);
    cuda_backend()->synchronize(0);
  };
  const auto fault = [&](ExecutionState& state) {
    const ExecutionScope scope(state);
    raw::index_select(x, 0, at);
  };
  fault(one);
  wait(other);
  REQUIRE_THROWS_WITH(wait(one), ContainsSubstring("index_select: position 9"));
  wait(one);
  fault(one);
  REQUIRE_THROWS_WITH(cuda_backend()->synchronize(0), ContainsSubstring("position 9"));
  fault(one);
  cuda_backend()->deferred_errors()->interpreter_closed(&first);
  REQUIRE_THROWS_WITH(wait(other), ContainsSubstring("position 9"));
  wait(other);
  cuda_backend()->deferred_errors()->interpreter_closed(&second);
}

TEST_CASE("a stream guard is its thread's, and goes back", "[cuda]") {
  if (no_device()) return;
  Streams& streams = *cuda_backend()->streams();
  const DeviceStream a = streams.from_pool(0, 0), b = streams.from_pool(0, -1);
  REQUIRE(a != b);
  REQUIRE(streams.exists(a));
  REQUIRE_FALSE(streams.exists({0, 2000}));
  REQUIRE(streams.external(streams.handle(a), 0) == a);
  const StreamGuard guard(a);
  std::thread other([&] {
    REQUIRE(current_stream(0).id == 0);
    const StreamGuard own(b);
    REQUIRE(current_stream(0) == b);
  });
  other.join();
  REQUIRE(current_stream(0) == a);
  REQUIRE_THROWS_WITH(StreamGuard({0, 2000}), ContainsSubstring("there is no stream"));
  REQUIRE(current_stream(0) == a);
  {
    const StreamGuard inner({0, 0});
    REQUIRE(current_stream(0).id == 0);
  }
  Event event;
  REQUIRE(event.query());
  const Tensor there = moved(numbered({100}, DType::Float32), kFirst);
  const Tensor x = raw::add(there, there);
  event.record(a);
  event.wait(b);
  record_stream(x, b);
  event.synchronize();
  REQUIRE(event.query());
}
