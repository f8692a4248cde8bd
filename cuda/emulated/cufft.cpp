// cuda/emulated/cufft.cpp: cuFFT by sums over the prime factors of lengths, in double. The work
// area is written over, and the input of transforms to real numbers, as the real library may do.
#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <vector>

#include "checks.h"
#include "cublas_v2.h"
#include "cufftXt.h"
#include "queue.h"

using namespace moonlet::emulated;

namespace {

using Number = std::complex<double>;
constexpr long long kMostPoints = 1 << 13;

struct Plan {
  int device = 0;
  bool automatic = true, made = false;
  std::vector<std::size_t> n;
  std::size_t in_step = 0, out_step = 0, count = 0, workspace = 0;
  cudaDataType in_type = CUDA_C_32F, out_type = CUDA_C_32F;
  cudaStream_t stream = nullptr;
  void* area = nullptr;
};

struct Plans {
  std::mutex mutex;
  std::map<cufftHandle, std::shared_ptr<Plan>> list;
  cufftHandle next = 1;
};
Plans& plans() {
  static Plans& it = *new Plans;
  return it;
}

std::shared_ptr<Plan> find(cufftHandle handle) {
  const std::lock_guard<std::mutex> lock(plans().mutex);
  const auto found = plans().list.find(handle);
  return found == plans().list.end() ? nullptr : found->second;
}

/// What a call that fails by the environment's word returns.
cufftResult injected() {
  switch (blas_failure()) {
    case CUBLAS_STATUS_ALLOC_FAILED: return CUFFT_ALLOC_FAILED;
    case CUBLAS_STATUS_INVALID_VALUE: return CUFFT_INVALID_VALUE;
    default: return CUFFT_EXEC_FAILED;
  }
}

bool is_complex(cudaDataType t) { return t == CUDA_C_32F || t == CUDA_C_64F; }
bool is_single(cudaDataType t) { return t == CUDA_C_32F || t == CUDA_R_32F; }
std::size_t width(cudaDataType t) { return (is_single(t) ? 4u : 8u) * (is_complex(t) ? 2u : 1u); }

std::size_t smallest_factor(std::size_t n) {
  for (std::size_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

/// y[k] = sum_j x[j step] exp(sign 2 pi i j k / n), by the parts of x that lie a prime apart.
void transform(std::size_t n, std::size_t step, double sign, const Number* x, Number* y) {
  if (n == 1) {
    *y = *x;
    return;
  }
  const std::size_t p = smallest_factor(n), m = n / p;
  std::vector<Number> parts(n);
  for (std::size_t r = 0; r < p; ++r)
    transform(m, step * p, sign, x + r * step, parts.data() + r * m);
  for (std::size_t k = 0; k < n; ++k) {
    Number sum = 0;
    for (std::size_t r = 0; r < p; ++r) {
      const double turn = static_cast<double>(r * k % n) / static_cast<double>(n);
      sum += parts[r * m + k % m] * std::polar(1.0, sign * 2 * std::numbers::pi * turn);
    }
    y[k] = sum;
  }
}

/// Along every dimension of a row-major array.
void transform_all(const std::vector<std::size_t>& sizes, double sign, std::vector<Number>& x) {
  std::size_t inner = x.size();
  for (const std::size_t n : sizes) {
    inner /= n;
    std::vector<Number> line(n), result(n);
    for (std::size_t start = 0; start < x.size(); ++start) {
      if (start / inner % n != 0) continue;
      for (std::size_t i = 0; i < n; ++i) line[i] = x[start + i * inner];
      transform(n, 1, sign, line.data(), result.data());
      for (std::size_t i = 0; i < n; ++i) x[start + i * inner] = result[i];
    }
  }
}

template <class T>
Number read(const void* from, std::size_t i, bool complex) {
  const T* x = static_cast<const T*>(from);
  return complex ? Number(x[2 * i], x[2 * i + 1]) : Number(x[i]);
}
template <class T>
void write(void* to, std::size_t i, bool complex, Number v) {
  T* y = static_cast<T*>(to);
  if (!complex) {
    y[i] = static_cast<T>(v.real());
    return;
  }
  y[2 * i] = static_cast<T>(v.real());
  y[2 * i + 1] = static_cast<T>(v.imag());
}

template <class T>
void run_one(const Plan& p, const void* in, void* out, double sign) {
  std::size_t points = 1;
  for (const std::size_t n : p.n) points *= n;
  const bool from_complex = is_complex(p.in_type), to_complex = is_complex(p.out_type);
  std::vector<Number> x(points);
  for (std::size_t i = 0; i < points; ++i) {
    const bool beyond = from_complex && !to_complex && i > points / 2;
    const Number v = read<T>(in, beyond ? points - i : i, from_complex);
    x[i] = beyond ? std::conj(v) : v;
  }
  transform_all(p.n, sign, x);
  const std::size_t kept = from_complex ? points : points / 2 + 1;
  for (std::size_t i = 0; i < kept; ++i) write<T>(out, i, to_complex, x[i]);
}

void run(const Plan& p, char* in, char* out, double sign) {
  if (p.workspace > 0) std::memset(p.area, 0xa5, p.workspace);
  const bool loses = is_complex(p.in_type) && !is_complex(p.out_type);
  for (std::size_t i = 0; i < p.count; ++i) {
    char* from = in + i * p.in_step * width(p.in_type);
    char* to = out + i * p.out_step * width(p.out_type);
    is_single(p.in_type) ? run_one<float>(p, from, to, sign) : run_one<double>(p, from, to, sign);
    if (loses) std::memset(from, 0xa5, p.in_step * width(p.in_type));
  }
}

long long product(int rank, const long long* n) {
  long long out = 1;
  for (int d = 0; d < rank; ++d) out *= n[d];
  return out;
}

}  // namespace

cufftResult cufftCreate(cufftHandle* handle) {
  if (fails("cufftCreate")) return injected();
  if (!handle) return CUFFT_INVALID_VALUE;
  if (device_error()) return CUFFT_SETUP_FAILED;
  auto plan = std::make_shared<Plan>();
  plan->device = current_device();
  const std::lock_guard<std::mutex> lock(plans().mutex);
  *handle = plans().next++;
  plans().list.emplace(*handle, std::move(plan));
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle handle) {
  const std::lock_guard<std::mutex> lock(plans().mutex);
  return plans().list.erase(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic) {
  if (fails("cufftSetAutoAllocation")) return injected();
  const auto plan = find(handle);
  if (!plan || plan->made) return CUFFT_INVALID_PLAN;
  plan->automatic = automatic != 0;
  return CUFFT_SUCCESS;
}

cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long* in,
                                long long in_stride, long long in_step, cudaDataType in_type,
                                long long* out, long long out_stride, long long out_step,
                                cudaDataType out_type, long long count, std::size_t* workspace,
                                cudaDataType type) {
  if (fails("cufftXtMakePlanMany")) return injected();
  const auto plan = find(handle);
  if (!plan || plan->made || plan->automatic) return CUFFT_INVALID_PLAN;
  if (is_captured_on(current_device())) return CUFFT_INTERNAL_ERROR;
  if (rank < 1 || rank > 3 || !n || !in || !out || !workspace || count < 1)
    return CUFFT_INVALID_VALUE;
  if (in_stride != 1 || out_stride != 1) return CUFFT_NOT_IMPLEMENTED;
  const bool half_in = is_complex(in_type) && !is_complex(out_type),
             half_out = !is_complex(in_type);
  if (!is_complex(type) || is_single(type) != is_single(in_type) ||
      is_single(type) != is_single(out_type) || (half_out && !is_complex(out_type)) ||
      ((half_in || half_out) && rank != 1))
    return CUFFT_INVALID_TYPE;
  for (int d = 0; d < rank; ++d) {
    const long long half = n[d] / 2 + 1;
    if (n[d] < 1 || in[d] != (half_in ? half : n[d]) || out[d] != (half_out ? half : n[d]))
      return CUFFT_INVALID_SIZE;
  }
  if (product(rank, n) > kMostPoints) return CUFFT_NOT_SUPPORTED;
  if (in_step != product(rank, in) || out_step != product(rank, out)) return CUFFT_INVALID_VALUE;
  plan->made = true;
  plan->n.assign(n, n + rank);
  plan->in_step = static_cast<std::size_t>(in_step);
  plan->out_step = static_cast<std::size_t>(out_step);
  plan->count = static_cast<std::size_t>(count);
  plan->in_type = in_type;
  plan->out_type = out_type;
  // Some plans of the real library need none.
  plan->workspace = product(rank, n) % 2 ? 0 : static_cast<std::size_t>(product(rank, n)) * 16;
  *workspace = plan->workspace;
  return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  if (fails("cufftSetStream")) return injected();
  const auto plan = find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  plan->stream = stream;
  return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void* area) {
  if (fails("cufftSetWorkArea")) return injected();
  const auto plan = find(handle);
  if (!plan || !plan->made) return CUFFT_INVALID_PLAN;
  plan->area = area;
  return CUFFT_SUCCESS;
}

cufftResult cufftXtExec(cufftHandle handle, void* in, void* out, int direction) {
  if (fails("cufftXtExec")) return injected();
  const auto plan = find(handle);
  if (!plan || !plan->made) return CUFFT_INVALID_PLAN;
  if (device_error() || !valid_stream(plan->stream)) return CUFFT_EXEC_FAILED;
  if (plan->device != current_device()) return CUFFT_INVALID_DEVICE;
  if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
  const std::size_t pair = is_single(plan->in_type) ? 8 : 16;
  if (reinterpret_cast<std::uintptr_t>(in) % pair || reinterpret_cast<std::uintptr_t>(out) % pair)
    return CUFFT_INVALID_VALUE;
  if (!on_device(in, plan->count * plan->in_step * width(plan->in_type)) ||
      !on_device(out, plan->count * plan->out_step * width(plan->out_type)) ||
      !on_device(plan->area, plan->workspace)) {
    set_sticky(cudaErrorIllegalAddress, "cuFFT was given memory outside every device allocation");
    return CUFFT_EXEC_FAILED;
  }
  // Transforms of real numbers have one direction each.
  const bool forward =
      !is_complex(plan->in_type) || (is_complex(plan->out_type) && direction == CUFFT_FORWARD);
  enqueue(plan->stream, [p = *plan, in, out, forward] {
    run(p, static_cast<char*>(in), static_cast<char*>(out), forward ? -1.0 : 1.0);
  });
  return CUFFT_SUCCESS;
}
