// cuda/libraries/fft_library.cpp: cuFFT, which is opened at the first transform, and its plans,
// which are kept by thread. Where this was built without its header there is none.
#include "cuda/libraries/fft_library.h"

#if __has_include(<cufftXt.h>)

#include <cufft.h>
#include <cufftXt.h>

#include <algorithm>
#include <list>
#include <memory>

#include "cuda/kernels/gemm.h"
#include "cuda/libraries/library.h"
#include "cuda/memory/allocator.h"
#include "cuda/runtime/graph.h"

namespace moonlet::cuda {

namespace {

#ifdef MOONLET_CUDA_EMULATED
constexpr const char* kFile = "libmoonlet-cufft-emulated.so";
#else
#define MOONLET_FFT_TEXT(x) #x
#define MOONLET_FFT_FILE(major) "libcufft.so." MOONLET_FFT_TEXT(major)
constexpr const char* kFile = MOONLET_FFT_FILE(CUFFT_VER_MAJOR);
#endif

#define MOONLET_FFT_FUNCTIONS(F) \
  F(cufftCreate)                 \
  F(cufftDestroy)                \
  F(cufftSetAutoAllocation)      \
  F(cufftXtMakePlanMany)         \
  F(cufftSetStream)              \
  F(cufftSetWorkArea)            \
  F(cufftXtExec)

struct Functions {
#define MOONLET_FFT_MEMBER(name) decltype(&::name) name = nullptr;
  MOONLET_FFT_FUNCTIONS(MOONLET_FFT_MEMBER)
#undef MOONLET_FFT_MEMBER

  bool load() {
    void* library = open_library("cufft", kFile);
    if (library == nullptr) return false;
#define MOONLET_FFT_FIND(name) \
  if (!find_in(library, #name, name)) return false;
    MOONLET_FFT_FUNCTIONS(MOONLET_FFT_FIND)
#undef MOONLET_FFT_FIND
    return true;
  }
};

// Null where it is not there.
const Functions* functions() {
  static const Functions* const found = [] {
    auto out = std::make_unique<Functions>();
    return out->load() ? out.release() : nullptr;
  }();
  return found;
}

void ensure(cufftResult result, const char* op) {
  if (result == CUFFT_SUCCESS) [[likely]]
    return;
  cudaGetLastError();
  if (result == CUFFT_ALLOC_FAILED) cuda::ensure(cudaErrorMemoryAllocation, op);
  fail(op, ": cuFFT error ", static_cast<int>(result));
}

// What a plan depends on.
struct Shape {
  int device;
  FftKind kind;
  DType dtype;  // of x
  Dims sizes;
  int64_t count;
  bool operator==(const Shape&) const = default;
};

// A plan is for the rest of the process once a graph has recorded it, which reads its tables.
struct Plan {
  Shape shape;
  cufftHandle handle = 0;
  size_t workspace = 0;
  bool made = false, usable = false, recorded = false;

  explicit Plan(const Shape& wanted) : shape(wanted) {}
  ~Plan() {
    if (made && !recorded) functions()->cufftDestroy(handle);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};

// What cuFFT says of sizes that it cannot do.
bool is_refusal(cufftResult result) {
  return result == CUFFT_INVALID_SIZE || result == CUFFT_NOT_SUPPORTED ||
         result == CUFFT_NOT_IMPLEMENTED;
}

cufftResult describe(Plan& plan) {
  const Shape& s = plan.shape;
  const int rank = s.sizes.size();
  long long points[3] = {}, in[3] = {}, out[3] = {}, from = 1, to = 1;
  for (int d = 0; d < rank; ++d) points[d] = in[d] = out[d] = s.sizes[d];
  const long long half = points[rank - 1] / 2 + 1;
  if (s.kind == FftKind::ComplexToReal) in[rank - 1] = half;
  if (s.kind == FftKind::RealToComplex) out[rank - 1] = half;
  for (int d = 0; d < rank; ++d) {
    from *= in[d];
    to *= out[d];
  }
  const DType whole = complex_of(s.dtype), part = real_of(s.dtype);
  const cudaDataType complex = blas_type(whole), real = blas_type(part);
  return functions()->cufftXtMakePlanMany(plan.handle, rank, points, in, 1, from,
                                          s.kind == FftKind::RealToComplex ? real : complex, out, 1,
                                          to, s.kind == FftKind::ComplexToReal ? real : complex,
                                          s.count, &plan.workspace, complex);
}

void make(Plan& plan, const char* op) {
  ensure(functions()->cufftCreate(&plan.handle), op);
  plan.made = true;
  ensure(functions()->cufftSetAutoAllocation(plan.handle, 0), op);
  cufftResult result = describe(plan);
  if (is_refusal(result)) return;
  if (result == CUFFT_ALLOC_FAILED) {
    // Its memory may be in our cache. A plan that failed is not made again.
    caching_allocator().empty_cache();
    cudaGetLastError();
    functions()->cufftDestroy(plan.handle);
    plan.made = false;
    ensure(functions()->cufftCreate(&plan.handle), op);
    plan.made = true;
    ensure(functions()->cufftSetAutoAllocation(plan.handle, 0), op);
    result = describe(plan);
  }
  ensure(result, op);
  plan.usable = true;
}

// The plan for a shape, of this thread's; the one that was used the longest time ago gives way to a
// new one. Null in a capture for what would have to be made, which takes memory.
Plan* plan_of(const Shape& shape, bool captured, const char* op) {
  constexpr size_t kMost = 64;
  static thread_local std::list<std::unique_ptr<Plan>> plans;
  for (auto at = plans.begin(); at != plans.end(); ++at) {
    if (!((*at)->shape == shape)) continue;
    plans.splice(plans.begin(), plans, at);
    return plans.front().get();
  }
  if (captured) return nullptr;
  auto plan = std::make_unique<Plan>(shape);
  make(*plan, op);
  plans.push_front(std::move(plan));
  if (plans.size() > kMost) plans.pop_back();
  return plans.front().get();
}

}  // namespace

bool library_fft(const Call& call, FftKind kind, const Dims& sizes, int64_t count, bool forward,
                 const Tensor& x, const Tensor& y) {
  const Functions* const f = functions();
  if (f == nullptr) return false;
  const bool captured = is_captured(call.stream());
  Plan* const plan =
      plan_of({call.device().index, kind, x.dtype(), sizes, count}, captured, call.op());
  if (plan == nullptr || !plan->usable) return false;
  const Tensor workspace = call.scratch({static_cast<int64_t>(plan->workspace)}, DType::UInt8);
  ensure(f->cufftSetStream(plan->handle, call.stream()), call.op());
  if (plan->workspace > 0) ensure(f->cufftSetWorkArea(plan->handle, workspace.raw()), call.op());
  plan->recorded = plan->recorded || captured;
  ensure(f->cufftXtExec(plan->handle, x.raw(), y.raw(), forward ? CUFFT_FORWARD : CUFFT_INVERSE),
         call.op());
  return true;
}

}  // namespace moonlet::cuda

#else

namespace moonlet::cuda {

bool library_fft(const Call&, FftKind, const Dims&, int64_t, bool, const Tensor&, const Tensor&) {
  return false;
}

}  // namespace moonlet::cuda

#endif
