// tensor/cpu/reduce/reduce_arg.cpp: the kernels that say where an extreme stands: max and min along
// a dimension, argmax and argmin. The first of equal ones counts; NaN beats all. Positions are
// 1-based.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cpu {

namespace {

// x as (outer, n, inner) around the searched dimension.
struct Search {
  int64_t outer = 1, n = 1, inner = 1;
};

template <class T>
bool beats(T a, T b, bool largest) {
  return (largest ? a > b : a < b) || (a != a && b == b);
}

// The first i with x[i] equal to v, or NaN when v is; there is one.
template <class T>
int64_t first_of(const T* x, int64_t n, T v) {
  constexpr int64_t kBlock = thresholds::reduce::kFirstBlock;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int found = 0;
    if (v == v) {
      for (int64_t k = 0; k < kBlock; ++k) found |= x[i + k] == v;
    } else {
      for (int64_t k = 0; k < kBlock; ++k) found |= x[i + k] != x[i + k];
    }
    if (found) break;
  }
  for (; i < n; ++i) {
    if (v == v ? x[i] == v : x[i] != x[i]) return i;
  }
  return 0;
}

// The 0-based position of the extreme of one run. The run is read in blocks that stay in the cache
// for the search.
template <class T>
int64_t run_position(const T* x, int64_t n, bool largest) {
  constexpr int64_t kBlock = thresholds::reduce::kArgBlock, kShort = thresholds::reduce::kArgShort;
  if (n < kShort) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) best = beats(x[i], x[best], largest) ? i : best;
    return best;
  }
  const Fold kind = largest ? Fold::Max : Fold::Min;
  T best = fold_run(kind, x, std::min(kBlock, n));
  int64_t block = 0;
  for (int64_t at = kBlock; at < n; at += kBlock) {
    stop_if_requested();
    const T some = fold_run(kind, x + at, std::min(kBlock, n - at));
    if (!beats(some, best, largest)) continue;
    best = some;
    block = at;
  }
  return block + first_of(x + block, std::min(kBlock, n - block), best);
}

// One long run on all threads: pieces of fixed length, the first best of them.
template <class T>
int64_t long_position(const T* x, int64_t n, bool largest) {
  constexpr int64_t kPiece = thresholds::reduce::kArgPiece;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::vector<int64_t> found(static_cast<size_t>(pieces));
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * kPiece;
      found[static_cast<size_t>(i)] = at + run_position(x + at, std::min(kPiece, n - at), largest);
    }
  });
  int64_t best = found[0];
  for (int64_t at : found) {
    if (beats(x[at], x[best], largest)) best = at;
  }
  return best;
}

// The extremes' positions (1-based) of `cols` neighbouring columns.
template <class T>
void column_positions(const T* x, const Search& s, int64_t cols, bool largest, int64_t* out) {
  constexpr int64_t kTile = thresholds::reduce::kArgTile;
  T best[kTile];
  int32_t where[kTile];
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t m = std::min(kTile, cols - from);
    // Positions are kept in 32 bits, relative to blocks of 2^30 rows.
    constexpr int64_t kRows = 1 << 30;
    for (int64_t base = 0; base < s.n; base += kRows) {
      if (base == 0) std::copy_n(x + from, m, best);
      std::fill_n(where, m, base == 0 ? 0 : -1);
      const int64_t end = std::min(s.n, base + kRows);
      for (int64_t i = std::max<int64_t>(base, 1); i < end; ++i) {
        if (i % (kStopBlock / kTile) == 0) stop_if_requested();
        const T* row = x + i * s.inner + from;
        const int32_t here = static_cast<int32_t>(i - base);
        for (int64_t j = 0; j < m; ++j) {
          const bool wins = beats(row[j], best[j], largest);
          best[j] = wins ? row[j] : best[j];
          where[j] = wins ? here : where[j];
        }
      }
      for (int64_t j = 0; j < m; ++j) {
        if (where[j] >= 0) out[from + j] = base + where[j] + 1;
      }
    }
  }
}

template <class T>
void find(const Tensor& x, const Search& s, bool largest, int64_t* out) {
  const T* from = x.elements<T>();
  if (s.inner == 1) {
    if (s.outer == 1 && s.n > (1 << 17)) {
      out[0] = long_position(from, s.n, largest) + 1;
      return;
    }
    return parallel_for(s.outer, grain_for(s.n / 2 + 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) out[o] = run_position(from + o * s.n, s.n, largest) + 1;
    });
  }
  constexpr int64_t kColumns = thresholds::reduce::kArgColumns;
  const int64_t chunks = (s.inner + kColumns - 1) / kColumns;
  const int64_t work = s.n * std::min(s.inner, kColumns);
  parallel_for(s.outer * chunks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / chunks, column = i % chunks * kColumns;
      column_positions(from + o * s.n * s.inner + column, s, std::min(kColumns, s.inner - column),
                       largest, out + o * s.inner + column);
    }
  });
}

Search search_of(const Tensor& x, std::optional<int64_t> dim) {
  Search s;
  if (!dim || x.dim() == 0) {
    s.n = x.numel();
    return s;
  }
  const int d = wrapped(*dim, x.dim());
  for (int i = 0; i < x.dim(); ++i) (i < d ? s.outer : i > d ? s.inner : s.n) *= x.size(i);
  return s;
}

void find_extreme(const Tensor& x, std::optional<int64_t> dim, bool largest, Tensor& indices);

// The position in the whole of x, which has expanded dims: the first one has 0 along each of them.
void find_among_repeated(const Tensor& x, const Tensor& once, bool largest, Tensor& indices) {
  find_extreme(once, std::nullopt, largest, indices);
  int64_t rest = *indices.elements<int64_t>() - 1, position = 0, step = 1;
  for (int d = x.dim() - 1; d >= 0; --d) {
    position += rest % once.size(d) * step;
    rest /= once.size(d);
    step *= x.size(d);
  }
  *indices.elements<int64_t>() = position + 1;
}

// The 0-based position in a long vector of another dtype, of which only a part at a time is
// converted to C: a whole of small integers would take eight times its memory.
template <class C>
int64_t position_by_parts(const Tensor& x, bool largest) {
  constexpr int64_t kPart = thresholds::reduce::kArgPart;
  int64_t found = 0;
  C best{};
  for (int64_t at = 0; at < x.numel(); at += kPart) {
    const int64_t count = std::min(kPart, x.numel() - at);
    const Tensor part = converted(views::slice(x, 0, at, at + count, 1), dtype_of<C>);
    const C* from = part.elements<C>();
    const int64_t position = long_position(from, count, largest);
    if (at > 0 && !beats(from[position], best, largest)) continue;
    best = from[position];
    found = at + position;
  }
  return found;
}

// Fills `indices` (contiguous int64).
void find_extreme(const Tensor& x, std::optional<int64_t> dim, bool largest, Tensor& indices) {
  if (indices.numel() == 0) return;
  if (x.dim() > 0) {
    const Dims searched = dim ? Dims{wrapped(*dim, x.dim())} : all_dims(x.dim());
    const auto [once, times] = unexpanded(x, searched);
    if (times > 1 && !dim) return find_among_repeated(x, once, largest, indices);
    if (times > 1) return find_extreme(once, dim, largest, indices);
  }
  const Search s = search_of(x, dim);
  const DType compute = compute_dtype(x.dtype());
  int64_t* out = indices.elements<int64_t>();
  visit_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
    if (x.dim() == 1 && x.dtype() != compute)
      out[0] = position_by_parts<C>(x, largest) + 1;
    else
      find<C>(converted(x, compute), s, largest, out);
  });
}

void extreme_dim(const Tensor& given, int64_t dim, bool largest, Tensor& values, Tensor& indices) {
  const Tensor x = given.dim() > 0 ? unexpanded(given, {wrapped(dim, given.dim())}).x : given;
  find_extreme(x, dim, largest, indices);
  const Search s = search_of(x, dim);
  const Tensor whole = contiguous(x);
  const int64_t* at = indices.elements<int64_t>();
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = whole.elements<T>();
    T* to = values.elements<T>();
    parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = from[(i / s.inner * s.n + at[i] - 1) * s.inner + i % s.inner];
      }
    });
  });
}

}  // namespace

void max_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  extreme_dim(x, dim, true, values, indices);
}
void min_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  extreme_dim(x, dim, false, values, indices);
}
void argmax(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  find_extreme(x, dim, true, y);
}
void argmin(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  find_extreme(x, dim, false, y);
}

}  // namespace moonlet::cpu
