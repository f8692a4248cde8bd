// cuda/kernels/common/radix_select.cuh: the element of a rank of each long row, without sorting it:
// digit by digit of its key, then of its position, it is counted how many elements have each.
// Elements differ in their places, so what comes first is known too.
#pragma once

#include "cuda/kernels/common/counts.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/sort_keys.cuh"
#include "cuda/kernels/common/sorted_rows.cuh"
#include "cuda/kernels/sort.h"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// What is known of a row's element: the upper digits of its key and of its position, and its rank
// among those that share them.
struct Selected {
  uint64_t key;
  uint32_t position;
  uint32_t taken;  // how many have been collected
  int64_t rank;
};

// The bits from `low` up to `high` of keys, or of positions where the keys are known.
struct Digit {
  bool of_positions;
  int low, high;
};

inline constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kBlock, "a thread has a digit");
// Elements that a block counts.
inline constexpr int64_t kSelectPiece = int64_t{kBlock} * 32;

// Calls f(row, i, key) for the elements of a block's piece.
template <class C, class Key, class F>
__device__ __forceinline__ void each_of_piece(const SortedRows& s, const KeyCode& code, int64_t row,
                                              int64_t piece, const F& f) {
  const int64_t begin = piece * kSelectPiece;
  const int64_t end = begin + kSelectPiece < s.size ? begin + kSelectPiece : s.size;
  for (int64_t i = begin + threadIdx.x; i < end; i += kBlock)
    f(static_cast<uint32_t>(i), key_of<Key>(s.x.template get<C>(row * s.size + i), code));
}

// `jobs` of (row, piece) and so many pieces to a row.
struct RowPieces {
  int64_t jobs, pieces;
};

// How many NaN each row has.
template <class C, class Key>
__global__ void __launch_bounds__(kBlock)
    count_nan_kernel(SortedRows s, RowPieces p, KeyCode code, unsigned* counts) {
  const Key nan = static_cast<Key>(~Key{0}) >> code.shift;
  for (int64_t job = blockIdx.x; job < p.jobs; job += gridDim.x) {
    const int64_t row = job / p.pieces;
    int mine = 0;
    each_of_piece<C, Key>(s, code, row, job % p.pieces,
                          [&](uint32_t, Key key) { mine += key == nan ? 1 : 0; });
    const int all = combine_block(mine, [](int a, int b) { return a + b; });
    if (threadIdx.x == 0 && all > 0) atomicAdd(&counts[row * kDigits], static_cast<unsigned>(all));
  }
}

// Begins with the wanted rank of each row, whose NaN have been counted.
template <class C>
__global__ void begin_select_kernel(SortedRows s, unsigned* counts, Selected* rows) {
  for (MOONLET_EACH(row, s.rows)) {
    rows[row] = {0, 0, 0, s.rank(s.size - static_cast<int64_t>(counts[row * kDigits]))};
    counts[row * kDigits] = 0;
  }
}

// Adds how often each digit comes, among those that share the digits before, to kDigits counts of
// each row.
template <class C, class Key>
__global__ void __launch_bounds__(kBlock)
    count_digits_kernel(SortedRows s, RowPieces p, KeyCode code, Digit d, const Selected* rows,
                        unsigned* counts) {
  __shared__ unsigned mine[kDigits];
  const unsigned mask = (1u << (d.high - d.low)) - 1;
  for (int64_t job = blockIdx.x; job < p.jobs; job += gridDim.x) {
    const int64_t row = job / p.pieces;
    mine[threadIdx.x] = 0;
    __syncthreads();
    const Selected known = rows[row];
    each_of_piece<C, Key>(s, code, row, job % p.pieces, [&](uint32_t i, Key key) {
      if (d.of_positions) {
        const bool fits = key == known.key && uint64_t{i} >> d.high == known.position;
        if (fits) atomicAdd(&mine[i >> d.low & mask], 1u);
      } else {
        const bool fits = d.high == code.bits || key >> d.high == known.key;
        if (fits) atomicAdd(&mine[static_cast<unsigned>(key >> d.low) & mask], 1u);
      }
    });
    __syncthreads();
    if (mine[threadIdx.x] > 0) atomicAdd(&counts[row * kDigits + threadIdx.x], mine[threadIdx.x]);
    __syncthreads();
  }
}

// Takes the digit that has the rank, and clears the counts.
template <class C>
__global__ void __launch_bounds__(kBlock)
    take_digit_kernel(int64_t count, Digit d, unsigned* counts, Selected* rows) {
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const Selected known = rows[row];
    const auto mine = static_cast<int64_t>(counts[row * kDigits + threadIdx.x]);
    counts[row * kDigits + threadIdx.x] = 0;
    const int64_t before = count_before(static_cast<int>(mine));
    if (before > known.rank || known.rank >= before + mine) continue;
    Selected next = known;
    next.rank -= before;
    if (d.of_positions)
      next.position = known.position << (d.high - d.low) | threadIdx.x;
    else
      next.key = known.key << (d.high - d.low) | threadIdx.x;
    rows[row] = next;
  }
}

// Writes the element of each row.
template <class C>
__global__ void put_selected_kernel(SortedRows s, const Selected* rows) {
  for (MOONLET_EACH(row, s.rows)) s.template put<C>(row, row, rows[row].position);
}

// Writes the positions of what comes first, up to the element that was found, in any order.
template <class C, class Key>
__global__ void __launch_bounds__(kBlock)
    collect_kernel(SortedRows s, RowPieces p, KeyCode code, Selected* rows, uint32_t* positions) {
  for (int64_t job = blockIdx.x; job < p.jobs; job += gridDim.x) {
    const int64_t row = job / p.pieces;
    const uint64_t last = rows[row].key;
    const uint32_t position = rows[row].position;
    each_of_piece<C, Key>(s, code, row, job % p.pieces, [&](uint32_t i, Key key) {
      if (key > last || (key == last && i > position)) return;
      positions[row * s.wanted.count + atomicAdd(&rows[row].taken, 1u)] = i;
    });
  }
}

// Finds the wanted element of each row of at most 2^31 - 1; of several the last.
template <class C, class Key>
Tensor select_rows(const Call& call, const SortedRows& s, const KeyCode& code) {
  const int64_t pieces = (s.size + kSelectPiece - 1) / kSelectPiece;
  const RowPieces p{s.rows * pieces, pieces};
  const Tensor counters = call.scratch({s.rows * kDigits}, DType::Int32);
  const Tensor workspace =
      call.scratch({s.rows * static_cast<int64_t>(sizeof(Selected))}, DType::UInt8);
  auto* counts = counters.elements<unsigned>();
  auto* rows = reinterpret_cast<Selected*>(workspace.raw());
  ensure(cudaMemsetAsync(counts, 0, static_cast<size_t>(counters.numel()) * sizeof *counts,
                         call.stream()),
         call.op());
  const bool is_median = s.wanted.which == Which::Median || s.wanted.which == Which::NanMedian;
  if (is_median && s.may_hold_nan)
    MOONLET_LAUNCH((count_nan_kernel<C, Key>), blocks_for(p.jobs * kBlock), kBlock, 0,
                   call.stream(), s, p, code, counts);
  MOONLET_LAUNCH((begin_select_kernel<C>), blocks_for(s.rows), kBlock, 0, call.stream(), s, counts,
                 rows);
  call.done();
  const auto take = [&](bool of_positions, int bits) {
    for (int high = bits; high > 0; high -= kDigitBits) {
      const Digit d{of_positions, high > kDigitBits ? high - kDigitBits : 0, high};
      MOONLET_LAUNCH((count_digits_kernel<C, Key>), blocks_for(p.jobs * kBlock), kBlock, 0,
                     call.stream(), s, p, code, d, static_cast<const Selected*>(rows), counts);
      MOONLET_LAUNCH((take_digit_kernel<C>), blocks_for(s.rows * kBlock), kBlock, 0, call.stream(),
                     s.rows, d, counts, rows);
      call.done();
    }
  };
  take(false, code.bits);
  take(true, bits_below(s.size));
  return workspace;
}

}  // namespace moonlet::cuda
