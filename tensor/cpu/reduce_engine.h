// tensor/cpu/reduce_engine.h: any reduction as passes over a contiguous (outer, n, inner) block.
// The work is cut into pieces that depend on the shape alone and the partial results are joined in
// a fixed tree, so the result is the same for any number of threads.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "tensor/cpu/copy.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/reduce.h"

namespace moonlet::cpu {

// A policy P has: In and Acc types; Acc start(); Acc run(const In*, n); void rows(Acc*, const In*,
// rows, stride, cols); Acc join(Acc, Acc); and Next, a policy that joins Acc values.

template <class T>
std::unique_ptr<T[]> scratch(int64_t n) {
  return std::unique_ptr<T[]>(new T[std::max<int64_t>(n, 1)]);
}

// Joins `count` rows of `cols` partial results into the first, as a balanced tree.
template <class P>
void join_tree(const P& p, typename P::Acc* parts, int64_t count, int64_t cols) {
  for (int64_t step = 1; step < count; step *= 2) {
    for (int64_t i = 0; i + step < count; i += 2 * step) {
      typename P::Acc* a = parts + i * cols;
      const typename P::Acc* b = parts + (i + step) * cols;
      for (int64_t j = 0; j < cols; ++j) a[j] = p.join(a[j], b[j]);
    }
  }
}

template <class P>
void reduce_inner(const P& p, const typename P::In* x, typename P::Acc* out, int64_t outer,
                  int64_t n) {
  const int64_t runs = std::max<int64_t>(1, (n + kRunLength - 1) / kRunLength);
  if (runs == 1) {
    return parallel_for(outer, grain_for(n / 2 + 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) out[o] = p.run(x + o * n, n);
    });
  }
  auto parts = scratch<typename P::Acc>(outer * runs);
  parallel_for(outer * runs, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i % runs * kRunLength;
      parts[i] = p.run(x + i / runs * n + at, std::min(kRunLength, n - at));
    }
  });
  for (int64_t o = 0; o < outer; ++o) {
    join_tree(p, parts.get() + o * runs, runs, 1);
    out[o] = parts[o * runs];
  }
}

// One piece of an outer reduction: `rows` rows of `cols` columns into acc.
template <class P>
void reduce_piece(const P& p, const typename P::In* x, typename P::Acc* acc, int64_t rows,
                  int64_t stride, int64_t cols) {
  constexpr int64_t kGroup = 128;
  std::fill(acc, acc + cols, p.start());
  if (rows <= kGroup) return p.rows(acc, x, rows, stride, cols);
  auto group = scratch<typename P::Acc>(cols);
  for (int64_t r = 0; r < rows; r += kGroup) {
    std::fill(group.get(), group.get() + cols, p.start());
    p.rows(group.get(), x + r * stride, std::min(kGroup, rows - r), stride, cols);
    for (int64_t j = 0; j < cols; ++j) acc[j] = p.join(acc[j], group[j]);
  }
}

template <class P>
void reduce_outer(const P& p, const typename P::In* x, typename P::Acc* out, int64_t outer,
                  int64_t n, int64_t inner) {
  constexpr int64_t kPiece = 1 << 18, kColumns = 4096;
  int64_t piece_rows = n;
  if (outer < 16 && n * inner > 2 * kPiece) {
    piece_rows = std::min(n, std::max<int64_t>(32, kPiece / inner));
  }
  const int64_t pieces = std::max<int64_t>(1, (n + piece_rows - 1) / std::max<int64_t>(piece_rows, 1));
  const int64_t chunks = (inner + kColumns - 1) / kColumns;
  std::unique_ptr<typename P::Acc[]> parts;
  if (pieces > 1) parts = scratch<typename P::Acc>(outer * pieces * inner);
  typename P::Acc* to = parts ? parts.get() : out;
  const int64_t work = std::min(piece_rows, n) * std::min(inner, kColumns);
  parallel_for(outer * pieces * chunks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % chunks * kColumns, piece = i / chunks % pieces;
      const int64_t o = i / chunks / pieces, row = piece * piece_rows;
      reduce_piece(p, x + (o * n + row) * inner + column, to + (o * pieces + piece) * inner + column,
                   std::min(piece_rows, n - row), inner, std::min(kColumns, inner - column));
    }
  });
  if (!parts) return;
  for (int64_t o = 0; o < outer; ++o) {
    join_tree(p, to + o * pieces * inner, pieces, inner);
    std::copy_n(to + o * pieces * inner, inner, out + o * inner);
  }
}

template <class P>
void reduce_block(const P& p, const typename P::In* x, typename P::Acc* out, int64_t outer,
                  int64_t n, int64_t inner) {
  if (inner == 1) return reduce_inner(p, x, out, outer, n);
  reduce_outer(p, x, out, outer, n, inner);
}

// Adjacent dims that are all reduced or all kept, joined into one.
struct Groups {
  Dims sizes;
  bool last_reduced = false;
};
inline Groups group_dims(const Dims& sizes, const Dims& order, const Dims& reduced) {
  Groups out;
  for (int64_t d : order) {
    if (sizes[d] == 1) continue;
    const bool is_reduced = reduced.contains(d);
    if (out.sizes.empty() || is_reduced != out.last_reduced) {
      out.sizes.push_back(sizes[d]);
    } else {
      out.sizes.back() *= sizes[d];
    }
    out.last_reduced = is_reduced;
  }
  return out;
}

// Reduces the groups from the last to the first; `x` is contiguous.
template <class P>
void reduce_groups(const P& p, const typename P::In* x, typename P::Acc* out, Groups groups) {
  const int count = groups.sizes.size();
  int at = groups.last_reduced ? count - 1 : count - 2;
  int64_t outer = 1;
  for (int i = 0; i < at; ++i) outer *= groups.sizes[i];
  const int64_t n = at < 0 ? 1 : groups.sizes[at];
  const int64_t inner = count == 0 || at == count - 1 ? 1 : groups.sizes[count - 1];
  if (at < 2) return reduce_block(p, x, out, outer, n, inner);
  auto parts = scratch<typename P::Acc>(outer * inner);
  reduce_block(p, x, parts.get(), outer, n, inner);
  // (..., reduced, kept) and the kept inner part become one kept group.
  Groups rest;
  for (int i = 0; i < at; ++i) rest.sizes.push_back(groups.sizes[i]);
  rest.sizes.back() *= inner;
  reduce_groups(p.next(), static_cast<const typename P::Acc*>(parts.get()), out, rest);
}

// x's dims with the largest stride first when that order reads memory straight through, else in
// their own order.
inline Dims memory_order(const Tensor& x) {
  Dims order, plain;
  for (int d = 0; d < x.dim(); ++d) {
    int at = 0;
    while (at < order.size() && x.stride(static_cast<int>(order[at])) >= x.stride(d)) ++at;
    order.insert(at, d);
    plain.push_back(d);
  }
  int64_t expected = 1;
  for (int i = order.size() - 1; i >= 0; --i) {
    const int d = static_cast<int>(order[i]);
    if (x.size(d) != 1 && x.stride(d) != expected) return plain;
    expected *= x.size(d);
  }
  return order;
}

// Reduces `dims` of x by policy p and stores finish(acc) in y (T: y's element type). y's shape is
// x's without dims, or with 1 there.
template <class T, class P, class Finish>
void reduce_dims(const P& p, const Tensor& x, const Dims& dims, Tensor& y, Finish&& finish) {
  using Acc = typename P::Acc;
  T* to = y.data<T>();
  if (x.numel() == 0) {
    std::fill(to, to + y.numel(), finish(p.start()));
    return;
  }
  const Dims order = memory_order(x);
  Dims plain, kept_sizes, kept_dims;
  for (int d = 0; d < x.dim(); ++d) plain.push_back(d);
  const bool reordered = !(order == plain) && !x.is_contiguous();
  const Tensor whole = x.is_contiguous() || reordered ? x : contiguous(x);
  auto acc = scratch<Acc>(y.numel());
  reduce_groups(p, whole.data<typename P::In>(), acc.get(),
                group_dims(x.sizes(), reordered ? order : plain, dims));
  if (!reordered) {
    for (int64_t i = 0; i < y.numel(); ++i) to[i] = finish(acc[i]);
    return;
  }
  // The results stand in memory order; put each where the kept dims' own order has it.
  Dims strides = Dims::filled(x.dim(), 0), sizes, steps;
  int64_t step = 1;
  for (int d = x.dim() - 1; d >= 0; --d) {
    if (dims.contains(d)) continue;
    strides[d] = step;
    step *= x.size(d);
  }
  for (int64_t d : order) {
    if (dims.contains(d)) continue;
    sizes.push_back(x.size(static_cast<int>(d)));
    steps.push_back(strides[static_cast<int>(d)]);
  }
  Dims at = Dims::filled(sizes.size(), 0);
  for (int64_t i = 0, place = 0; i < y.numel(); ++i) {
    to[place] = finish(acc[i]);
    for (int d = sizes.size() - 1; d >= 0; --d) {
      place += steps[d];
      if (++at[d] < sizes[d]) break;
      place -= steps[d] * sizes[d];
      at[d] = 0;
    }
  }
}

// All dims when none are named.
inline Dims all_if_empty(const Dims& dims, int rank) { return wrap_dims(dims, rank, "reduce"); }

}  // namespace moonlet::cpu
