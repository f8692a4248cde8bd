// cuda/libraries/solver.cpp: calls of cuSOLVER, which is opened at the first factorization. Where
// this was built without its header there is none.
#include "cuda/libraries/solver.h"

#if __has_include(<cusolverDn.h>)

#include <cusolverDn.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "cuda/kernels/gemm.h"
#include "cuda/kernels/linalg/blas_solve.h"
#include "cuda/libraries/library.h"
#include "cuda/memory/allocator.h"

namespace moonlet::cuda {

namespace {

#define MOONLET_SOLVER_TEXT(x) #x
#define MOONLET_SOLVER_FILE(major) "libcusolver.so." MOONLET_SOLVER_TEXT(major)
#ifdef MOONLET_CUDA_EMULATED
constexpr const char* kFile = "libmoonlet-cusolver-emulated.so";
#else
constexpr const char* kFile = MOONLET_SOLVER_FILE(CUSOLVER_VER_MAJOR);
#endif

// The functions that are used, by their names in the header.
#define MOONLET_SOLVER_FUNCTIONS(F)      \
  F(cusolverDnCreate)                    \
  F(cusolverDnDestroy)                   \
  F(cusolverDnSetStream)                 \
  F(cusolverDnCreateParams)              \
  F(cusolverDnDestroyParams)             \
  F(cusolverDnXpotrf_bufferSize)         \
  F(cusolverDnXpotrf)                    \
  F(cusolverDnXgetrf_bufferSize)         \
  F(cusolverDnXgetrf)                    \
  F(cusolverDnXgetrs)                    \
  F(cusolverDnXgeqrf_bufferSize)         \
  F(cusolverDnXgeqrf)                    \
  F(cusolverDnXsyevd_bufferSize)         \
  F(cusolverDnXsyevd)                    \
  F(cusolverDnXgesvd_bufferSize)         \
  F(cusolverDnXgesvd)                    \
  F(cusolverDnSpotrfBatched)             \
  F(cusolverDnDpotrfBatched)             \
  F(cusolverDnCpotrfBatched)             \
  F(cusolverDnZpotrfBatched)             \
  F(cusolverDnSorgqr_bufferSize)         \
  F(cusolverDnDorgqr_bufferSize)         \
  F(cusolverDnCungqr_bufferSize)         \
  F(cusolverDnZungqr_bufferSize)         \
  F(cusolverDnSorgqr)                    \
  F(cusolverDnDorgqr)                    \
  F(cusolverDnCungqr)                    \
  F(cusolverDnZungqr)                    \
  F(cusolverDnCreateGesvdjInfo)          \
  F(cusolverDnDestroyGesvdjInfo)         \
  F(cusolverDnSgesvdjBatched)            \
  F(cusolverDnDgesvdjBatched)            \
  F(cusolverDnCgesvdjBatched)            \
  F(cusolverDnZgesvdjBatched)            \
  F(cusolverDnSgesvdjBatched_bufferSize) \
  F(cusolverDnDgesvdjBatched_bufferSize) \
  F(cusolverDnCgesvdjBatched_bufferSize) \
  F(cusolverDnZgesvdjBatched_bufferSize)

// Those that releases before CUDA 12.6 lack.
#if CUSOLVER_VERSION >= 11701
#define MOONLET_SOLVER_LATER(F)        \
  F(cusolverDnXsyevBatched_bufferSize) \
  F(cusolverDnXsyevBatched)
#else
#define MOONLET_SOLVER_LATER(F)
#endif

struct Functions {
#define MOONLET_SOLVER_MEMBER(name) decltype(&::name) name = nullptr;
  MOONLET_SOLVER_FUNCTIONS(MOONLET_SOLVER_MEMBER)
  MOONLET_SOLVER_LATER(MOONLET_SOLVER_MEMBER)
#undef MOONLET_SOLVER_MEMBER

  // False where the library is not there or lacks one.
  bool load() {
    void* library = open_library("cusolver", kFile);
    if (library == nullptr) return false;
#define MOONLET_SOLVER_FIND(name) \
  if (!find_in(library, #name, name)) return false;
    MOONLET_SOLVER_FUNCTIONS(MOONLET_SOLVER_FIND)
#undef MOONLET_SOLVER_FIND
#define MOONLET_SOLVER_FIND(name) find_in(library, #name, name);
    MOONLET_SOLVER_LATER(MOONLET_SOLVER_FIND)
#undef MOONLET_SOLVER_FIND
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

const char* name_of(cusolverStatus_t status) {
  switch (status) {
    case CUSOLVER_STATUS_NOT_INITIALIZED: return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_INVALID_VALUE: return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH: return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED: return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR: return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_NOT_SUPPORTED: return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default: return "of another kind";
  }
}

void ensure(cusolverStatus_t status, const char* op) {
  if (status == CUSOLVER_STATUS_SUCCESS) [[likely]]
    return;
  cudaGetLastError();
  if (status == CUSOLVER_STATUS_ALLOC_FAILED) cuda::ensure(cudaErrorMemoryAllocation, op);
  fail(op, ": cuSOLVER error ", name_of(status), " (", static_cast<int>(status), ")");
}

// The handle of a thread and device, and the choices that all calls share: the standard ones.
struct Handle {
  cusolverDnHandle_t solver = nullptr;
  cusolverDnParams_t params = nullptr;
  gesvdjInfo_t rotations = nullptr;
};

struct Handles {
  std::vector<Handle> list;
  ~Handles() {
    for (const Handle& handle : list) {
      if (handle.rotations) functions()->cusolverDnDestroyGesvdjInfo(handle.rotations);
      if (handle.params) functions()->cusolverDnDestroyParams(handle.params);
      if (handle.solver) functions()->cusolverDnDestroy(handle.solver);
    }
  }
};

const Handle& handle_of(const Call& call) {
  static thread_local Handles handles;
  const auto at = static_cast<size_t>(call.device().index);
  if (handles.list.size() <= at) handles.list.resize(at + 1);
  Handle& handle = handles.list[at];
  if (!handle.solver) {
    cusolverStatus_t status = functions()->cusolverDnCreate(&handle.solver);
    if (status == CUSOLVER_STATUS_ALLOC_FAILED || status == CUSOLVER_STATUS_NOT_INITIALIZED) {
      // Its memory may be in our cache.
      caching_allocator().empty_cache();
      cudaGetLastError();
      status = functions()->cusolverDnCreate(&handle.solver);
    }
    if (status != CUSOLVER_STATUS_SUCCESS) handle.solver = nullptr;
    ensure(status, call.op());
  }
  if (!handle.params) {
    const cusolverStatus_t status = functions()->cusolverDnCreateParams(&handle.params);
    if (status != CUSOLVER_STATUS_SUCCESS) handle.params = nullptr;
    ensure(status, call.op());
  }
  if (!handle.rotations) {
    const cusolverStatus_t status = functions()->cusolverDnCreateGesvdjInfo(&handle.rotations);
    if (status != CUSOLVER_STATUS_SUCCESS) handle.rotations = nullptr;
    ensure(status, call.op());
  }
  ensure(functions()->cusolverDnSetStream(handle.solver, call.stream()), call.op());
  return handle;
}

// Workspaces on both sides; the device's is a block of the current stream.
struct Workspace {
  size_t on_device = 0, on_host = 0;
  Tensor device;
  std::vector<char> host;

  void get(const Call& call) {
    device = call.scratch({static_cast<int64_t>(std::max<size_t>(on_device, 1))}, DType::UInt8);
    host.resize(std::max<size_t>(on_host, 1));
  }
  void* device_bytes() { return device.raw(); }
};

// The position of entry i, whose matrices have `each` elements.
void* entry(void* first, int64_t i, int64_t each, DType dtype) {
  return static_cast<char*>(first) + i * each * static_cast<int64_t>(size_of(dtype));
}
const void* entry(const void* first, int64_t i, int64_t each, DType dtype) {
  return static_cast<const char*>(first) + i * each * static_cast<int64_t>(size_of(dtype));
}

cublasFillMode_t triangle(bool upper) {
  return upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}

// f(the function for the dtype, a pointer of its element type that is null): which overload of a
// call is meant.
template <class F, class S, class D, class C, class Z>
void visit_typed(DType dtype, const F& f, S s, D d, C c, Z z) {
  switch (dtype) {
    case DType::Float32: return f(s, static_cast<float*>(nullptr));
    case DType::Float64: return f(d, static_cast<double*>(nullptr));
    case DType::Complex64: return f(c, static_cast<cuComplex*>(nullptr));
    default: return f(z, static_cast<cuDoubleComplex*>(nullptr));
  }
}

class CuSolver : public Solver {
 public:
  void potrf(const Call& call, DType dtype, bool upper, int64_t n, int64_t count, void* a,
             int* info) override;
  void getrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
             int64_t* pivots, int* info) override;
  void getrs(const Call& call, DType dtype, int64_t n, int64_t columns, int64_t count,
             const void* lu, const int64_t* pivots, void* b) override;
  void geqrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
             void* tau) override;
  void orgqr(const Call& call, DType dtype, int64_t m, int64_t n, int64_t k, int64_t count, void* q,
             const void* tau) override;
  void syevd(const Call& call, DType dtype, bool vectors, bool upper, int64_t n, int64_t count,
             void* a, void* values, int* info) override;
  void gesvd(const Call& call, DType dtype, char job, int64_t m, int64_t n, int64_t count, void* a,
             void* s, void* u, void* vh, int* info) override;
  void gesvdj(const Call& call, DType dtype, bool vectors, int64_t m, int64_t n, int64_t count,
              void* a, void* s, void* u, void* v, int* info) override;

 private:
  // Of all matrices at once; false, with nothing done, where the library cannot.
  bool syev_batched(const Call& call, DType dtype, bool vectors, bool upper, int64_t n,
                    int64_t count, void* a, void* values, int* info);

  const Functions& f_ = *functions();
};

void CuSolver::potrf(const Call& call, DType dtype, bool upper, int64_t n, int64_t count, void* a,
                     int* info) {
  const Handle& handle = handle_of(call);
  const int size = static_cast<int>(n);
  if (count == 1) {
    const cudaDataType type = blas_type(dtype);
    Workspace workspace;
    ensure(f_.cusolverDnXpotrf_bufferSize(handle.solver, handle.params, triangle(upper), n, type, a,
                                          n, type, &workspace.on_device, &workspace.on_host),
           call.op());
    workspace.get(call);
    return ensure(f_.cusolverDnXpotrf(handle.solver, handle.params, triangle(upper), n, type, a, n,
                                      type, workspace.device_bytes(), workspace.on_device,
                                      workspace.host.data(), workspace.on_host, info),
                  call.op());
  }
  const int64_t bytes = n * n * static_cast<int64_t>(size_of(dtype));
  each_chunk(count, [&](int64_t begin, int64_t part) {
    const Tensor addresses = addresses_of(call, static_cast<char*>(a) + begin * bytes, bytes, part);
    visit_typed(
        dtype,
        [&]<class T>(auto function, T*) {
          ensure(
              function(handle.solver, triangle(upper), size, reinterpret_cast<T**>(addresses.raw()),
                       size, info + begin, static_cast<int>(part)),
              call.op());
        },
        f_.cusolverDnSpotrfBatched, f_.cusolverDnDpotrfBatched, f_.cusolverDnCpotrfBatched,
        f_.cusolverDnZpotrfBatched);
  });
}

void CuSolver::getrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
                     int64_t* pivots, int* info) {
  const Handle& handle = handle_of(call);
  const cudaDataType type = blas_type(dtype);
  Workspace workspace;
  ensure(f_.cusolverDnXgetrf_bufferSize(handle.solver, handle.params, m, n, type, a, m, type,
                                        &workspace.on_device, &workspace.on_host),
         call.op());
  workspace.get(call);
  for (int64_t i = 0; i < count; ++i) {
    ensure(f_.cusolverDnXgetrf(handle.solver, handle.params, m, n, type, entry(a, i, m * n, dtype),
                               m, pivots + i * std::min(m, n), type, workspace.device_bytes(),
                               workspace.on_device, workspace.host.data(), workspace.on_host,
                               info + i),
           call.op());
  }
}

void CuSolver::getrs(const Call& call, DType dtype, int64_t n, int64_t columns, int64_t count,
                     const void* lu, const int64_t* pivots, void* b) {
  const Handle& handle = handle_of(call);
  const cudaDataType type = blas_type(dtype);
  const Tensor info = call.scratch({1}, DType::Int32);  // of arguments, which are right
  for (int64_t i = 0; i < count; ++i) {
    ensure(f_.cusolverDnXgetrs(handle.solver, handle.params, CUBLAS_OP_N, n, columns, type,
                               entry(lu, i, n * n, dtype), n, pivots + i * n, type,
                               entry(b, i, n * columns, dtype), n, info.elements<int>()),
           call.op());
  }
}

void CuSolver::geqrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
                     void* tau) {
  const Handle& handle = handle_of(call);
  const cudaDataType type = blas_type(dtype);
  const Tensor info = call.scratch({1}, DType::Int32);
  Workspace workspace;
  ensure(f_.cusolverDnXgeqrf_bufferSize(handle.solver, handle.params, m, n, type, a, m, type, tau,
                                        type, &workspace.on_device, &workspace.on_host),
         call.op());
  workspace.get(call);
  for (int64_t i = 0; i < count; ++i) {
    ensure(f_.cusolverDnXgeqrf(handle.solver, handle.params, m, n, type, entry(a, i, m * n, dtype),
                               m, type, entry(tau, i, std::min(m, n), dtype), type,
                               workspace.device_bytes(), workspace.on_device, workspace.host.data(),
                               workspace.on_host, info.elements<int>()),
           call.op());
  }
}

void CuSolver::orgqr(const Call& call, DType dtype, int64_t rows, int64_t cols, int64_t reflections,
                     int64_t count, void* q, const void* tau) {
  const Handle& handle = handle_of(call);
  const int m = static_cast<int>(rows), n = static_cast<int>(cols),
            k = static_cast<int>(reflections);
  const Tensor info = call.scratch({1}, DType::Int32);
  int size = 0;
  visit_typed(
      dtype,
      [&]<class T>(auto function, T*) {
        ensure(function(handle.solver, m, n, k, static_cast<const T*>(q), m,
                        static_cast<const T*>(tau), &size),
               call.op());
      },
      f_.cusolverDnSorgqr_bufferSize, f_.cusolverDnDorgqr_bufferSize,
      f_.cusolverDnCungqr_bufferSize, f_.cusolverDnZungqr_bufferSize);
  const Tensor workspace = call.scratch({std::max(size, 1)}, dtype);
  for (int64_t i = 0; i < count; ++i) {
    visit_typed(
        dtype,
        [&]<class T>(auto function, T*) {
          ensure(function(handle.solver, m, n, k, static_cast<T*>(entry(q, i, rows * cols, dtype)),
                          m, static_cast<const T*>(entry(tau, i, reflections, dtype)),
                          reinterpret_cast<T*>(workspace.raw()), size, info.elements<int>()),
                 call.op());
        },
        f_.cusolverDnSorgqr, f_.cusolverDnDorgqr, f_.cusolverDnCungqr, f_.cusolverDnZungqr);
  }
}

cusolverEigMode_t mode_of(bool vectors) {
  return vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
}

bool CuSolver::syev_batched(const Call& call, DType dtype, bool vectors, bool upper, int64_t n,
                            int64_t count, void* a, void* values, int* info) {
#if CUSOLVER_VERSION >= 11701
  // It counts elements in 32 bits.
  const int64_t most = std::min<int64_t>(count, std::numeric_limits<int32_t>::max() / (n * n));
  if (!f_.cusolverDnXsyevBatched || !f_.cusolverDnXsyevBatched_bufferSize || most < 2) return false;
  const Handle& handle = handle_of(call);
  const DType real = real_of(dtype);
  const cudaDataType type = blas_type(dtype), real_type = blas_type(real);
  Workspace workspace;
  ensure(f_.cusolverDnXsyevBatched_bufferSize(handle.solver, handle.params, mode_of(vectors),
                                              triangle(upper), n, type, a, n, real_type, values,
                                              type, &workspace.on_device, &workspace.on_host, most),
         call.op());
  workspace.get(call);
  for (int64_t i = 0; i < count; i += most)
    ensure(f_.cusolverDnXsyevBatched(
               handle.solver, handle.params, mode_of(vectors), triangle(upper), n, type,
               entry(a, i, n * n, dtype), n, real_type, entry(values, i, n, real), type,
               workspace.device_bytes(), workspace.on_device, workspace.host.data(),
               workspace.on_host, info + i, std::min(most, count - i)),
           call.op());
  return true;
#else
  return false;
#endif
}

void CuSolver::syevd(const Call& call, DType dtype, bool vectors, bool upper, int64_t n,
                     int64_t count, void* a, void* values, int* info) {
  if (count > 1 && syev_batched(call, dtype, vectors, upper, n, count, a, values, info)) return;
  const Handle& handle = handle_of(call);
  const DType real = real_of(dtype);
  const cudaDataType type = blas_type(dtype), real_type = blas_type(real);
  const cusolverEigMode_t mode = mode_of(vectors);
  Workspace workspace;
  ensure(f_.cusolverDnXsyevd_bufferSize(handle.solver, handle.params, mode, triangle(upper), n,
                                        type, a, n, real_type, values, type, &workspace.on_device,
                                        &workspace.on_host),
         call.op());
  workspace.get(call);
  for (int64_t i = 0; i < count; ++i) {
    ensure(f_.cusolverDnXsyevd(handle.solver, handle.params, mode, triangle(upper), n, type,
                               entry(a, i, n * n, dtype), n, real_type, entry(values, i, n, real),
                               type, workspace.device_bytes(), workspace.on_device,
                               workspace.host.data(), workspace.on_host, info + i),
           call.op());
  }
}

void CuSolver::gesvd(const Call& call, DType dtype, char job, int64_t m, int64_t n, int64_t count,
                     void* a, void* s, void* u, void* vh, int* info) {
  const Handle& handle = handle_of(call);
  const DType real = real_of(dtype);
  const cudaDataType type = blas_type(dtype), real_type = blas_type(real);
  const auto wish = static_cast<signed char>(job);
  const int64_t columns = job == 'N' ? 0 : job == 'S' ? n : m, rows = job == 'N' ? 0 : n;
  Workspace workspace;
  ensure(f_.cusolverDnXgesvd_bufferSize(handle.solver, handle.params, wish, wish, m, n, type, a, m,
                                        real_type, s, type, u, m, type, vh, n, type,
                                        &workspace.on_device, &workspace.on_host),
         call.op());
  workspace.get(call);
  for (int64_t i = 0; i < count; ++i) {
    ensure(f_.cusolverDnXgesvd(
               handle.solver, handle.params, wish, wish, m, n, type, entry(a, i, m * n, dtype), m,
               real_type, entry(s, i, n, real), type, entry(u, i, m * columns, dtype), m, type,
               entry(vh, i, rows * n, dtype), n, type, workspace.device_bytes(),
               workspace.on_device, workspace.host.data(), workspace.on_host, info + i),
           call.op());
  }
}

void CuSolver::gesvdj(const Call& call, DType dtype, bool vectors, int64_t rows, int64_t cols,
                      int64_t count, void* a, void* s, void* u, void* v, int* info) {
  const Handle& handle = handle_of(call);
  const DType real = real_of(dtype);
  const int m = static_cast<int>(rows), n = static_cast<int>(cols);
  const auto run = [&]<class T, class R>(auto size_of_work, auto function, T*, R*) {
    each_chunk(count, [&](int64_t begin, int64_t part) {
      const int entries = static_cast<int>(part);
      auto* const values = static_cast<R*>(entry(s, begin, std::min(m, n), real));
      auto* const matrices = static_cast<T*>(entry(a, begin, rows * cols, dtype));
      auto* const first = static_cast<T*>(entry(u, begin, rows * rows, dtype));
      auto* const second = static_cast<T*>(entry(v, begin, cols * cols, dtype));
      int size = 0;
      ensure(size_of_work(handle.solver, mode_of(vectors), m, n, matrices, m, values, first, m,
                          second, n, &size, handle.rotations, entries),
             call.op());
      const Tensor work = call.scratch({std::max(size, 1)}, dtype);
      ensure(
          function(handle.solver, mode_of(vectors), m, n, matrices, m, values, first, m, second, n,
                   reinterpret_cast<T*>(work.raw()), size, info + begin, handle.rotations, entries),
          call.op());
    });
  };
  float* const single = nullptr;
  double* const twice = nullptr;
  switch (dtype) {
    case DType::Float32:
      run(f_.cusolverDnSgesvdjBatched_bufferSize, f_.cusolverDnSgesvdjBatched, single, single);
      break;
    case DType::Float64:
      run(f_.cusolverDnDgesvdjBatched_bufferSize, f_.cusolverDnDgesvdjBatched, twice, twice);
      break;
    case DType::Complex64:
      run(f_.cusolverDnCgesvdjBatched_bufferSize, f_.cusolverDnCgesvdjBatched,
          static_cast<cuComplex*>(nullptr), single);
      break;
    default:
      run(f_.cusolverDnZgesvdjBatched_bufferSize, f_.cusolverDnZgesvdjBatched,
          static_cast<cuDoubleComplex*>(nullptr), twice);
  }
}

}  // namespace

Solver* solver() {
  static Solver* const it = functions() ? new CuSolver : nullptr;
  return it;
}

}  // namespace moonlet::cuda

#else

namespace moonlet::cuda {

Solver* solver() { return nullptr; }

}  // namespace moonlet::cuda

#endif
