// cuda/kernels/linalg/gemm_skinny.cu: products of a matrix with a few vectors, as a model that
// makes one token after another has them: every element of the matrix is read once, 16 bytes at a
// time, and sums are of float32 (float64 of its own). Blocks share the depth in pieces given by the
// shapes alone, whose sums a second kernel adds up in order, so results repeat.
#include <algorithm>

#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/kernels/gemm.h"

namespace moonlet::cuda {

namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
// More vectors have work for the tensor cores; less depth is no sum to share out.
constexpr int64_t kMostVectors = 8, kLeastDepth = 64;
// The lanes that so much depth gives work, of 16-bit floats.
constexpr int kLeastTeam = 8;
// Rows of the matrix that a team multiplies at once, so that it reads the vectors less often.
constexpr int kOuts = 4;
// Of a matrix that is dense along the results: threads that stand side by side, teams of those that
// take turns along the depth, and how many packs each has on its way.
constexpr int kLanes = 8, kTeams = kThreads / kLanes, kFlight = 4, kTile = kTeams * kFlight;

// result[f][out] = sum over the depth of x[f] w[out], for each of the batch. Strides in elements.
struct Skinny {
  int64_t batch, few, outs, depth;
  const char *x, *w, *bias;  // bias may be null
  char* y;
  int64_t x_step, x_row, x_col, w_step, w_stride, y_step, y_few, y_out, bias_few, bias_out;
  int64_t pieces, length;  // of the depth
};

// result = alpha sum + beta result. Of several pieces, `parts` keeps the sums.
template <class C>
struct Ending {
  C alpha, beta;
  C* parts;
};

template <class T, class C>
__device__ __forceinline__ void finish(const Skinny& s, const Ending<C>& e, int64_t n, int64_t f,
                                       int64_t out, C sum) {
  T* const y = reinterpret_cast<T*>(s.y) + n * s.y_step + f * s.y_few + out * s.y_out;
  C v = e.alpha * sum;
  if (s.bias != nullptr)
    v += convert<C>(reinterpret_cast<const T*>(s.bias)[f * s.bias_few + out * s.bias_out]);
  if (e.beta != C(0)) v += e.beta * convert<C>(*y);
  *y = convert<T>(v);
}

template <class T, class C>
__device__ __forceinline__ void keep(const Skinny& s, const Ending<C>& e, int64_t piece, int64_t n,
                                     int64_t f, int64_t out, C sum) {
  if (f >= s.few || out >= s.outs) return;
  if (e.parts == nullptr) return finish<T>(s, e, n, f, out, sum);
  e.parts[((piece * s.batch + n) * s.few + f) * s.outs + out] = sum;
}

// The sums of kCount values each over 2^steps lanes that lie kBy apart: while there are several
// values, of two lanes one goes on with the first half of them and one with the second.
template <int kCount, int kBy, class C>
__device__ __forceinline__ void sum_lanes(C* values, int steps) {
  if constexpr (kBy < kWarp) {
    if (steps == 0) return;
    constexpr int kHalf = kCount / 2;
    const bool upper = (threadIdx.x & kBy) != 0;
    const auto swap = [](uint32_t word) { return __shfl_xor_sync(kAllLanes, word, kBy); };
    if constexpr (kHalf == 0) values[0] += by_words(values[0], swap);
    MOONLET_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      // Copies: the array would be in memory if an element were chosen as it runs.
      const C low = values[i], high = values[kHalf + i], other = upper ? C(low) : C(high);
      values[i] = (upper ? C(high) : C(low)) + by_words(other, swap);
    }
    sum_lanes<kHalf == 0 ? 1 : kHalf, kBy * 2>(values, steps - 1);
  }
}

// Of what sum_lanes leaves: the number of a lane's first value, or -1 where another lane has it,
// too. It has max(1, kCount >> steps) of them.
template <int kCount, int kFirst>
__device__ __forceinline__ int first_value(int steps) {
  int first = 0;
  for (int step = 0; step < steps; ++step) {
    if ((threadIdx.x & (kFirst << step)) == 0) continue;
    if (kCount >> step <= 1) return -1;
    first += kCount >> (step + 1);
  }
  return first;
}

// 16 bytes, of which `count` elements are there.
template <class T, bool kWhole>
__device__ __forceinline__ Floats<T> skinny_pack(const T* p, int64_t count) {
  return pack_at<T>(reinterpret_cast<const char*>(p), kWhole, count, Computed<T>(0));
}

// What a team adds up along the depth from k on: sums[f * kOuts + o]. Vectors and rows that are
// missing are the last ones again.
template <class T, int kFew, bool kWhole>
__device__ __forceinline__ void multiply_rows(const Skinny& s, const T* x, const T* w, int64_t out,
                                              int64_t k, int64_t end, int64_t step,
                                              Computed<T>* sums) {
  const T* rows[kOuts];
  MOONLET_UNROLL
  for (int o = 0; o < kOuts; ++o) rows[o] = w + min(out + o, s.outs - 1) * s.w_stride;
  for (; k < end; k += step) {
    Floats<T> packs[kOuts];
    MOONLET_UNROLL
    for (int o = 0; o < kOuts; ++o) packs[o] = skinny_pack<T, kWhole>(rows[o] + k, end - k);
    MOONLET_UNROLL
    for (int f = 0; f < kFew; ++f) {
      const int64_t row = kFew == 1 ? 0 : min(int64_t{f}, s.few - 1);
      const Floats<T> vector = skinny_pack<T, kWhole>(x + row * s.x_row + k, end - k);
      MOONLET_UNROLL
      for (int o = 0; o < kOuts; ++o) {
        MOONLET_UNROLL
        for (int i = 0; i < vector.kCount; ++i) sums[f * kOuts + o] += vector.v[i] * packs[o].v[i];
      }
    }
  }
}

// A matrix that is dense along the depth: a team of lanes, or the block, for kOuts of its rows.
template <class T, int kFew, bool kWhole>
__global__ void __launch_bounds__(kThreads, kFew < 8 ? 4 : 3)
    skinny_rows_kernel(MOONLET_GRID_CONSTANT const Skinny s, Ending<Computed<T>> e, int team_log) {
  using C = Computed<T>;
  constexpr int kSums = kFew * kOuts, kLeft = kSums / kLeastTeam > 0 ? kSums / kLeastTeam : 1;
  __shared__ SharedArray<C, kThreads / kLeastTeam * kSums> memory;
  C* shared = memory.get();
  const int team = 1 << team_log, me = threadIdx.x & (team - 1), teams = kThreads >> team_log;
  const int steps = team < kWarp ? team_log : 5;
  const int64_t groups = (s.outs + kOuts - 1) / kOuts, jobs = s.pieces * s.batch * groups;
  for (int64_t start = int64_t{blockIdx.x} * teams; start < jobs;
       start += int64_t{gridDim.x} * teams) {
    const int64_t job = start + (threadIdx.x >> team_log);
    const int64_t out = job % groups * kOuts, n = job / groups % s.batch,
                  piece = job / groups / s.batch;
    C sums[kSums];
    MOONLET_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = C(0);
    const int64_t first = piece * s.length + int64_t{me} * Floats<T>::kCount;
    if (job < jobs)
      multiply_rows<T, kFew, kWhole>(s, reinterpret_cast<const T*>(s.x) + n * s.x_step,
                                     reinterpret_cast<const T*>(s.w) + n * s.w_step, out, first,
                                     min((piece + 1) * s.length, s.depth),
                                     int64_t{team} * Floats<T>::kCount, sums);
    sum_lanes<kSums, 1>(sums, steps);
    const int mine = first_value<kSums, 1>(steps), part = threadIdx.x >> steps;
    MOONLET_UNROLL
    for (int i = 0; i < kLeft; ++i)
      if (mine >= 0 && i < max(1, kSums >> steps)) shared[part * kSums + mine + i] = sums[i];
    __syncthreads();
    for (int i = threadIdx.x; i < teams * kSums; i += kThreads) {
      C sum = shared[i];
      for (int warp = 1; warp < team / kWarp; ++warp) sum += shared[warp * kSums + i];
      const int64_t of = start + i / kSums, row = of % groups * kOuts + i % kOuts;
      if (of < jobs)
        keep<T>(s, e, of / groups / s.batch, of / groups % s.batch, i % kSums / kOuts, row, sum);
    }
    __syncthreads();
  }
}

// What a thread adds up of its pack of columns, which has `valid` ones: sums[f * kCount + i].
template <class T, int kFew, bool kWhole>
__device__ __forceinline__ void multiply_columns(const Skinny& s, const T* x, const T* w, int valid,
                                                 int64_t begin, int64_t end, Computed<T>* vectors,
                                                 Computed<T>* sums) {
  using C = Computed<T>;
  const int team = threadIdx.x / kLanes;
  for (int64_t k = begin; k < end; k += kTile) {
    Floats<T> packs[kFlight];
    MOONLET_UNROLL
    for (int q = 0; q < kFlight; ++q) {
      const int64_t at = k + team + q * kTeams;
      packs[q] = {};
      if (valid > 0 && at < end) packs[q] = skinny_pack<T, kWhole>(w + at * s.w_stride, valid);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFew * kTile; i += kThreads) {
      const int f = i / kTile, d = i % kTile;
      vectors[d * kFew + f] =
          f < s.few && k + d < end ? convert<C>(x[f * s.x_row + (k + d) * s.x_col]) : C(0);
    }
    __syncthreads();
    MOONLET_UNROLL
    for (int q = 0; q < kFlight; ++q) {
      MOONLET_UNROLL
      for (int f = 0; f < kFew; ++f) {
        const C factor = vectors[(team + q * kTeams) * kFew + f];
        MOONLET_UNROLL
        for (int i = 0; i < Floats<T>::kCount; ++i)
          sums[f * Floats<T>::kCount + i] += factor * packs[q].v[i];
      }
    }
  }
}

// A matrix that is dense along the results: a block for kLanes packs of its columns.
template <class T, int kFew, bool kWhole>
__global__ void __launch_bounds__(kThreads, kFew < 4 ? 4 : 3)
    skinny_columns_kernel(MOONLET_GRID_CONSTANT const Skinny s, Ending<Computed<T>> e) {
  using C = Computed<T>;
  constexpr int kCount = Floats<T>::kCount, kSums = kFew * kCount, kSteps = 2;
  static_assert(kLanes << kSteps == kWarp);
  constexpr int kWide = kLanes * kCount, kLeft = kSums >> kSteps > 0 ? kSums >> kSteps : 1;
  __shared__ SharedArray<C, kFew * kTile> vectors;
  __shared__ SharedArray<C, kWarps * kFew * kWide> memory;
  C* shared = memory.get();
  const int lane = threadIdx.x % kLanes;
  const int64_t tiles = (s.outs + kWide - 1) / kWide;
  for (int64_t job = blockIdx.x; job < s.pieces * s.batch * tiles; job += gridDim.x) {
    const int64_t column = job % tiles * kWide, n = job / tiles % s.batch,
                  piece = job / tiles / s.batch;
    const int64_t left = s.outs - column - lane * kCount;
    C sums[kSums];
    MOONLET_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = C(0);
    multiply_columns<T, kFew, kWhole>(
        s, reinterpret_cast<const T*>(s.x) + n * s.x_step,
        reinterpret_cast<const T*>(s.w) + n * s.w_step + column + lane * kCount,
        static_cast<int>(left < kCount ? left : kCount), piece * s.length,
        min((piece + 1) * s.length, s.depth), vectors.get(), sums);
    sum_lanes<kSums, kLanes>(sums, kSteps);
    const int mine = first_value<kSums, kLanes>(kSteps);
    MOONLET_UNROLL
    for (int i = 0; i < kLeft; ++i) {
      const int value = mine + i;
      if (mine >= 0)
        shared[(threadIdx.x / kWarp * kFew + value / kCount) * kWide + lane * kCount +
               value % kCount] = sums[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFew * kWide; i += kThreads) {
      C sum = shared[i];
      for (int warp = 1; warp < kWarps; ++warp) sum += shared[warp * kFew * kWide + i];
      keep<T>(s, e, piece, n, i / kWide, column + i % kWide, sum);
    }
  }
}

// The sums of the pieces, added up in order.
template <class T>
__global__ void __launch_bounds__(kBlock)
    skinny_join_kernel(MOONLET_GRID_CONSTANT const Skinny s, Ending<Computed<T>> e) {
  const int64_t count = s.batch * s.few * s.outs;
  for (MOONLET_EACH(i, count)) {
    Computed<T> sum = e.parts[i];
    for (int64_t piece = 1; piece < s.pieces; ++piece) sum += e.parts[piece * count + i];
    finish<T>(s, e, i / s.outs / s.few, i / s.outs % s.few, i % s.outs, sum);
  }
}

// Whether packs begin at 16 bytes and are whole in all rows of so many elements.
bool rows_are_whole(const void* data, int64_t size, int64_t bytes,
                    std::initializer_list<int64_t> strides) {
  return aligned_to(data, 16) && size * bytes % 16 == 0 &&
         std::all_of(strides.begin(), strides.end(),
                     [=](int64_t n) { return n * bytes % 16 == 0; });
}

// Cuts the depth so that few blocks become enough for a device, where each is left several rounds
// of so many elements: another kernel costs as much as these.
void cut_depth(Skinny& s, int64_t blocks, int64_t round) {
  constexpr int64_t kEnough = 128, kWanted = 512, kRounds = 4;
  const int64_t most = std::max<int64_t>(1, s.depth / (kRounds * round));
  const int64_t pieces = blocks >= kEnough ? 1 : std::min(kWanted / blocks, most);
  s.length = ((s.depth + pieces - 1) / pieces + round - 1) / round * round;
  s.pieces = (s.depth + s.length - 1) / s.length;
}

// Calls f.template operator()<kFew, kWhole>().
template <class F>
void visit_few(int64_t few, bool whole, F&& f) {
  const auto with = [&]<int kFew>() {
    if (whole) return f.template operator()<kFew, true>();
    f.template operator()<kFew, false>();
  };
  if (few == 1) return with.template operator()<1>();
  if (few == 2) return with.template operator()<2>();
  if (few <= 4) return with.template operator()<4>();
  with.template operator()<8>();
}

unsigned grid_of(int64_t blocks) {
  return static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{1} << 30));
}

template <class T>
void multiply(const Call& call, Skinny s, bool along_depth, const Scalar& alpha,
              const Scalar& beta) {
  using C = Computed<T>;
  constexpr int64_t kCount = Floats<T>::kCount, kBytes = sizeof(T), kWide = kLanes * kCount;
  const int64_t packs = (s.depth + kCount - 1) / kCount;
  const int team = packs > kWarp * 4 ? kThreads : lanes_for(packs);
  int team_log = 0;
  while (1 << team_log < team) ++team_log;
  const auto blocks = [&] {
    const int64_t jobs = s.pieces * s.batch;
    if (!along_depth) return jobs * ((s.outs + kWide - 1) / kWide);
    return (jobs * ((s.outs + kOuts - 1) / kOuts) * team + kThreads - 1) / kThreads;
  };
  cut_depth(s, blocks(), along_depth ? team * kCount : kTile);
  Tensor parts;
  Ending<C> e{scalar_as<C>(alpha), scalar_as<C>(beta), nullptr};
  if (s.pieces > 1) {
    parts = call.scratch({s.pieces, s.batch, s.few, s.outs}, dtype_of<C>);
    e.parts = parts.elements<C>();
  }
  const bool whole = along_depth ? rows_are_whole(s.w, s.depth, kBytes, {s.w_stride, s.w_step}) &&
                                       rows_are_whole(s.x, s.depth, kBytes, {s.x_row, s.x_step})
                                 : rows_are_whole(s.w, s.outs, kBytes, {s.w_stride, s.w_step});
  visit_few(s.few, whole, [&]<int kFew, bool kWhole>() {
    if (along_depth)
      MOONLET_LAUNCH((skinny_rows_kernel<T, kFew, kWhole>), grid_of(blocks()), kThreads, 0,
                     call.stream(), s, e, team_log);
    else
      MOONLET_LAUNCH((skinny_columns_kernel<T, kFew, kWhole>), grid_of(blocks()), kThreads, 0,
                     call.stream(), s, e);
    call.done();
  });
  if (s.pieces == 1) return;
  MOONLET_LAUNCH((skinny_join_kernel<T>), blocks_for(s.batch * s.few * s.outs), kBlock, 0,
                 call.stream(), s, e);
  call.done();
}

// The rows of x times those of w, into y (x's rows, w's rows). False where w is dense along neither
// side.
bool multiply_vectors(const Call& call, DType dtype, int64_t batch, const Scalar& alpha, Matrix x,
                      const Matrix& w, const Scalar& beta, const SkinnyBias& bias,
                      const Matrix& y) {
  if (x.rows > kMostVectors) return false;
  const bool along_depth = w.col_stride == 1;
  if (!along_depth && w.row_stride != 1) return false;
  Tensor copied;
  if (along_depth && x.col_stride != 1) {
    // Another kernel, which a small matrix is not worth.
    constexpr int64_t kWorthACopy = int64_t{1} << 20;
    if (w.rows * w.cols * static_cast<int64_t>(size_of(dtype)) < kWorthACopy) return false;
    copied = row_major(call, dtype, batch, x);
    const int64_t step = x.step;
    x = matrix_of(copied);
    if (step == 0) x.step = 0;
  }
  const Skinny s{batch,
                 x.rows,
                 w.rows,
                 x.cols,
                 x.data,
                 w.data,
                 bias.data,
                 y.data,
                 x.step,
                 x.row_stride,
                 x.col_stride,
                 w.step,
                 along_depth ? w.row_stride : w.col_stride,
                 y.step,
                 y.row_stride,
                 y.col_stride,
                 bias.row_stride,
                 bias.col_stride,
                 1,
                 x.cols};
  visit_float_types(dtype, [&]<class T>() { multiply<T>(call, s, along_depth, alpha, beta); });
  return true;
}

}  // namespace

bool gemm_skinny(const Call& call, DType dtype, int64_t batch, const Scalar& alpha, const Matrix& a,
                 const Matrix& b, const Scalar& beta, const SkinnyBias& bias, const Matrix& c) {
  if (!is_floating(dtype) || a.cols < kLeastDepth) return false;
  // Nothing of the factors is read then, not even NaN: cuBLAS knows.
  if (alpha.to_complex() == complex128(0)) return false;
  const auto by_rows = [&] {
    return multiply_vectors(call, dtype, batch, alpha, a, transposed(b), beta, bias, c);
  };
  const auto by_columns = [&] {
    return multiply_vectors(call, dtype, batch, alpha, transposed(b), a, beta,
                            {bias.data, bias.col_stride, bias.row_stride}, transposed(c));
  };
  return c.rows <= c.cols ? by_rows() || by_columns() : by_columns() || by_rows();
}

}  // namespace moonlet::cuda
