// tensor/cpu/reduce/reduce_engine.cpp: any reduction as passes over a contiguous (outer, n, inner)
// block, for accumulators that are only bytes here.
#include <algorithm>
#include <cstring>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/reduce/run_fold.h"

namespace moonlet::cpu {

namespace {

// Memory for `bytes` bytes, on the stack when they are few.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : data_(small_) {
    if (bytes <= static_cast<int64_t>(sizeof small_)) return;
    large_.reset(new char[static_cast<size_t>(bytes)]);
    data_ = large_.get();
  }
  char* data() const { return data_; }

 private:
  alignas(16) char small_[256];
  std::unique_ptr<char[]> large_;
  char* data_;
};

struct Block {
  int64_t outer, n, inner;
};

int64_t runs_of(int64_t n) { return (n + kRunLength - 1) / kRunLength; }

// A reducer with the sizes of its elements.
struct Pass {
  const Reducer& r;
  int64_t in, acc;
  explicit Pass(const Reducer& reducer)
      : r(reducer),
        in(static_cast<int64_t>(size_of(reducer.input))),
        acc(static_cast<int64_t>(size_of(reducer.acc))) {}

  // Joins `count` rows of `cols` partial results into the first, as a balanced tree.
  void join_tree(char* parts, int64_t count, int64_t cols) const {
    for (int64_t step = 1; step < count; step *= 2) {
      for (int64_t i = 0; i + step < count; i += 2 * step) {
        r.join(parts + i * cols * acc, parts + (i + step) * cols * acc, cols);
      }
    }
  }

  // The runs of rows of n elements each, from the first to the last.
  void all_runs(const char* x, int64_t first, int64_t last, int64_t n, char* parts) const {
    const int64_t runs = runs_of(n);
    parallel_for(last - first, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = first + begin; i < first + end; ++i) {
        const int64_t at = i % runs * kRunLength;
        r.runs(x + (i / runs * n + at) * in, 1, std::min(kRunLength, n - at), parts + i * acc);
      }
    });
  }

  void inner(const char* x, char* out, const Block& b) const {
    const int64_t runs = runs_of(b.n);
    if (runs == 1) {
      return parallel_for(b.outer, grain_for(b.n / 2 + 1), [&](int64_t begin, int64_t end) {
        r.runs(x + begin * b.n * in, end - begin, b.n, out + begin * acc);
      });
    }
    Scratch parts(b.outer * runs * acc);
    all_runs(x, 0, b.outer * runs, b.n, parts.data());
    for (int64_t o = 0; o < b.outer; ++o) {
      join_tree(parts.data() + o * runs * acc, runs, 1);
      std::memcpy(out + o * acc, parts.data() + o * runs * acc, static_cast<size_t>(acc));
    }
  }

  // `rows` rows of `cols` columns into `to`, by halves, so that rounding errors stay small.
  void piece(const char* x, char* to, int64_t rows, int64_t stride, int64_t cols) const {
    constexpr int64_t kGroup = thresholds::reduce::kGroupRows;
    if (rows <= kGroup) {
      stop_if_requested();
      r.start(to, cols);
      return r.rows(to, x, rows, stride, cols);
    }
    const int64_t half = (rows / 2 + kGroup - 1) / kGroup * kGroup;
    piece(x, to, half, stride, cols);
    Scratch second(cols * acc);
    piece(x + half * stride * in, second.data(), rows - half, stride, cols);
    r.join(to, second.data(), cols);
  }

  void outer(const char* x, char* out, const Block& b) const {
    constexpr int64_t kPiece = thresholds::reduce::kPiece;
    int64_t piece_rows = b.n;
    if (b.outer < 16 && b.n * b.inner > 2 * kPiece) {
      piece_rows = std::min(b.n, std::max<int64_t>(32, kPiece / b.inner));
    }
    const int64_t pieces = (b.n + piece_rows - 1) / piece_rows;
    const int64_t chunks = (b.inner + kReduceColumns - 1) / kReduceColumns;
    Scratch parts(pieces > 1 ? b.outer * pieces * b.inner * acc : 0);
    char* to = pieces > 1 ? parts.data() : out;
    const int64_t work = piece_rows * std::min(b.inner, kReduceColumns);
    parallel_for(b.outer * pieces * chunks, grain_for(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % chunks * kReduceColumns, part = i / chunks % pieces;
        const int64_t o = i / chunks / pieces, row = part * piece_rows;
        piece(x + ((o * b.n + row) * b.inner + column) * in,
              to + ((o * pieces + part) * b.inner + column) * acc, std::min(piece_rows, b.n - row),
              b.inner, std::min(kReduceColumns, b.inner - column));
      }
    });
    if (pieces == 1) return;
    for (int64_t o = 0; o < b.outer; ++o) {
      char* first = to + o * pieces * b.inner * acc;
      join_tree(first, pieces, b.inner);
      std::memcpy(out + o * b.inner * acc, first, static_cast<size_t>(b.inner * acc));
    }
  }

  void block(const char* x, char* out, const Block& b) const {
    if (b.inner == 1) return inner(x, out, b);
    outer(x, out, b);
  }
};

// Adjacent dims that are all reduced or all kept, joined into one.
struct Groups {
  Dims sizes;
  bool last_reduced = false;
};
Groups group_dims(const Dims& sizes, const Dims& order, const Dims& reduced) {
  Groups out;
  for (int64_t d : order) {
    const int64_t size = sizes[static_cast<int>(d)];
    if (size == 1) continue;
    const bool is_reduced = reduced.contains(d);
    if (out.sizes.empty() || is_reduced != out.last_reduced) {
      out.sizes.push_back(size);
    } else {
      out.sizes.back() *= size;
    }
    out.last_reduced = is_reduced;
  }
  return out;
}

// Reduces the groups from the last to the first; `x` is contiguous.
void reduce_groups(const Reducer& r, const char* x, char* out, const Groups& groups) {
  const Pass pass(r);
  const int count = groups.sizes.size();
  const int at = groups.last_reduced ? count - 1 : count - 2;
  Block b{1, at < 0 ? 1 : groups.sizes[at], 1};
  for (int i = 0; i < at; ++i) b.outer *= groups.sizes[i];
  if (count > 0 && at != count - 1) b.inner = groups.sizes[count - 1];
  if (at < 2) return pass.block(x, out, b);
  Scratch parts(b.outer * b.inner * pass.acc);
  pass.block(x, parts.data(), b);
  // (..., reduced, kept) and the kept inner part become one kept group.
  Groups rest;
  for (int i = 0; i < at; ++i) rest.sizes.push_back(groups.sizes[i]);
  rest.sizes.back() *= b.inner;
  reduce_groups(*r.next(), parts.data(), out, rest);
}

Dims plain_order(int rank) {
  Dims out;
  for (int d = 0; d < rank; ++d) out.push_back(d);
  return out;
}

// x's dims with the largest stride first when that order reads memory straight through, else in
// their own order.
Dims memory_order(const Tensor& x) {
  Dims order;
  for (int d = 0; d < x.dim(); ++d) {
    int at = 0;
    while (at < order.size() && x.stride(static_cast<int>(order[at])) >= x.stride(d)) ++at;
    order.insert(at, d);
  }
  int64_t expected = 1;
  for (int i = order.size() - 1; i >= 0; --i) {
    const int d = static_cast<int>(order[i]);
    if (x.size(d) != 1 && x.stride(d) != expected) return plain_order(x.dim());
    expected *= x.size(d);
  }
  return order;
}

// x, or where its elements do not fill their memory a copy in the same order.
Tensor without_gaps(const Tensor& x) {
  if (is_dense(x.sizes(), x.strides())) return x;
  const Dims strides = dense_strides(x.sizes(), x.strides());
  Tensor out = empty_strided(x.sizes(), strides, options_of(x), "reduction");
  copy_into(out, x);
  return out;
}

// Stores n accumulators in y, n elements from `at` on.
void store(const Reducer& r, const char* acc, Tensor& y) {
  const Converter convert = converter(r.acc, y.dtype());
  const int64_t from = static_cast<int64_t>(size_of(r.acc));
  const int64_t to = static_cast<int64_t>(size_of(y.dtype()));
  parallel_for(y.numel(), 2 * kGrain, [&](int64_t begin, int64_t end) {
    convert(acc + begin * from, from, y.raw() + begin * to, to, end - begin);
  });
}

// The same for results that stand in the memory order of x's kept dims.
void store_reordered(const Reducer& r, char* acc, const Tensor& x, const Dims& order,
                     const Dims& dims, Tensor& y) {
  Dims sizes, kept;
  for (int64_t d : order) {
    if (dims.contains(d)) continue;
    sizes.push_back(x.size(static_cast<int>(d)));
    kept.push_back(d);
  }
  const Dims strides = contiguous_strides(sizes);
  Dims own_sizes, own_strides;
  for (int d = 0; d < x.dim(); ++d) {
    for (int i = 0; i < kept.size(); ++i) {
      if (kept[i] != d) continue;
      own_sizes.push_back(sizes[i]);
      own_strides.push_back(strides[i]);
    }
  }
  const Tensor in_memory = alias(from_blob(acc, sizes, r.acc), own_sizes, own_strides, 0);
  Tensor flat = alias(y, own_sizes, contiguous_strides(own_sizes), y.offset());
  copy_into(flat, in_memory);
}

// acc[i] = acc[i] joined with itself, so many times in all, by doubling.
void repeat(const Reducer& r, void* acc, int64_t n, int64_t times) {
  if (times == 1) return;
  const size_t bytes = static_cast<size_t>(n) * size_of(r.acc);
  Scratch power(static_cast<int64_t>(bytes)), same(static_cast<int64_t>(bytes));
  std::memcpy(power.data(), acc, bytes);
  r.start(acc, n);
  for (;; times /= 2) {
    stop_if_requested();
    if (times % 2 == 1) r.join(acc, power.data(), n);
    if (times == 1) return;
    std::memcpy(same.data(), power.data(), bytes);
    r.join(power.data(), same.data(), n);
  }
}

bool is_expanded(const Tensor& x, int d) { return x.stride(d) == 0 && x.size(d) > 1; }

// The reduction of x, which has expanded dims: of one element along each of them, that counts as
// often as it is repeated; what is kept is repeated in the result.
void reduce_expanded(const Reducer& r, const Tensor& x, const Dims& dims, Tensor& y,
                     const Finish& finish) {
  const int64_t times = unexpanded(x, dims).times;
  const Tensor once = unexpanded(x, plain_order(x.dim())).x;
  Dims kept = x.sizes(), small = once.sizes();
  for (int64_t d : dims) kept[static_cast<int>(d)] = small[static_cast<int>(d)] = 1;
  const Finish last = [&](void* acc, int64_t n) {
    repeat(r, acc, n, times);
    if (finish) finish(acc, n);
  };
  if (small == kept) return reduce_dims(r, once, dims, y, last);
  Tensor result = empty_plain(small, options_of(y), "reduction");
  reduce_dims(r, once, dims, result, last);
  Tensor whole = alias(y, kept, contiguous_strides(kept), y.offset());
  copy_into(whole, alias(result, kept, broadcast_strides(small, result.strides(), kept), 0));
}

}  // namespace

void reduce_dims(const Reducer& r, const Tensor& x, const Dims& dims, Tensor& y,
                 const Finish& finish) {
  for (int d = 0; d < x.dim() && x.numel() != 0; ++d)
    if (is_expanded(x, d)) return reduce_expanded(r, x, dims, y, finish);
  const int64_t results = y.numel();
  Scratch own(r.acc == y.dtype() ? 0 : results * static_cast<int64_t>(size_of(r.acc)));
  if (x.numel() == 0) {
    char* acc = r.acc == y.dtype() ? y.raw() : own.data();
    r.start(acc, results);
    if (finish) finish(acc, results);
    if (acc != y.raw()) store(r, acc, y);
    return;
  }
  const Dims plain = plain_order(x.dim());
  const Tensor dense = without_gaps(x);
  const Dims order = dense.is_contiguous() ? plain : memory_order(dense);
  const bool reordered = !(order == plain);
  const Tensor whole = reordered ? dense : contiguous(dense);
  Scratch moved(reordered ? results * static_cast<int64_t>(size_of(r.acc)) : 0);
  char* acc = reordered ? moved.data() : r.acc == y.dtype() ? y.raw() : own.data();
  reduce_groups(r, whole.raw(), acc, group_dims(x.sizes(), order, dims));
  if (finish) finish(acc, results);
  if (reordered) return store_reordered(r, acc, x, order, dims, y);
  if (acc != y.raw()) store(r, acc, y);
}

Unexpanded unexpanded(const Tensor& x, const Dims& dims) {
  Dims sizes = x.sizes();
  int64_t times = 1;
  for (int64_t dim : dims) {
    const int d = static_cast<int>(dim);
    if (x.numel() == 0 || !is_expanded(x, d)) continue;
    times *= x.size(d);
    sizes[d] = 1;
  }
  return {times == 1 ? x : alias(x, sizes, x.strides(), x.offset()), times};
}

RunFold::RunFold(std::unique_ptr<Reducer> reducer, Finish finish, int64_t numel)
    : reducer_(std::move(reducer)), finish_(std::move(finish)), numel_(numel) {}

RunFoldMaker run_fold_maker = nullptr;

std::unique_ptr<RunFold> run_fold_of(std::string_view op, DType from, DType to, int64_t numel) {
  return run_fold_maker ? run_fold_maker(op, from, to, numel) : nullptr;
}

int64_t RunFold::bytes() const {
  return runs_of(numel_) * static_cast<int64_t>(size_of(reducer_->acc));
}

void RunFold::add(const char* x, int64_t first, int64_t count, char* runs) const {
  const Pass pass(*reducer_);
  const int64_t run = first / kRunLength;
  pass.all_runs(x - first * pass.in, run, run + runs_of(count), numel_, runs);
}

void RunFold::finish(char* runs, Tensor& y) const {
  Pass(*reducer_).join_tree(runs, runs_of(numel_), 1);
  if (finish_) finish_(runs, 1);
  store(*reducer_, runs, y);
}

int64_t reduced_count(const Tensor& x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= x.size(static_cast<int>(d));
  return count;
}

}  // namespace moonlet::cpu
