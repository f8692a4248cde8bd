// cuda/kernels/scatter.cu: what several entries do at one position: the positions are sorted, and
// each run of equal ones is joined in pieces of a fixed length, and these by a block.
#include "cuda/kernels/scatter.h"

#include <algorithm>

#include "cuda/kernels/common/cells.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moves.cuh"
#include "cuda/kernels/sort.h"

namespace moonlet::cuda {

namespace {

// Entries by the positions they go to, in their own order where that is the same; the entries of
// the position number `positions` go nowhere.
struct Entries {
  int64_t count, positions;
  Numbers position, order;
};

// A thread joins up to so many entries: pieces end where a run ends and at multiples of this.
constexpr int64_t kPiece = 32;

// What is joined, and how. Tensors are seen as (outer, positions or entries, packs of elements).
struct Scatter {
  int64_t outer, packs;
  ScatterFold fold;
  bool include_self;
};

template <class C>
__device__ __forceinline__ C joined(ScatterFold fold, C a, C b) {
  if (fold == ScatterFold::Add || fold == ScatterFold::Mean) return a + b;
  if constexpr (!is_device_complex<C>) {
    if (fold == ScatterFold::Max) return folded<ScatterFold::Max>(a, b);
    if (fold == ScatterFold::Min) return folded<ScatterFold::Min>(a, b);
    return folded<ScatterFold::Multiply>(a, b);
  }
  return a * b;
}

// What a thread holds of an entry.
template <class C, int kElements>
struct Held {
  C v[kElements];
};

// Elements of any dtype, one by one.
template <class T>
struct Single {
  using C = T;
  static constexpr int kCount = 1;
  Array x;
  __device__ Held<C, 1> load(int64_t pack) const { return {{x.get<C>(pack)}}; }
  __device__ void store(int64_t pack, const Held<C, 1>& h) const { x.set<C>(pack, h.v[0]); }
  // As it is once it is in x: integers wrap.
  __device__ C stored(C v) const {
    alignas(16) char bytes[16];
    moonlet::cuda::store<C>(bytes, x.dtype, v);
    return moonlet::cuda::load<C>(bytes, x.dtype);
  }
};

// 16 bytes of elements.
template <class T, int kElement>
struct Packed {
  using C = T;
  static constexpr int kCount = 16 / kElement;
  char* data;
  Code code;
  __device__ __forceinline__ Held<C, kCount> load(int64_t pack) const {
    const Words<16> words = load_words<16>(data + pack * 16);
    Held<C, kCount> h;
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      h.v[k] = decoded<C, kElement>(bits_at<kElement>(words, k), code);
    return h;
  }
  __device__ __forceinline__ void store(int64_t pack, const Held<C, kCount>& h) const {
    Words<16> words{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      set_bits<kElement>(words, k, encoded<C, kElement>(h.v[k], code));
    store_words(data + pack * 16, words);
  }
  __device__ C stored(C v) const {
    return decoded<C, kElement>(encoded<C, kElement>(v, code), code);
  }
};

template <class A>
using HeldBy = Held<typename A::C, A::kCount>;

template <class C, int kCount>
__device__ __forceinline__ void join(ScatterFold fold, Held<C, kCount>& total,
                                     const Held<C, kCount>& more) {
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) total.v[k] = joined(fold, total.v[k], more.v[k]);
}

// Writes what `count` entries, and x where it is included, have become.
template <class A>
__device__ __forceinline__ void finish(const Scatter& s, const A& x, int64_t at, int64_t count,
                                       HeldBy<A> total) {
  if constexpr (!is_device_complex<typename A::C>) {
    if (s.fold == ScatterFold::Mean) {
      MOONLET_UNROLL
      for (int k = 0; k < A::kCount; ++k) {
        if constexpr (std::is_integral_v<typename A::C>) total.v[k] = x.stored(total.v[k]);
        total.v[k] = averaged(total.v[k], count + (s.include_self ? 1 : 0));
      }
    }
  }
  x.store(at, total);
}

// A run that goes beyond the multiple of kPiece where a piece ends leaves its pieces in `parts`:
// that which begins at a multiple in an even slot, the first of a run that begins elsewhere in an
// odd one. Jobs are (outer, entry, pack).
template <class A>
__global__ void __launch_bounds__(kBlock)
    join_pieces_kernel(Scatter s, Entries e, const MOONLET_GRID_CONSTANT Geometry<3> jobs,
                       typename A::C scale, A x, A source, HeldBy<A>* parts) {
  const int64_t chunks = (e.count + kPiece - 1) / kPiece;
  for (MOONLET_EACH(job, s.outer * e.count * s.packs)) {
    const Offsets<3> at = offsets(jobs, job);
    const int64_t outer = at.at[0], first = at.at[1], pack = at.at[2];
    const int64_t position = e.position.get(first);
    const bool starts = first == 0 || e.position.get(first - 1) != position,
               cut = first % kPiece == 0;
    if (position == e.positions || (!starts && !cut)) continue;
    const int64_t chunk = first / kPiece;
    const int64_t end = (chunk + 1) * kPiece < e.count ? (chunk + 1) * kPiece : e.count;
    const bool whole = starts && (end == e.count || e.position.get(end) != position);
    const int64_t to = (outer * e.positions + position) * s.packs + pack;
    HeldBy<A> total;
    if (whole && s.include_self) total = x.load(to);
    int64_t k = first;
    for (; k < end && e.position.get(k) == position; ++k) {
      HeldBy<A> v = source.load((outer * e.count + e.order.get(k)) * s.packs + pack);
      if (s.fold == ScatterFold::Add) {
        MOONLET_UNROLL
        for (int i = 0; i < A::kCount; ++i) v.v[i] = v.v[i] * scale;
      }
      if (k > first || (whole && s.include_self))
        join(s.fold, total, v);
      else
        total = v;
    }
    if (whole)
      finish(s, x, to, k - first, total);
    else
      parts[(outer * 2 * chunks + 2 * chunk + (cut ? 0 : 1)) * s.packs + pack] = total;
  }
}

// A run of several pieces: the entries from `begin` to `end`, whose first piece is in chunk
// `chunk`.
struct LongRun {
  int64_t begin = 0, end = 0, position = 0;
};

// The one that begins in a chunk and goes beyond it; none where end is 0.
__device__ inline LongRun run_from(const Entries& e, int64_t chunk) {
  LongRun run;
  const int64_t first = chunk * kPiece, next = first + kPiece;
  if (next >= e.count) return run;
  run.position = e.position.get(next - 1);
  if (run.position == e.positions || e.position.get(next) != run.position) return run;
  if (first > 0 && e.position.get(first - 1) == run.position) return run;
  run.begin = next - 1;
  while (run.begin > first && e.position.get(run.begin - 1) == run.position) --run.begin;
  int64_t low = next + 1, high = e.count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (e.position.get(middle) == run.position)
      low = middle + 1;
    else
      high = middle;
  }
  run.end = low;
  return run;
}

// Joins the pieces of each long run: a block for `columns` packs of it, a power of two, whose teams
// of threads take equal shares of the pieces, in their order.
template <class A>
__global__ void __launch_bounds__(kBlock)
    join_runs_kernel(Scatter s, Entries e, int columns, A x, const HeldBy<A>* parts) {
  __shared__ SharedArray<HeldBy<A>, kBlock> memory;
  HeldBy<A>* totals = memory.get();
  const int64_t chunks = (e.count + kPiece - 1) / kPiece;
  const int64_t groups = (s.packs + columns - 1) / columns;
  const int teams = kBlock / columns, team = threadIdx.x / columns;
  for (int64_t job = blockIdx.x; job < chunks * s.outer * groups; job += gridDim.x) {
    const int64_t chunk = job % chunks, outer = job / chunks / groups;
    const int64_t pack = job / chunks % groups * columns + threadIdx.x % columns;
    const LongRun run = run_from(e, chunk);
    if (run.end == 0) continue;
    const int64_t pieces = (run.end - 1) / kPiece - chunk + 1, share = (pieces + teams - 1) / teams;
    const int64_t to = (outer * e.positions + run.position) * s.packs + pack;
    const bool there = pack < s.packs && team * share < pieces;
    HeldBy<A> total;
    if (there && team == 0 && s.include_self) total = x.load(to);
    for (int64_t p = team * share; there && p < (team + 1) * share && p < pieces; ++p) {
      const int64_t slot = 2 * (chunk + p) + (p == 0 && run.begin % kPiece != 0 ? 1 : 0);
      const HeldBy<A> part = parts[(outer * 2 * chunks + slot) * s.packs + pack];
      if (p > team * share || (team == 0 && s.include_self))
        join(s.fold, total, part);
      else
        total = part;
    }
    if (there) totals[threadIdx.x] = total;
    __syncthreads();
    for (int step = 1; step < teams; step *= 2) {
      const bool joins =
          there && team % (2 * step) == 0 && team + step < teams && (team + step) * share < pieces;
      if (joins) join(s.fold, totals[threadIdx.x], totals[threadIdx.x + step * columns]);
      __syncthreads();
    }
    if (there && team == 0) finish(s, x, to, run.end - run.begin, totals[threadIdx.x]);
    __syncthreads();
  }
}

// Of the entries of a position the last one.
template <class T>
__global__ void put_kernel(int64_t count, Entries e, const MOONLET_GRID_CONSTANT Geometry<3> jobs,
                           int64_t packs, T* x, const T* source) {
  for (MOONLET_EACH(job, count)) {
    const Offsets<3> at = offsets(jobs, job);
    const int64_t outer = at.at[0], k = at.at[1], pack = at.at[2], position = e.position.get(k);
    if (position == e.positions || (k + 1 < e.count && e.position.get(k + 1) == position)) continue;
    x[(outer * e.positions + position) * packs + pack] =
        source[(outer * e.count + e.order.get(k)) * packs + pack];
  }
}

__global__ void position_keys_kernel(int64_t count, int64_t positions, const int64_t* from,
                                     Numbers keys, Numbers order) {
  for (MOONLET_EACH(i, count)) {
    keys.set(i, from[i] < 0 ? positions : from[i]);
    order.set(i, i);
  }
}

template <class A>
void join_entries(const Call& call, const Scatter& s, const Entries& e, const Scalar& scale,
                  const A& x, const A& source) {
  using C = typename A::C;
  const int64_t chunks = (e.count + kPiece - 1) / kPiece;
  const int64_t parts = chunks > 1 ? s.outer * 2 * chunks * s.packs : 0;
  const Tensor workspace =
      call.scratch({parts * static_cast<int64_t>(sizeof(HeldBy<A>)) + 16}, DType::UInt8);
  auto* held = reinterpret_cast<HeldBy<A>*>(workspace.raw());
  const int64_t jobs = s.outer * e.count * s.packs;
  MOONLET_LAUNCH((join_pieces_kernel<A>), blocks_for(jobs), kBlock, 0, call.stream(), s, e,
                 jobs_of(s.outer, e.count, s.packs), scalar_as<C>(scale), x, source, held);
  call.done();
  if (parts == 0) return;
  int columns = 1;
  while (columns < 32 && columns < s.packs) columns *= 2;
  const int64_t blocks = chunks * s.outer * ((s.packs + columns - 1) / columns);
  MOONLET_LAUNCH((join_runs_kernel<A>), blocks_for(blocks * kBlock), kBlock, 0, call.stream(), s, e,
                 columns, x, static_cast<const HeldBy<A>*>(held));
  call.done();
}

void put_entries(const Call& call, int64_t outer, int64_t inner, const Entries& e, Tensor& x,
                 const Tensor& source) {
  visit_moves(inner, {x.raw(), source.raw()}, size_of(x.dtype()), [&]<class T>(int64_t packs) {
    const int64_t jobs = outer * e.count * packs;
    MOONLET_LAUNCH((put_kernel<T>), blocks_for(jobs), kBlock, 0, call.stream(), jobs, e,
                   jobs_of(outer, e.count, packs), packs, reinterpret_cast<T*>(x.raw()),
                   reinterpret_cast<const T*>(source.raw()));
  });
  call.done();
}

}  // namespace

void scatter_ordered(const Call& call, Tensor& x, int64_t outer, int64_t size, int64_t inner,
                     const Tensor& positions, const Tensor& source, const ScatterJoin& how) {
  const int64_t count = positions.numel();
  if (count * outer * inner == 0) return;
  const DType numbers = unsigned_below(count);
  Tensor order = call.scratch({count}, numbers);
  Tensor keys =
      call.scratch({count}, numbers == DType::Int64 ? DType::Int64 : unsigned_below(size + 1));
  MOONLET_LAUNCH(position_keys_kernel, blocks_for(count), kBlock, 0, call.stream(), count, size,
                 static_cast<const int64_t*>(positions.elements<int64_t>()), Numbers(keys),
                 Numbers(order));
  call.done();
  sort_pairs(call, keys, order, bits_below(size + 1));
  const Entries entries{count, size, Numbers(keys), Numbers(order)};
  if (how.fold == ScatterFold::Put) return put_entries(call, outer, inner, entries, x, source);
  const Scatter s{outer, inner, how.fold, how.include_self};
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  const bool packed =
      inner * bytes % 16 == 0 && aligned_to(x.raw(), 16) && aligned_to(source.raw(), 16);
  if (packed && visit_cell(x.dtype(), [&]<class Cell>() {
        using A = Packed<typename Cell::Type, Cell::bytes>;
        Scatter by_packs = s;
        by_packs.packs = inner / A::kCount;
        join_entries(call, by_packs, entries, how.scale, A{x.raw(), code_of(x.dtype())},
                     A{source.raw(), code_of(x.dtype())});
        return true;
      }))
    return;
  visit_device_compute(x.dtype(), [&]<class C>() {
    join_entries(call, s, entries, how.scale, Single<C>{array(x)}, Single<C>{array(source)});
  });
}

}  // namespace moonlet::cuda
