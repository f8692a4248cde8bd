// cuda/kernels/common/rows.cuh: rows of dense elements that a team of threads keeps in registers
// while it goes over them several times: lanes of a warp for short rows, a block for long ones.
#pragma once

#include "cuda/kernels/common/floats.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Packs that a thread holds of each tensor.
inline constexpr int kHeld = 4;

// How rows are shared out; a team is lanes of a warp (a power of two) or the block. `whole` where
// every row begins and ends at a multiple of 16 bytes; the order of sums does not depend on it.
struct RowPlan {
  int64_t rows, size;
  int team, team_log;
  bool whole;
};

// Teams of so many threads, for rows of contiguous tensors that have elements of `bytes`; undefined
// ones count as aligned.
inline RowPlan plan_teams(int64_t rows, int64_t size, int team, int bytes,
                          std::initializer_list<const Tensor*> tensors) {
  bool whole = size * bytes % 16 == 0;
  for (const Tensor* t : tensors) whole = whole && (!t->defined() || aligned_to(t->raw(), 16));
  int team_log = 0;
  while (1 << team_log < team) ++team_log;
  return {rows, size, team, team_log, whole};
}

// Whether a block can hold a row of elements of so many bytes.
inline bool can_hold(int64_t rows, int64_t size, int bytes) {
  return rows > 0 && size > 0 && (size * bytes + 15) / 16 <= int64_t{kBlock} * kHeld;
}
// The team that holds it.
inline int holding_team(int64_t size, int bytes) {
  const int64_t packs = (size * bytes + 15) / 16;
  return packs > kWarp * kHeld ? kBlock : lanes_for(packs);
}

// The elements of a row that one thread of a team holds: packs me, me + team, ... of it, as many
// as there are; beyond the row's end is what `load` was given.
template <class T, int kPacks = kHeld>
struct HeldRow {
  using C = Computed<T>;
  static constexpr int kCount = Floats<T>::kCount;
  Floats<T> packs[kPacks];

  // How many packs the thread holds of `size` elements, at most kPacks of them.
  __device__ static int held(int64_t size, int team_log, int me) {
    const int64_t packs = (size + kCount - 1) / kCount;
    const int64_t mine = (packs - me + (1 << team_log) - 1) >> team_log;
    return static_cast<int>(mine < kPacks ? mine : kPacks);
  }
  __device__ void load(const char* row, int64_t size, bool whole, int team_log, int me, int count,
                       C fill) {
    const char* from = row + int64_t{me} * 16;
    const int64_t step = int64_t{16} << team_log;
    if (whole) {
      Words<16> words[kPacks];
      MOONLET_UNROLL
      for (int h = 0; h < kPacks; ++h)
        if (h < count) words[h] = load_words<16>(from + h * step);
      MOONLET_UNROLL
      for (int h = 0; h < kPacks; ++h)
        if (h < count) packs[h] = unpacked<T>(words[h]);
    } else {
      MOONLET_UNROLL
      for (int h = 0; h < kPacks; ++h)
        if (h < count)
          packs[h] =
              floats_at<T>(from + h * step, size - int64_t{(h << team_log) + me} * kCount, fill);
    }
  }
  // Sets what lies beyond the row's end.
  __device__ void fill_rest(int64_t size, int team_log, int me, int count, C fill) {
    MOONLET_UNROLL
    for (int h = 0; h < kPacks; ++h) {
      const int64_t left = size - int64_t{(h << team_log) + me} * kCount;
      if (h >= count || left >= kCount) continue;
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        if (k >= left) packs[h].v[k] = fill;
    }
  }
  // Writes whole packs.
  __device__ void store(char* row, int team_log, int me, int count) const {
    char* to = row + int64_t{me} * 16;
    const int64_t step = int64_t{16} << team_log;
    MOONLET_UNROLL
    for (int h = 0; h < kPacks; ++h)
      if (h < count) store_words<16>(to + h * step, packed<T>(packs[h]));
  }
};

// Calls f(h) for the packs that a thread holds.
template <int kPacks = kHeld, class F>
__device__ __forceinline__ void each_pack(int count, const F& f) {
  MOONLET_UNROLL
  for (int h = 0; h < kPacks; ++h)
    if (h < count) f(h);
}

// The pieces of a row that a block holds one after another.
template <class T, int kPacks = kHeld>
struct RowPieces {
  static constexpr int kTeamLog = 8;
  static_assert(1 << kTeamLog == kBlock);
  static constexpr int64_t kSize = int64_t{kPacks} * kBlock * Floats<T>::kCount;
  using Held = HeldRow<T, kPacks>;
  int64_t size, first = 0;
  int me, count;
  __device__ RowPieces(int64_t row_size, int thread) : size(row_size), me(thread) { set(); }
  __device__ bool more() const { return first < size; }
  __device__ void next() {
    first += kSize;
    set();
  }
  __device__ void load(Held& held, const char* row, const RowPlan& p, Computed<T> fill) const {
    held.load(row + first * sizeof(T), size - first, p.whole, kTeamLog, me, count, fill);
  }
  __device__ void store(const Held& held, char* row) const {
    held.store(row + first * sizeof(T), kTeamLog, me, count);
  }

 private:
  __device__ void set() { count = Held::held(size - first, kTeamLog, me); }
};

// Writes a row that begins at any element: make(i, n) gives the first n, one or a pack of, elements
// from number i on.
template <class T, class Make>
__device__ __forceinline__ void write_row(char* y, int64_t size, int team, int me,
                                          const Make& make) {
  constexpr int kCount = Floats<T>::kCount;
  const int64_t before =
      static_cast<int64_t>((0 - reinterpret_cast<uintptr_t>(y)) % 16 / sizeof(T));
  const int64_t head = before < size ? before : size, packs = (size - head) / kCount;
  const int64_t single = size - packs * kCount;
  for (int64_t i = me; i < single; i += team) {
    const int64_t at = i < head ? i : i + packs * kCount;
    store_float<T>(y + at * sizeof(T), make(at, 1).v[0]);
  }
  for (int64_t b = me; b < packs; b += team) {
    const int64_t at = head + b * kCount;
    store_words<16>(y + at * sizeof(T), packed<T>(make(at, kCount)));
  }
}

// For all rows, by the teams of all blocks: `for (MOONLET_EACH_ROW(p, row, me))` gives each thread
// its row, which may be beyond the last one, as all threads of a warp stay together.
#define MOONLET_EACH_ROW(p, row, me)                                                       \
  int64_t row = (static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x) >> (p).team_log, \
          row_of_block = static_cast<int64_t>(blockIdx.x) * (kBlock >> (p).team_log),      \
          me = threadIdx.x & ((1u << (p).team_log) - 1u);                                  \
  row_of_block < (p).rows;                                                                 \
  row += static_cast<int64_t>(gridDim.x) * (kBlock >> (p).team_log),                       \
      row_of_block += static_cast<int64_t>(gridDim.x) * (kBlock >> (p).team_log)

// The combination of the values of a team, at each of its threads, where the order of two does not
// count.
template <class V, class Combine>
__device__ __forceinline__ V combine_alike(V value, int team, const Combine& combine) {
  if (team > kWarp) return combine_block(value, combine);
  MOONLET_UNROLL
  for (int by = kWarp / 2; by > 0; by /= 2)
    if (team > by)
      value = combine(value, by_words(value, [=](uint32_t word) {
                        return __shfl_xor_sync(kAllLanes, word, by);
                      }));
  return value;
}

// A contiguous tensor's rows of `size` elements.
inline PackSource row_source(const Tensor& x, int64_t size) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  return {x.raw(), code_of(x.dtype()), aligned_to(x.raw(), 16) && size * bytes % 16 == 0};
}

struct AddUp {
  template <class C>
  __device__ C operator()(const C& a, const C& b) const {
    return a + b;
  }
};
// NaN wins.
struct TakeLargest {
  template <class C>
  __device__ C operator()(const C& a, const C& b) const {
    return larger(a, b);
  }
};

}  // namespace moonlet::cuda
