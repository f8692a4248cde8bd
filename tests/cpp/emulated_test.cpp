// tests/cpp/emulated_test.cpp: the CUDA emulation behaves like CUDA: grids, barriers, warps,
// atomics, memory and its limits, errors that stay, streams, and products in every layout.
#include "tests/cpp/catch2.h"

#include <cublas_v2.h>

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cuda/runtime/capability.h"
#include "emulated_kernels.cu"

namespace {

// The environment is read on the first call, so it is set before any.
const int environment_set =
    setenv("MOONLET_EMULATED_DEVICES", "2", 1) + setenv("MOONLET_EMULATED_MEMORY", "64", 1);

/// Device memory of the current device with the values of a host vector.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n) : n_(n) {
    REQUIRE(cudaMalloc(&data_, n * sizeof(T)) == cudaSuccess);
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    REQUIRE(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(n_);
    REQUIRE(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

/// The current device fails with a launch failure that lasts until the reset.
void require_sticky_failure() {
  REQUIRE(cudaPeekAtLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 16) == cudaErrorLaunchFailure);
  CHECK_FALSE(moonlet::emulated::failure_text().empty());
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace

TEST_CASE("every thread of a grid runs once, at its position") {
  const dim3 grid(3, 2, 2), block(4, 3, 2);
  Buffer<unsigned> out(std::vector<unsigned>(12 * 24, 7));
  MOONLET_LAUNCH(where_am_i, grid, block, 0, nullptr, out.get());
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const auto values = out.read();
  for (unsigned i = 0; i < values.size(); ++i) REQUIRE(values[i] == i / 24 * 1000 + i % 24);

  const int n = 100000;
  Buffer<int> large(static_cast<std::size_t>(n));
  MOONLET_LAUNCH((fill<int, 3>), (n + 255) / 256, 256, 0, nullptr, large.get(), n, 5);
  const auto filled = large.read();
  for (int i = 0; i < n; ++i) REQUIRE(filled[static_cast<std::size_t>(i)] == 5 + 3 * i);
}

TEST_CASE("barriers separate writes from reads of shared memory") {
  const unsigned threads = GENERATE(1u, 31u, 256u, 1024u);
  std::vector<int> values(threads * 40);
  std::iota(values.begin(), values.end(), 0);
  Buffer<int> data(values);
  MOONLET_LAUNCH(reverse_block, 40, threads, threads * sizeof(int), nullptr, data.get());
  REQUIRE(cudaGetLastError() == cudaSuccess);
  for (unsigned b = 0; b < 40; ++b) {
    std::reverse(values.begin() + b * threads, values.begin() + (b + 1) * threads);
  }
  CHECK(data.read() == values);
}

TEST_CASE("a block reduction adds up") {
  const int n = 5000;
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 1.0);
  Buffer<double> in(values), out(20);
  MOONLET_LAUNCH(block_sum<double>, 20, 256, 0, nullptr, in.get(), out.get(), n);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const auto sums = out.read();
  CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == 0.5 * n * (n + 1));

  Buffer<float> both(static_cast<std::size_t>(n));
  launch_for_both_compilers(both.get(), n, nullptr);
  CHECK(both.read()[0] == Approx(double{n} * n).epsilon(1e-6));
}

TEST_CASE("shuffles follow CUDA's rules for every width") {
  const int width = GENERATE(2, 4, 8, 16, 32);
  Buffer<double> out(32 * 6);
  MOONLET_LAUNCH(shuffles, 1, 32, 0, nullptr, out.get(), width);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const auto got = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    const int start = lane / width * width, position = lane - start, far = lane ^ 9;
    const double* mine = got.data() + lane * 6;
    CHECK(mine[0] == start + 3 % width + 0.5);
    CHECK(mine[1] == (position < 2 ? lane : lane - 2) + 0.5);
    CHECK(mine[2] == (position + 2 >= width ? lane : lane + 2) + 0.5);
    CHECK(mine[3] == (far >= start + width ? lane : far) + 0.5);
    CHECK(mine[4] == 0xaaaaaaaau);
    const unsigned alike = lane % 5 < 2 ? 0x42108421u : 0x02108421u;
    CHECK(mine[5] == static_cast<double>(alike << lane % 5));
  }
}

TEST_CASE("parts of a warp exchange on their own") {
  Buffer<int> out(64);
  MOONLET_LAUNCH(half_warps, 1, 32, 0, nullptr, out.get());
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const auto got = out.read();
  for (int i = 0; i < 32; ++i)
    CHECK(got[static_cast<std::size_t>(i)] == (i ^ 1) + (i < 16 ? 200 : 100));
}

TEST_CASE("atomics lose nothing") {
  Buffer<int> total(std::vector<int>{0}), most(std::vector<int>{-1});
  Buffer<unsigned long long> wide(std::vector<unsigned long long>{0});
  Buffer<float> sum(std::vector<float>{0});
  Buffer<double> exact(std::vector<double>{0});
  MOONLET_LAUNCH(count, 100, 256, 0, nullptr, total.get(), wide.get(), sum.get(), exact.get(),
                 most.get());
  REQUIRE(cudaGetLastError() == cudaSuccess);
  CHECK(total.read()[0] == 25600);
  CHECK(wide.read()[0] == 25600ull << 33);
  CHECK(sum.read()[0] == 25600.0f);
  CHECK(exact.read()[0] == 12800.0);
  CHECK(most.read()[0] == 25599);
}

TEST_CASE("threads that exited do not hold up a barrier") {
  const int stay = GENERATE(1, 33, 64, 100);
  Buffer<int> out(std::vector<int>(128, -1));
  MOONLET_LAUNCH(early_exit, 1, 128, 0, nullptr, out.get(), stay);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const auto got = out.read();
  for (int i = 0; i < 128; ++i) {
    CHECK(got[static_cast<std::size_t>(i)] == (i < stay ? (stay + 1) / 2 : -1));
  }
}

TEST_CASE("divergence that would hang a GPU is a launch failure that stays") {
  const int kind = GENERATE(0, 1, 2);
  for (int round = 0; round < 2; ++round) {
    int* out = nullptr;
    REQUIRE(cudaMalloc(&out, 64 * sizeof(int)) == cudaSuccess);
    if (kind == 0) MOONLET_LAUNCH(deadlock, 4, 32, 0, nullptr, out);
    if (kind == 1) MOONLET_LAUNCH(missing_lanes, 1, 32, 0, nullptr, out);
    if (kind == 2) MOONLET_LAUNCH(trap, 2000, 64, 0, nullptr, 40);
    require_sticky_failure();
    Buffer<int> after(std::vector<int>(64, -1));
    MOONLET_LAUNCH(early_exit, 1, 64, 0, nullptr, after.get(), 64);
    CHECK(after.read()[63] == 32);
  }
}

TEST_CASE("a failed device leaves the others usable") {
  MOONLET_LAUNCH(trap, 1, 1, 0, nullptr, 0);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
  require_sticky_failure();
}

/// The current device fails as after an illegal access; it is reset.
void require_illegal_address() {
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaDeviceReset() == cudaSuccess);
}

TEST_CASE("kernels and products reach the memory of other devices only as peers") {
  constexpr int n = 300;
  const Buffer<int> here(n);
  {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    void* own = nullptr;
    REQUIRE(cudaMalloc(&own, 64) == cudaSuccess);
    MOONLET_LAUNCH((fill<int, 0>), 2, 256, 0, nullptr, here.get(), n, 5);
    require_illegal_address();
    cublasHandle_t handle = nullptr;
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    const float one = 1;
    auto* there = reinterpret_cast<float*>(here.get());
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, there, 2, there, 2, &one,
                      there, 2) == CUBLAS_STATUS_EXECUTION_FAILED);
    require_illegal_address();
    REQUIRE(cudaMalloc(&own, 64) == cudaSuccess);
    REQUIRE(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    MOONLET_LAUNCH((fill<int, 0>), 2, 256, 0, nullptr, here.get(), n, 5);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaFree(own) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  CHECK(here.read() == std::vector<int>(n, 5));
}

TEST_CASE("launch sizes are checked against CUDA's limits") {
  const auto refused = [](dim3 grid, dim3 block, std::size_t shared) {
    MOONLET_LAUNCH(trap, grid, block, shared, nullptr, -1);
    return cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
  };
  CHECK(refused(0, 32, 0));
  CHECK(refused(1, 0, 0));
  CHECK(refused(1, 1025, 0));
  CHECK(refused(1, dim3(32, 33), 0));
  CHECK(refused(1, dim3(1, 1, 65), 0));
  CHECK(refused(dim3(1, 65536), 1, 0));
  CHECK(refused(1, 1, 48 * 1024 + 1));
  CHECK(cudaFuncSetAttribute(trap, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) ==
        cudaSuccess);
  CHECK_FALSE(refused(1, 1, 100000));
  CHECK(refused(1, 1, 100001));
}

TEST_CASE("memory has limits, owners and directions") {
  std::size_t available = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&available, &total) == cudaSuccess);
  CHECK(total == 64u << 20);
  const std::size_t before = available;
  void *large = nullptr, *more = nullptr;
  REQUIRE(cudaMalloc(&large, 40 << 20) == cudaSuccess);
  CHECK(cudaMalloc(&more, 40 << 20) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  CHECK(cudaMalloc(&more, ~std::size_t{0}) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMalloc(&more, 40 << 20) == cudaSuccess);
  CHECK(cudaMemcpyPeer(more, 1, large, 0, 1024) == cudaSuccess);
  CHECK(cudaMemcpyPeer(more, 0, large, 1, 1024) == cudaErrorInvalidValue);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(cudaFree(more) == cudaErrorInvalidValue);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);

  char host[16] = {};
  CHECK(cudaMemcpy(host, large, 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(large, host, 16, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(large, host, 16, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemset(host, 0, 16) == cudaErrorInvalidValue);
  char* end = static_cast<char*>(large) + (40 << 20);
  CHECK(cudaMemset(end - 8, 0, 8) == cudaSuccess);
  CHECK(cudaMemset(end - 8, 0, 9) == cudaErrorInvalidValue);
  CHECK(cudaFree(host) == cudaErrorInvalidValue);
  CHECK(cudaFree(large) == cudaSuccess);
  CHECK(cudaMemGetInfo(&available, &total) == cudaSuccess);
  CHECK(available == before);
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 100) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("devices, streams and events have identities") {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 1) == cudaSuccess);
  CHECK(std::string(properties.name) == "Emulated CUDA device 1");

  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(begin, stream) == cudaSuccess);
  MOONLET_LAUNCH(trap, 1, 1, 0, stream, -1);
  CHECK(cudaEventRecord(end, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  CHECK(ms >= 0);
  cudaGetLastError();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  MOONLET_LAUNCH(trap, 1, 1, 0, stream, -1);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventDestroy(begin) == cudaSuccess);
  CHECK(cudaEventDestroy(end) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("two host threads use a device at once") {
  std::vector<double> results(2);
  const auto work = [&results](std::size_t which) {
    for (int round = 0; round < 50; ++round) {
      double *in = nullptr, *out = nullptr;
      cudaMalloc(&in, 4096 * sizeof(double));
      cudaMalloc(&out, 8 * sizeof(double));
      MOONLET_LAUNCH((fill<double, 1>), 16, 256, 0, nullptr, in, 4096, 1.0);
      MOONLET_LAUNCH(block_sum<double>, 8, 256, 0, nullptr, in, out, 4096);
      double sums[8];
      cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
      results[which] += std::accumulate(sums, sums + 8, 0.0);
      cudaFree(in);
      cudaFree(out);
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(results[0] == 50 * 0.5 * 4096 * 4097);
  CHECK(results[1] == results[0]);
}

namespace {

template <class T>
T conjugate(T x) {
  return x;
}
template <class T>
std::complex<T> conjugate(std::complex<T> x) {
  return std::conj(x);
}

/// Element (row, column) of op(a), a column-major.
template <class T>
T element(const std::vector<T>& a, cublasOperation_t op, int step, int row, int column) {
  const int at = op == CUBLAS_OP_N ? row + column * step : column + row * step;
  const T x = a[static_cast<std::size_t>(at)];
  return op == CUBLAS_OP_C ? conjugate(x) : x;
}

template <class T, class Device, class Gemm>
void check_gemm(Gemm gemm) {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const int m = 5, n = 4, k = 3, step = 9;
  std::vector<T> a(step * step), b(step * step), c(step * step);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = T(static_cast<float>(i % 7)) - T(3);
    b[i] = T(static_cast<float>(i % 5)) - T(2);
    c[i] = T(static_cast<float>(i % 3));
    if constexpr (!std::is_floating_point_v<T>) a[i] += T(0, 1), b[i] -= T(0, 2);
  }
  const T alpha = T(2), beta = T(-1);
  for (auto op_a : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
    for (auto op_b : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
      Buffer<T> da(a), db(b), dc(c);
      const auto p = [](const T* x) { return reinterpret_cast<const Device*>(x); };
      REQUIRE(gemm(handle, op_a, op_b, m, n, k, p(&alpha), p(da.get()), step, p(db.get()), step,
                   p(&beta), reinterpret_cast<Device*>(dc.get()), step) == CUBLAS_STATUS_SUCCESS);
      auto wanted = c;
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i < m; ++i) {
          T sum{};
          for (int l = 0; l < k; ++l) {
            sum += element(a, op_a, step, i, l) * element(b, op_b, step, l, j);
          }
          T& to = wanted[static_cast<std::size_t>(i + j * step)];
          to = alpha * sum + beta * to;
        }
      }
      CHECK(dc.read() == wanted);
    }
  }
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

}  // namespace

TEST_CASE("gemm in every layout and type") {
  check_gemm<float, float>(cublasSgemm);
  check_gemm<double, double>(cublasDgemm);
  check_gemm<std::complex<float>, cuComplex>(cublasCgemm);
  check_gemm<std::complex<double>, cuDoubleComplex>(cublasZgemm);
}

TEST_CASE("batched and half products") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  // Bit patterns of 1, 2, 3, 4 and of the 2 x 2 product with itself: 7, 10, 15, 22.
  const auto type = GENERATE(CUDA_R_16F, CUDA_R_16BF);
  const bool f16 = type == CUDA_R_16F;
  const std::vector<unsigned short> one_to_four =
      f16 ? std::vector<unsigned short>{0x3c00, 0x4000, 0x4200, 0x4400}
          : std::vector<unsigned short>{0x3f80, 0x4000, 0x4040, 0x4080};
  const std::vector<unsigned short> product =
      f16 ? std::vector<unsigned short>{0x4700, 0x4900, 0x4b80, 0x4d80}
          : std::vector<unsigned short>{0x40e0, 0x4120, 0x4170, 0x41b0};
  auto twice = one_to_four;
  twice.insert(twice.end(), one_to_four.begin(), one_to_four.end());
  Buffer<unsigned short> a(twice), c(std::vector<unsigned short>(8, 0x7fff));
  CHECK(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a.get(), type,
                                   2, 4, a.get(), type, 2, 4, &zero, c.get(), type, 2, 4, 2,
                                   CUBLAS_COMPUTE_32F,
                                   CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  auto wanted = product;
  wanted.insert(wanted.end(), product.begin(), product.end());
  CHECK(c.read() == wanted);

  Buffer<float> x(std::vector<float>{1, 2, 3, 4, 5, 6}), y(2);
  CHECK(cublasSgemv(handle, CUBLAS_OP_N, 2, 3, &one, x.get(), 2, x.get(), 1, &zero, y.get(), 1) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(y.read() == std::vector<float>{22, 28});
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, x.get(), 1, x.get(), 2, &zero,
                    y.get(), 2) == CUBLAS_STATUS_INVALID_VALUE);
  const float host[4] = {};
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, host, 1, x.get(), 1, &zero,
                    y.get(), 1) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("machine code runs on newer devices of its major number", "[emulated]") {
  using moonlet::cuda::has_code_for;
  CHECK(has_code_for("80,90", 80));
  CHECK(has_code_for("80,90", 86));
  CHECK(has_code_for("80,90", 90));
  CHECK(has_code_for("80,90", 120));  // translated by the driver
  CHECK_FALSE(has_code_for("80,90", 75));
  CHECK_FALSE(has_code_for("86", 80));
  CHECK_FALSE(has_code_for("90a", 89));
}
