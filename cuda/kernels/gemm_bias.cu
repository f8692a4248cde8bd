// cuda/kernels/gemm_bias.cu: products with a bias by cuBLASLt, whose algorithms are looked up once
// for each shape and kept with the descriptions of the operands.
#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "cuda/kernels/gemm.h"
#include "cuda/libraries/plan_cache.h"

namespace moonlet::cuda {

namespace {

struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t l) const { cublasLtMatrixLayoutDestroy(l); }
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// What an algorithm depends on. cuBLASLt asks for the alignment of the matrices in bytes, and takes
// that of the bias from its pointer.
struct Shape {
  int device;
  cudaDataType type;
  cublasComputeType_t compute;
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc;
  uint32_t align_a, align_b, align_c, align_bias;
  bool operator==(const Shape&) const = default;
  size_t hash() const {
    Mixer out;
    out.add(device, type, compute, op_a, op_b, m, n, k, lda, ldb, ldc, align_a, align_b, align_c,
            align_bias);
    return out.value();
  }
};

struct Plan {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
  bool usable = false;
};

template <class T>
void set(const Owned<cublasLtMatmulDesc_t>& d, cublasLtMatmulDescAttributes_t what, const T& value,
         const char* op) {
  ensure(cublasLtMatmulDescSetAttribute(d.get(), what, &value, sizeof value), op);
}
template <class T>
void set(const Owned<cublasLtMatmulPreference_t>& p, cublasLtMatmulPreferenceAttributes_t what,
         const T& value, const char* op) {
  ensure(cublasLtMatmulPreferenceSetAttribute(p.get(), what, &value, sizeof value), op);
}

Owned<cublasLtMatrixLayout_t> layout(const Shape& s, int rows, int cols, int leading,
                                     const char* op) {
  cublasLtMatrixLayout_t out = nullptr;
  ensure(cublasLtMatrixLayoutCreate(&out, s.type, static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(cols), leading),
         op);
  return Owned<cublasLtMatrixLayout_t>(out);
}

// Whether the library did it. Where it has no way a plain product may do; what says that memory is
// short or the device has failed is an error.
bool went_well(cublasStatus_t status, const char* op) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return true;
  if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_EXECUTION_FAILED)
    ensure(status, op);
  ensure(cudaGetLastError(), op);
  return false;
}

Plan make_plan(const Shape& s, const void* bias, cublasLtHandle_t handle, const char* op) {
  constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
  Plan out;
  cublasLtMatmulDesc_t product = nullptr;
  ensure(cublasLtMatmulDescCreate(&product, s.compute, CUDA_R_32F), op);
  out.product.reset(product);
  set(out.product, CUBLASLT_MATMUL_DESC_TRANSA, s.op_a, op);
  set(out.product, CUBLASLT_MATMUL_DESC_TRANSB, s.op_b, op);
  set(out.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, op);
  set(out.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, op);
  const bool plain_a = s.op_a == CUBLAS_OP_N, plain_b = s.op_b == CUBLAS_OP_N;
  out.a = layout(s, plain_a ? s.m : s.k, plain_a ? s.k : s.m, s.lda, op);
  out.b = layout(s, plain_b ? s.k : s.n, plain_b ? s.n : s.k, s.ldb, op);
  out.c = layout(s, s.m, s.n, s.ldc, op);

  cublasLtMatmulPreference_t wishes = nullptr;
  ensure(cublasLtMatmulPreferenceCreate(&wishes), op);
  const Owned<cublasLtMatmulPreference_t> preference(wishes);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace, op);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_a, op);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_b, op);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_c, op);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_c, op);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, out.product.get(), out.a.get(), out.b.get(),
                                     out.c.get(), out.c.get(), preference.get(), 1, &best, &found);
  if (!went_well(status, op) || found == 0) return out;
  out.usable = true;
  out.algorithm = best.algo;
  out.workspace = best.workspaceSize;
  return out;
}

Plan& plan_of(const Shape& shape, const void* bias, cublasLtHandle_t handle, const char* op) {
  constexpr size_t kMost = 4096;  // that a thread keeps
  static thread_local PlanCache<Shape, Plan> plans(kMost);
  if (Plan* known = plans.find(shape)) return *known;
  return plans.keep(shape, make_plan(shape, bias, handle, op));
}

uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & (0 - address));
}

bool has_type(DType t) {
  return t == DType::Float32 || t == DType::Float16 || t == DType::BFloat16;
}

}  // namespace

bool gemm_bias(const Call& call, DType dtype, const Matrix& a, const Matrix& b, const Tensor& bias,
               const Matrix& c) {
  const int64_t largest = std::max({c.rows, c.cols, a.cols});
  if (!has_type(dtype) || largest > INT32_MAX || c.rows == 0 || c.cols == 0 || a.cols == 0)
    return false;
  if (bias.dim() != 1 || bias.size(0) != c.cols || bias.dtype() != dtype) return false;
  if (gemm_skinny(call, dtype, 1, 1, a, b, 0, {bias.raw(), 0, bias.stride(0)}, c)) return true;
  const Tensor offsets = contiguous(bias);
  // Row-major c is the column-major product of what is transposed.
  const BlasOperand left = blas_operand(call, dtype, 1, transposed(b)),
                    right = blas_operand(call, dtype, 1, transposed(a));
  const Shape shape{call.device().index,
                    blas_type(dtype),
                    blas_compute_type(dtype),
                    left.op,
                    right.op,
                    static_cast<int>(c.cols),
                    static_cast<int>(c.rows),
                    static_cast<int>(a.cols),
                    left.leading,
                    right.leading,
                    static_cast<int>(c.cols),
                    alignment(left.matrix.data),
                    alignment(right.matrix.data),
                    alignment(c.data),
                    alignment(offsets.raw())};
  // A handle of cuBLAS is one of cuBLASLt, too.
  const auto handle = reinterpret_cast<cublasLtHandle_t>(call.blas());
  const void* start = offsets.raw();
  Plan& plan = plan_of(shape, start, handle, call.op());
  if (!plan.usable) return false;
  Tensor room;
  try {
    room = call.scratch({static_cast<int64_t>(plan.workspace)}, DType::UInt8);
  } catch (const OutOfMemory&) {
    return false;
  }
  set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, start, call.op());
  const float one = 1, zero = 0;
  plan.usable = went_well(
      cublasLtMatmul(handle, plan.product.get(), &one, left.matrix.data, plan.a.get(),
                     right.matrix.data, plan.b.get(), &zero, c.data, plan.c.get(), c.data,
                     plan.c.get(), &plan.algorithm, room.raw(), plan.workspace, call.stream()),
      call.op());
  return plan.usable;
}

}  // namespace moonlet::cuda
