// tensor/cpu/pointwise/pointwise.cpp: the engine behind every pointwise kernel of the CPU.
#include "tensor/cpu/pointwise/pointwise.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/functors/functor_math.h"

namespace moonlet::cpu {

namespace {

constexpr size_t kPieceBytes = thresholds::pointwise::kPieceBytes;
constexpr int64_t kLongRow = thresholds::pointwise::kLongRow;
constexpr int64_t kConstantPiece = thresholds::pointwise::kConstantPiece;
constexpr size_t kSmallPieceBytes = thresholds::pointwise::kSmallPieceBytes;
constexpr size_t kNumberBytes = static_cast<size_t>(kConstantPiece) * sizeof(float);

PointwiseLoop loop_for(const PointwisePlan& plan, const PointwiseLoops& loops) {
  PointwiseLoop loop = nullptr;
  switch (plan.compute) {
    case DType::Float32: loop = loops.f32; break;
    case DType::Float64: loop = loops.f64; break;
    case DType::Int64: loop = loops.i64; break;
    case DType::Complex64: loop = loops.c64; break;
    case DType::Complex128: loop = loops.c128; break;
    default: break;
  }
  if (!loop) fail(plan.op, ": no CPU loop for ", plan.compute);
  return loop;
}

// Whether the operand's elements lie one after another in the order of the walk.
bool is_dense(const PointwisePlan& plan, const PointwiseArg& arg) {
  auto expected = static_cast<int64_t>(size_of(arg.dtype));
  for (int d = 0; d < plan.ndim; ++d) {
    if (arg.strides[d] != expected) return false;
    expected *= plan.sizes[d];
  }
  return true;
}

// Calls f(offset of the operand in bytes, elements) for each stretch of dimension 0 among the n
// elements from `begin`.
template <class F>
void for_each_run(const PointwisePlan& plan, const PointwiseArg& arg, int64_t begin, int64_t n,
                  F&& f) {
  int64_t at[kMaxDims];
  int64_t offset = 0;
  for (int d = 0; d < plan.ndim; ++d) {
    at[d] = begin % plan.sizes[d];
    begin /= plan.sizes[d];
    offset += at[d] * arg.strides[d];
  }
  while (n > 0) {
    const int64_t count = std::min(n, plan.sizes[0] - at[0]);
    f(offset, count);
    n -= count;
    at[0] += count;
    offset += count * arg.strides[0];
    for (int d = 0; d < plan.ndim - 1 && at[d] == plan.sizes[d]; ++d) {
      offset += arg.strides[d + 1] - at[d] * arg.strides[d];
      at[d] = 0;
      ++at[d + 1];
    }
  }
}

// The dtypes that have loops of small integers.
constexpr DTypeSet kSmallIntegers =
    bit(DType::Int8) | bit(DType::UInt8) | bit(DType::Int16) | bit(DType::Int32);

void fill_scalar(const Scalar& value, DType compute, char* to, int64_t n) {
  visit<dtypes::floating | kSmallIntegers | bit(DType::Int64) | dtypes::complex>(
      compute, [&]<class T>() { std::fill_n(reinterpret_cast<T*>(to), n, value.to<T>()); });
}

// Copies the first `done` of n elements of so many bytes on until all are written.
void copy_onwards(char* to, int64_t width, int64_t done, int64_t n) {
  for (; done < n; done *= 2)
    std::memcpy(to + done * width, to, static_cast<size_t>(std::min(done, n - done) * width));
}

// Whether a 16-bit format holds the number as float32 does.
bool holds(DType format, const Scalar& number) {
  const float value = number.to<float>();
  return value == (format == DType::BFloat16 ? float(bfloat16(value)) : float(half(value)));
}

// Whether the operand is a number that a loop for 16-bit floats takes as a float32.
bool is_wide_number(const PointwisePlan& plan, const PointwiseArg& arg) {
  return arg.scalar && is_reduced_floating(plan.compute) && !holds(plan.compute, *arg.scalar);
}

// How one operand of a plan reaches the loop: in its own memory, throughout or along each row, as a
// number, throughout or for each row, as one of float32, or through scratch memory.
struct Access {
  enum Kind { Direct, Row, Constant, RowConstant, WideNumber, Gather } kind;
  Converter convert;
};

Access access_of(const PointwisePlan& plan, const PointwiseArg& arg, bool is_out) {
  if (is_wide_number(plan, arg)) return {Access::WideNumber, nullptr};
  if (arg.scalar) return {Access::Constant, nullptr};
  const DType from = is_out ? plan.compute : arg.dtype;
  const DType to = is_out ? arg.dtype : plan.compute;
  if (from == to && is_dense(plan, arg)) return {Access::Direct, nullptr};
  if (from == to && plan.sizes[0] >= kLongRow &&
      arg.strides[0] == static_cast<int64_t>(size_of(to)))
    return {Access::Row, nullptr};
  const Converter convert = converter(from, to);
  if (!is_out && arg.is_constant(plan.ndim)) return {Access::Constant, convert};
  const bool in_rows = !is_out && plan.sizes[0] >= kLongRow && arg.strides[0] == 0;
  return {in_rows ? Access::RowConstant : Access::Gather, convert};
}

// Walks part of a plan in pieces of so many bytes, with scratch memory of its own.
template <size_t PieceBytes>
class Walker {
 public:
  Walker(const PointwisePlan& plan, PointwiseLoop loop) : plan_(plan), loop_(loop) {
    width_ = static_cast<int64_t>(size_of(plan.compute));
    piece_ = static_cast<int64_t>(PieceBytes) / width_;
    out_ = access_of(plan, plan.out, true);
    whole_ = out_.kind == Access::Direct;
    rows_ = out_.kind == Access::Row;
    for (int i = 0; i < plan.inputs; ++i) {
      in_[i] = access_of(plan, plan.in[i], false);
      whole_ = whole_ && in_[i].kind == Access::Direct;
      rows_ = rows_ || in_[i].kind == Access::Row || in_[i].kind == Access::RowConstant;
      if (in_[i].kind == Access::RowConstant) piece_ = std::min(piece_, kConstantPiece);
    }
  }

  void run(int64_t begin, int64_t end) {
    if (rows_) start_at(begin);
    const int64_t step = whole_ ? end - begin : piece_;
    const void* from[kMaxPointwiseInputs];
    float number = 0;
    for (int i = 0; i < plan_.inputs; ++i) {
      if (in_[i].kind == Access::Constant) from[i] = fill(i, 0, std::min(piece_, end - begin));
      if (in_[i].kind != Access::WideNumber) continue;
      number = plan_.in[i].scalar->to<float>();
      from[i] = &number;
    }
    for (int64_t at = begin, n = 0; at < end; at += n) {
      n = std::min(step, end - at);
      if (rows_) n = std::min(n, plan_.sizes[0] - position_[0]);
      for (int i = 0; i < plan_.inputs; ++i) {
        if (in_[i].kind == Access::Gather)
          from[i] = gather(i, at, n);
        else if (in_[i].kind == Access::RowConstant)
          from[i] =
              at == begin || position_[0] == 0 ? fill(i, row_offset(plan_.in[i]), n) : scratch_[i];
        else if (in_[i].kind == Access::Direct || in_[i].kind == Access::Row)
          from[i] = own_memory(in_[i], plan_.in[i], at);
      }
      const bool scatters = out_.kind == Access::Gather;
      char* to = scatters ? scratch_[kMaxPointwiseInputs] : own_memory(out_, plan_.out, at);
      loop_(from, to, static_cast<size_t>(n), plan_.params);
      if (scatters) scatter(to, at, n);
      if (rows_) advance(n);
    }
  }

 private:
  // Where the walk by rows is.
  void start_at(int64_t at) {
    for (int d = 0; d < plan_.ndim; ++d) {
      position_[d] = at % plan_.sizes[d];
      at /= plan_.sizes[d];
    }
  }
  void advance(int64_t n) {
    position_[0] += n;
    for (int d = 0; d < plan_.ndim - 1 && position_[d] == plan_.sizes[d]; ++d) {
      position_[d] = 0;
      ++position_[d + 1];
    }
  }

  int64_t row_offset(const PointwiseArg& arg) const {
    int64_t offset = 0;
    for (int d = 0; d < plan_.ndim; ++d) offset += position_[d] * arg.strides[d];
    return offset;
  }

  // The position of element `at` of an operand that the loop takes as it is.
  char* own_memory(const Access& access, const PointwiseArg& arg, int64_t at) const {
    return arg.data + (access.kind == Access::Direct ? at * width_ : row_offset(arg));
  }

  // The operand's number, or its element at an offset in bytes, n times.
  const char* fill(int i, int64_t offset, int64_t n) {
    const PointwiseArg& arg = plan_.in[i];
    if (arg.scalar)
      fill_scalar(*arg.scalar, plan_.compute, scratch_[i], n);
    else
      in_[i].convert(arg.data + offset, 0, scratch_[i], width_, n);
    return scratch_[i];
  }

  const char* gather(int i, int64_t begin, int64_t n) {
    const PointwiseArg& arg = plan_.in[i];
    char* to = scratch_[i];
    const int64_t fresh = std::min(n, period(arg));
    for_each_run(plan_, arg, begin, fresh, [&](int64_t offset, int64_t count) {
      in_[i].convert(arg.data + offset, arg.strides[0], to, width_, count);
      to += count * width_;
    });
    copy_onwards(scratch_[i], width_, fresh, n);
    return scratch_[i];
  }

  // After how many elements a broadcast operand's come again.
  int64_t period(const PointwiseArg& arg) const {
    int64_t count = plan_.numel;
    for (int d = plan_.ndim - 1; d > 0 && arg.strides[d] == 0; --d) count /= plan_.sizes[d];
    return count;
  }

  void scatter(const char* from, int64_t begin, int64_t n) {
    const PointwiseArg& arg = plan_.out;
    for_each_run(plan_, arg, begin, n, [&](int64_t offset, int64_t count) {
      out_.convert(from, width_, arg.data + offset, arg.strides[0], count);
      from += count * width_;
    });
  }

  const PointwisePlan& plan_;
  PointwiseLoop loop_;
  int64_t width_;
  int64_t piece_;
  bool whole_;  // every operand is direct: no pieces needed
  bool rows_;   // an operand is taken by rows: no piece goes beyond one
  int64_t position_[kMaxDims] = {};
  Access out_;
  Access in_[kMaxPointwiseInputs];
  alignas(64) char scratch_[kMaxPointwiseInputs + 1][PieceBytes];
};

void raise_zero_division(const PointwisePlan& plan) {
  divided_by_zero = false;
  fail(plan.op, ": integer division by zero");
}

[[gnu::noinline]] void run_parallel(const PointwisePlan& plan, PointwiseLoop loop, int threads) {
  bool zero = false;
  TeamFailure failure;
#pragma omp parallel num_threads(threads) reduction(|| : zero)
  {
    const int64_t count = omp_get_num_threads();
    const int64_t me = omp_get_thread_num();
    // Multiples of 64 elements keep threads out of each other's cache lines.
    const int64_t share = (plan.numel / count + 64) / 64 * 64;
    const int64_t begin = std::min(plan.numel, me * share);
    const int64_t end = me == count - 1 ? plan.numel : std::min(plan.numel, begin + share);
    failure.guard([&] {
      if (begin == end) return;
      Walker<kPieceBytes> walker(plan, loop);
      run_blocks(begin, end, kStopBlock, [&](int64_t from, int64_t to) { walker.run(from, to); });
    });
    zero = divided_by_zero;
    divided_by_zero = false;
  }
  failure.rethrow();
  if (zero) raise_zero_division(plan);
}

// A plan whose tensors are dense and in the compute dtype already: only the numbers need memory,
// for so many elements at a time that writing them counts for little. Returns false, having done
// nothing, for any other plan.
template <size_t NumberBytes>
bool run_dense(const PointwisePlan& plan, PointwiseLoop loop) {
  if (!plan.flat || plan.out.dtype != plan.compute) return false;
  for (int i = 0; i < plan.inputs; ++i) {
    if (!plan.in[i].scalar && plan.in[i].dtype != plan.compute) return false;
    if (is_wide_number(plan, plan.in[i])) return false;
  }
  alignas(64) char numbers[kMaxPointwiseInputs][NumberBytes];
  const auto width = static_cast<int64_t>(size_of(plan.compute));
  const int64_t piece = std::min(plan.numel, static_cast<int64_t>(NumberBytes) / width);
  const void* from[kMaxPointwiseInputs];
  for (int i = 0; i < plan.inputs; ++i) {
    const Scalar* number = plan.in[i].scalar;
    from[i] = numbers[i];
    if (!number) continue;
    if (plan.compute == DType::Float32)
      std::fill_n(reinterpret_cast<float*>(numbers[i]), piece, number->to<float>());
    else
      fill_scalar(*number, plan.compute, numbers[i], piece);
  }
  for (int64_t at = 0; at < plan.numel; at += piece) {
    for (int i = 0; i < plan.inputs; ++i)
      if (!plan.in[i].scalar) from[i] = plan.in[i].data + at * width;
    loop(from, plan.out.data + at * width, static_cast<size_t>(std::min(piece, plan.numel - at)),
         plan.params);
  }
  return true;
}

template <size_t PieceBytes>
[[gnu::noinline]] void run_walker(const PointwisePlan& plan, PointwiseLoop loop) {
  Walker<PieceBytes>(plan, loop).run(0, plan.numel);
}

[[gnu::noinline]] bool run_numbers(const PointwisePlan& plan, PointwiseLoop loop) {
  return run_dense<kNumberBytes>(plan, loop);
}

// A plan of which not every operand is what the loop takes. Long ones want larger pieces.
void run_indirect(const PointwisePlan& plan, PointwiseLoop loop) {
  const size_t bytes = static_cast<size_t>(plan.numel) * size_of(plan.compute);
  if (bytes <= kSmallPieceBytes) {
    if (!run_dense<kSmallPieceBytes>(plan, loop)) run_walker<kSmallPieceBytes>(plan, loop);
  } else if (bytes > 2 * kPieceBytes || !run_numbers(plan, loop)) {
    run_walker<kPieceBytes>(plan, loop);
  }
}

void run(const PointwisePlan& plan, PointwiseLoop loop) {
  const int threads = thread_count(plan.numel, kGrain);
  if (threads > 1 || plan.numel > kStopBlock) return run_parallel(plan, loop, threads);
  if (plan.direct) {
    const void* from[kMaxPointwiseInputs];
    for (int i = 0; i < plan.inputs; ++i) from[i] = plan.in[i].data;
    loop(from, plan.out.data, static_cast<size_t>(plan.numel), plan.params);
  } else {
    run_indirect(plan, loop);
  }
  if (divided_by_zero) [[unlikely]]
    raise_zero_division(plan);
}

// The loop for operands that all have one 16-bit format, or null. The last one may be a number that
// this format does not hold.
PointwiseLoop loop_for_halves(const PointwisePlan& plan, const PointwiseLoops& loops) {
  const DType format = plan.out.dtype;
  if (!is_reduced_floating(format)) return nullptr;
  bool wide = false;
  for (int i = 0; i < plan.inputs; ++i) {
    const PointwiseArg& arg = plan.in[i];
    if (wide || (!arg.scalar && arg.dtype != format)) return nullptr;
    wide = arg.scalar && !holds(format, *arg.scalar);
  }
  if (wide) return format == DType::BFloat16 ? loops.bf16_number : loops.f16_number;
  return format == DType::BFloat16 ? loops.bf16 : loops.f16;
}

// The plan with its computation in the dtype that its tensors have. Bools count as bytes.
PointwisePlan computed_in(const PointwisePlan& plan, DType dtype) {
  PointwisePlan stored = plan;
  stored.compute = dtype;
  stored.direct = plan.flat;
  const auto take = [&](PointwiseArg& arg) {
    if (arg.dtype == DType::Bool && size_of(dtype) == 1) arg.dtype = dtype;
    stored.direct = stored.direct && arg.dtype == dtype;
  };
  take(stored.out);
  for (int i = 0; i < plan.inputs; ++i) {
    if (plan.in[i].scalar)
      stored.direct = false;
    else
      take(stored.in[i]);
  }
  return stored;
}

// Whether the integer, which a loop of small ones would take, is one of the dtype's.
bool is_in_range(const Scalar& number, DType dtype) {
  return visit<kSmallIntegers>(dtype, [&]<class T>() {
    const int64_t value = number.to_int();
    return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
  });
}

// The dtype of small integers that all tensors of the plan have, masks apart, and that holds all of
// its numbers; of bools alone uint8. Int64 where there is none.
DType small_integer_of(const PointwisePlan& plan, const PointwiseLoops& loops) {
  DType dtype = DType::Bool;
  for (int i = 0; i < plan.inputs; ++i) {
    const PointwiseArg& arg = plan.in[i];
    if (arg.scalar || arg.dtype == DType::Bool) continue;
    if (dtype != DType::Bool && dtype != arg.dtype) return DType::Int64;
    dtype = arg.dtype;
  }
  if (!loops.gives_truth && plan.out.dtype != dtype) return DType::Int64;
  // A bool is stored as 0 or 1, whatever number is given for it.
  const bool is_bool = dtype == DType::Bool;
  if (is_bool) dtype = loops.takes_bools ? DType::UInt8 : DType::Int64;
  if (!contains(kSmallIntegers, dtype)) return DType::Int64;
  const auto holds = [&](const Scalar& number) {
    return is_in_range(number, dtype) && (!is_bool || number.to_double() <= 1);
  };
  for (int i = 0; i < plan.inputs; ++i)
    if (plan.in[i].scalar && !holds(*plan.in[i].scalar)) return DType::Int64;
  for (int k = 0; k < plan.param_count; ++k)
    if (!holds(plan.params[k])) return DType::Int64;
  return dtype;
}

// Runs a plan of integers whose tensors all have a small type in that type. Returns false, having
// done nothing, for any other plan.
bool run_small_integers(const PointwisePlan& plan, const PointwiseLoops& loops) {
  if (!loops.i8) return false;
  const DType dtype = small_integer_of(plan, loops);
  if (dtype == DType::Int64) return false;
  const PointwiseLoop of_bytes = dtype == DType::UInt8 ? loops.u8 : loops.i8;
  const PointwiseLoop of_words = dtype == DType::Int16 ? loops.i16 : loops.i32;
  run(computed_in(plan, dtype), size_of(dtype) == 1 ? of_bytes : of_words);
  return true;
}

// The loop for real operands of a complex result, of which each has its rows dense in memory, or
// null.
PointwiseLoop loop_for_parts(const PointwisePlan& plan, const PointwiseLoops& loops) {
  const bool is_wide = plan.compute == DType::Complex128;
  const PointwiseLoop loop = is_wide ? loops.c128_of_parts : loops.c64_of_parts;
  const auto is_dense_row = [](const PointwiseArg& arg, DType dtype) {
    return !arg.scalar && arg.dtype == dtype &&
           arg.strides[0] == static_cast<int64_t>(size_of(dtype));
  };
  if (!loop || !is_dense_row(plan.out, plan.compute)) return nullptr;
  if (plan.ndim > 1 && plan.sizes[0] < kLongRow) return nullptr;
  for (int i = 0; i < plan.inputs; ++i)
    if (!is_dense_row(plan.in[i], real_of(plan.compute))) return nullptr;
  return loop;
}

// Where element `at` of the walk lies in an operand.
char* position_of(const PointwisePlan& plan, const PointwiseArg& arg, int64_t at) {
  int64_t offset = 0;
  for (int d = 0; d < plan.ndim; ++d) {
    offset += at % plan.sizes[d] * arg.strides[d];
    at /= plan.sizes[d];
  }
  return arg.data + offset;
}

void run_parts(const PointwisePlan& plan, PointwiseLoop loop) {
  parallel_for(plan.numel, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin, n = 0; at < end; at += n) {
      n = std::min(end - at, plan.sizes[0] - at % plan.sizes[0]);
      const void* from[kMaxPointwiseInputs];
      for (int i = 0; i < plan.inputs; ++i) from[i] = position_of(plan, plan.in[i], at);
      loop(from, position_of(plan, plan.out, at), static_cast<size_t>(n), plan.params);
    }
  });
}

}  // namespace

void run_loops(const PointwisePlan& plan, const PointwiseLoops& loops) {
  if (const PointwiseLoop loop = loop_for_parts(plan, loops)) return run_parts(plan, loop);
  if (plan.compute == DType::Int64 && run_small_integers(plan, loops)) return;
  const PointwiseLoop loop = loop_for_halves(plan, loops);
  if (!loop) return run(plan, loop_for(plan, loops));
  run(computed_in(plan, plan.out.dtype), loop);
}

}  // namespace moonlet::cpu
