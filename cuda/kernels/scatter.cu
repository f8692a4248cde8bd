// cuda/kernels/scatter.cu: what several entries do at one position: the positions are sorted, and
// each run of equal ones is joined in pieces of a fixed length, and these by a block.
#include "cuda/kernels/scatter.h"

#include <algorithm>

#include "cuda/kernels/common/cells.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moves.cuh"
#include "cuda/kernels/common/typed.cuh"
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

// With kAdd the fold is known to be a sum.
template <bool kAdd, class C>
__device__ __forceinline__ C joined(ScatterFold fold, C a, C b) {
  if (kAdd || fold == ScatterFold::Add || fold == ScatterFold::Mean) return fn::vadd(a, b);
  if constexpr (!is_device_complex<C>) {
    if (fold == ScatterFold::Max) return folded<ScatterFold::Max>(a, b);
    if (fold == ScatterFold::Min) return folded<ScatterFold::Min>(a, b);
    return folded<ScatterFold::Multiply>(a, b);
  }
  return a * b;
}

// What a thread holds of an entry. What an accessor has kFlight of are on their way at once.
template <class C, int kElements>
struct Held {
  C v[kElements];
};

// Elements of any dtype, one by one.
template <class T>
struct Single {
  using C = T;
  static constexpr int kCount = 1, kFlight = 1;
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

// 16 bytes of integers.
template <class T, int kElement>
struct Packed {
  using C = T;
  static constexpr int kCount = 16 / kElement, kFlight = kElement == 1 ? 1 : 4;
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

// Floats, one by one or 16 bytes of them.
template <class T, int kPack>
struct SomeFloats {
  using C = Computed<T>;
  static constexpr int kCount = kPack, kFlight = 4;
  T* data;
  __device__ __forceinline__ Held<C, kCount> load(int64_t pack) const {
    Held<C, kCount> h;
    load_floats<kCount>(data + pack * kCount, h.v);
    return h;
  }
  __device__ __forceinline__ void store(int64_t pack, const Held<C, kCount>& h) const {
    store_floats<kCount>(data + pack * kCount, h.v);
  }
};

template <class A>
using HeldBy = Held<typename A::C, A::kCount>;

template <bool kAdd, class C, int kCount>
__device__ __forceinline__ void join(ScatterFold fold, Held<C, kCount>& total,
                                     const Held<C, kCount>& more) {
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) total.v[k] = joined<kAdd>(fold, total.v[k], more.v[k]);
}

// Writes what `count` entries, and x where it is included, have become.
template <bool kAdd, class A>
__device__ __forceinline__ void finish(const Scatter& s, const A& x, int64_t at, int64_t count,
                                       HeldBy<A> total) {
  if constexpr (!kAdd && !is_device_complex<typename A::C>) {
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

// The first of the entries from `first` to `end` that goes elsewhere.
__device__ __forceinline__ int64_t run_end(const Entries& e, int64_t position, int64_t first,
                                           int64_t end) {
  int64_t k = first + 1;
  while (k < end && e.position.get(k) == position) ++k;
  return k;
}

// Joins the entries from `first` to `last` to `total`, or, where it is `empty`, begins with them.
template <bool kAdd, class A>
__device__ __forceinline__ void join_run(const Scatter& s, const Entries& e, const A& source,
                                         typename A::C scale, int64_t row, int64_t first,
                                         int64_t last, bool empty, HeldBy<A>& total) {
  constexpr int kFlight = A::kFlight;
  for (int64_t k = first; k < last; k += kFlight) {
    HeldBy<A> v[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      if (k + f < last) v[f] = source.load(row + e.order.get(k + f) * s.packs);
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      if (k + f >= last) continue;
      if (kAdd || s.fold == ScatterFold::Add) {
        MOONLET_UNROLL
        for (int i = 0; i < A::kCount; ++i) v[f].v[i] = v[f].v[i] * scale;
      }
      if (f == 0 && empty && k == first)
        total = v[f];
      else
        join<kAdd>(s.fold, total, v[f]);
    }
  }
}

// A run that goes beyond the multiple of kPiece where a piece ends leaves its pieces in `parts`:
// that which begins at a multiple in an even slot, the first of a run that begins elsewhere in an
// odd one. Jobs are (outer, entry, pack).
template <bool kAdd, class I, class A>
__global__ void __launch_bounds__(kBlock)
    join_pieces_kernel(Scatter s, Entries e, MoveJobs<I> jobs, typename A::C scale, A x, A source,
                       HeldBy<A>* parts) {
  const int64_t chunks = (e.count + kPiece - 1) / kPiece;
  const I count = static_cast<I>(s.outer * e.count * s.packs);
  for (MOONLET_EACH_OF(I, number, count)) {
    const auto job = jobs.job(number);
    const int64_t outer = job.outer, first = job.position, pack = job.pack;
    const int64_t position = e.position.get(first);
    const bool starts = first == 0 || e.position.get(first - 1) != position,
               cut = first % kPiece == 0;
    if (position == e.positions || (!starts && !cut)) continue;
    const int64_t chunk = first / kPiece;
    const int64_t end = (chunk + 1) * kPiece < e.count ? (chunk + 1) * kPiece : e.count;
    const bool whole = starts && (end == e.count || e.position.get(end) != position);
    const int64_t to = (outer * e.positions + position) * s.packs + pack;
    HeldBy<A> total{};
    const bool adds = whole && s.include_self;
    if (adds) total = x.load(to);
    const int64_t last = run_end(e, position, first, end);
    join_run<kAdd>(s, e, source, scale, outer * e.count * s.packs + pack, first, last, !adds,
                   total);
    if (whole)
      finish<kAdd>(s, x, to, last - first, total);
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
template <bool kAdd, class A>
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
        join<kAdd>(s.fold, total, part);
      else
        total = part;
    }
    if (there) totals[threadIdx.x] = total;
    __syncthreads();
    for (int step = 1; step < teams; step *= 2) {
      const bool joins =
          there && team % (2 * step) == 0 && team + step < teams && (team + step) * share < pieces;
      if (joins) join<kAdd>(s.fold, totals[threadIdx.x], totals[threadIdx.x + step * columns]);
      __syncthreads();
    }
    if (there && team == 0) finish<kAdd>(s, x, to, run.end - run.begin, totals[threadIdx.x]);
    __syncthreads();
  }
}

// Of the entries of a position the last one.
template <class T, class I>
__global__ void put_kernel(I count, Entries e, MoveJobs<I> jobs, int64_t packs, T* x,
                           const T* source) {
  for (MOONLET_EACH_OF(I, number, count)) {
    const auto job = jobs.job(number);
    const int64_t k = job.position, position = e.position.get(k);
    if (position == e.positions || (k + 1 < e.count && e.position.get(k + 1) == position)) continue;
    x[(job.outer * e.positions + position) * packs + job.pack] =
        source[(job.outer * e.count + e.order.get(k)) * packs + job.pack];
  }
}

__global__ void position_keys_kernel(int64_t count, int64_t positions, const int64_t* from,
                                     Numbers keys, Numbers order) {
  for (MOONLET_EACH(i, count)) {
    keys.set(i, from[i] < 0 ? positions : from[i]);
    order.set(i, i);
  }
}

template <bool kAdd, class I, class A>
void join_entries(const Call& call, const Scatter& s, const Entries& e, const Scalar& scale,
                  const A& x, const A& source) {
  using C = typename A::C;
  const int64_t chunks = (e.count + kPiece - 1) / kPiece;
  const int64_t parts = chunks > 1 ? s.outer * 2 * chunks * s.packs : 0;
  const Tensor workspace =
      call.scratch({parts * static_cast<int64_t>(sizeof(HeldBy<A>)) + 16}, DType::UInt8);
  auto* held = reinterpret_cast<HeldBy<A>*>(workspace.raw());
  MOONLET_LAUNCH((join_pieces_kernel<kAdd, I, A>), blocks_for(s.outer * e.count * s.packs), kBlock,
                 0, call.stream(), s, e, MoveJobs<I>(e.count, s.packs), scalar_as<C>(scale), x,
                 source, held);
  call.done();
  if (parts == 0) return;
  int columns = 1;
  while (columns < 32 && columns < s.packs) columns *= 2;
  const int64_t blocks = chunks * s.outer * ((s.packs + columns - 1) / columns);
  MOONLET_LAUNCH((join_runs_kernel<kAdd, A>), blocks_for(blocks * kBlock), kBlock, 0, call.stream(),
                 s, e, columns, x, static_cast<const HeldBy<A>*>(held));
  call.done();
}

void put_entries(const Call& call, int64_t outer, int64_t inner, const Entries& e, Tensor& x,
                 const Tensor& source) {
  visit_moves(inner, {x.raw(), source.raw()}, size_of(x.dtype()), [&]<class T>(int64_t packs) {
    const int64_t count = outer * e.count * packs;
    visit_counts(count, [&]<class I>() {
      MOONLET_LAUNCH((put_kernel<T, I>), blocks_for(count), kBlock, 0, call.stream(),
                     static_cast<I>(count), e, MoveJobs<I>(e.count, packs), packs,
                     reinterpret_cast<T*>(x.raw()), reinterpret_cast<const T*>(source.raw()));
    });
  });
  call.done();
}

// Joins the entries of floats, kPack of which lie side by side.
template <bool kAdd, class T, int kPack>
void join_floats(const Call& call, const Scatter& s, const Entries& e, const Scalar& scale,
                 Tensor& x, const Tensor& source) {
  join_entries<kAdd, int32_t>(call, s, e, scale,
                              SomeFloats<T, kPack>{reinterpret_cast<T*>(x.raw())},
                              SomeFloats<T, kPack>{reinterpret_cast<T*>(source.raw())});
}

// Joins the entries by packs of 16 bytes; false where no kernel is made for the dtype.
bool join_packs(const Call& call, Scatter s, const Entries& e, const Scalar& scale, Tensor& x,
                const Tensor& source) {
  s.packs = s.packs * static_cast<int64_t>(size_of(x.dtype())) / 16;
  const bool adds = s.fold == ScatterFold::Add;
  return visit_cell(x.dtype(), [&]<class Cell>() {
    if constexpr (std::is_integral_v<typename Cell::Type>) {
      using A = Packed<typename Cell::Type, Cell::bytes>;
      join_entries<false, int32_t>(call, s, e, scale, A{x.raw(), code_of(x.dtype())},
                                   A{source.raw(), code_of(x.dtype())});
    } else {
      visit_float_types(x.dtype(), [&]<class T>() {
        if constexpr (sizeof(T) == Cell::bytes) {
          if (adds)
            join_floats<true, T, kPackOf<T>>(call, s, e, scale, x, source);
          else
            join_floats<false, T, kPackOf<T>>(call, s, e, scale, x, source);
        }
      });
    }
    return true;
  });
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
  const int64_t elements = outer * count * inner;
  if (elements < kDividerLimit) {
    const bool packed = inner * static_cast<int64_t>(size_of(x.dtype())) % 16 == 0 &&
                        aligned_to(x.raw(), 16) && aligned_to(source.raw(), 16);
    if (packed && join_packs(call, s, entries, how.scale, x, source)) return;
    if (is_floating(x.dtype()) && s.fold == ScatterFold::Add)
      return visit_float_types(x.dtype(), [&]<class T>() {
        join_floats<true, T, 1>(call, s, entries, how.scale, x, source);
      });
  }
  visit_device_compute(x.dtype(), [&]<class C>() {
    visit_counts(elements, [&]<class I>() {
      join_entries<false, I>(call, s, entries, how.scale, Single<C>{array(x)},
                             Single<C>{array(source)});
    });
  });
}

}  // namespace moonlet::cuda
