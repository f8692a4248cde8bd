// cuda/kernels/gemm_bias.cu: products with a bias by cuBLASLt, whose algorithms are looked up once
// for each shape and kept with the descriptions of the operands.
#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "cuda/kernels/gemm.h"

namespace moonlet::cuda {

namespace {

struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t l) const { cublasLtMatrixLayoutDestroy(l); }
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// What an algorithm depends on. cuBLASLt asks for the alignment of the matrices in bytes.
struct Shape {
  int device;
  cudaDataType type;
  cublasComputeType_t compute;
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc;
  uint32_t align_a, align_b, align_c;
  bool operator==(const Shape&) const = default;
};

struct Plan {
  Shape shape;
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

Plan make_plan(const Shape& s, cublasLtHandle_t handle, const char* op) {
  constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
  Plan out;
  out.shape = s;
  cublasLtMatmulDesc_t product = nullptr;
  ensure(cublasLtMatmulDescCreate(&product, s.compute, CUDA_R_32F), op);
  out.product.reset(product);
  set(out.product, CUBLASLT_MATMUL_DESC_TRANSA, s.op_a, op);
  set(out.product, CUBLASLT_MATMUL_DESC_TRANSB, s.op_b, op);
  set(out.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, op);
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
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
    return out;
  ensure(status, op);
  out.usable = true;
  out.algorithm = best.algo;
  out.workspace = best.workspaceSize;
  return out;
}

// The plan for a shape, of this thread's; the oldest gives way to a new one.
const Plan& plan_of(const Shape& shape, cublasLtHandle_t handle, const char* op) {
  constexpr size_t kMost = 64;
  static thread_local std::vector<Plan> plans;
  static thread_local size_t oldest = 0;
  for (const Plan& plan : plans)
    if (plan.shape == shape) return plan;
  Plan made = make_plan(shape, handle, op);
  if (plans.size() < kMost) return plans.emplace_back(std::move(made));
  Plan& slot = plans[oldest];
  oldest = (oldest + 1) % kMost;
  slot = std::move(made);
  return slot;
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
                    alignment(c.data)};
  // A handle of cuBLAS is one of cuBLASLt, too.
  const auto handle = reinterpret_cast<cublasLtHandle_t>(call.blas());
  const Plan& plan = plan_of(shape, handle, call.op());
  if (!plan.usable) return false;
  const void* start = offsets.raw();
  set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, start, call.op());
  const Tensor room = call.scratch({static_cast<int64_t>(plan.workspace)}, DType::UInt8);
  const float one = 1, zero = 0;
  ensure(cublasLtMatmul(handle, plan.product.get(), &one, left.matrix.data, plan.a.get(),
                        right.matrix.data, plan.b.get(), &zero, c.data, plan.c.get(), c.data,
                        plan.c.get(), &plan.algorithm, room.raw(), plan.workspace, call.stream()),
         call.op());
  return true;
}

}  // namespace moonlet::cuda
