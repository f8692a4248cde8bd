// tensor/cpu/index/index.cpp: advanced indexing to read and to write, and nonzero.
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/index/index_walk.h"

namespace moonlet::cpu {

namespace {

// The offset into x of every element of the index tensors' common shape.
Tensor indexed_offsets(const char* op, const shapes::IndexPlan& plan) {
  Tensor out = empty_plain(plan.index_sizes, {DType::Int64, Device{}}, op);
  int64_t* const to = out.elements<int64_t>();
  const int64_t width = out.dim() == 0 ? 1 : out.size(-1);
  const Dims outer(plan.index_sizes.data(), std::max(out.dim() - 1, 0));
  for (size_t k = 0; k < plan.indices.size(); ++k) {
    const int64_t size = plan.indexed_sizes[static_cast<int>(k)];
    const int64_t by = plan.indexed_strides[static_cast<int>(k)];
    const Tensor positions = checked_positions(op, plan.indices[k], size, true);
    const Dims strides =
        broadcast_strides(positions.sizes(), positions.strides(), plan.index_sizes);
    const int64_t step = out.dim() == 0 ? 0 : strides.back();
    const auto add_row = [=](int64_t* row, const int64_t* p, int64_t count, bool first) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t at = p[j * step], offset = (at + (at < 0 ? size : -1)) * by;
        row[j] = first ? offset : row[j] + offset;
      }
    };
    if (out.numel() == 0) continue;
    parallel_for(out.numel() / width, grain_for(width * 2), [&](int64_t begin, int64_t end) {
      Walk<1> walk(outer, {Dims(strides.data(), outer.size())}, begin);
      for (int64_t r = begin; r < end; ++r, walk.next()) {
        const int64_t* p = positions.elements<int64_t>() + walk.offset();
        run_blocks(0, width, kStopBlock, [&](int64_t from, int64_t to_end) {
          add_row(to + r * width + from, p + from * step, to_end - from, k == 0);
        });
      }
    });
  }
  return out;
}

// Strides over the result that number the elements of the index tensors' common shape.
Dims number_strides(const shapes::IndexPlan& plan) {
  Dims out = Dims::filled(plan.result.size(), 0);
  int64_t step = 1;
  for (int d = plan.index_sizes.size() - 1; d >= 0; --d) {
    out[plan.index_at + d] = step;
    step *= plan.index_sizes[d];
  }
  return out;
}

// The elements that indices name, in the order of the result, by rows of its last dimension;
// `other` are the strides over the result of the tensor on the other side.
struct IndexedRows {
  IndexedRows(const char* op, const shapes::IndexPlan& plan, const Dims& other)
      : offsets(indexed_offsets(op, plan)) {
    const Dims all[3] = {plan.base_strides, number_strides(plan), other};
    const int last = plan.result.size() - 1;
    for (int k = 0; k < 3; ++k) {
      strides[k] = Dims(all[k].data(), std::max(last, 0));
      steps[k] = last < 0 ? 0 : all[k][last];
    }
    outer = Dims(plan.result.data(), std::max(last, 0));
    width = last < 0 ? 1 : plan.result[last];
    count = numel_of(outer, op);
  }
  // Calls body(offset into x, offset on the other side) for the elements of rows [begin, end).
  template <class Body>
  void each(int64_t begin, int64_t end, const Body& body) const {
    Walk<3> walk(outer, strides, begin);
    for (int64_t r = begin; r < end; ++r, walk.next()) {
      const int64_t x = walk.offset(0), other = walk.offset(2);
      const int64_t* at = offsets.elements<int64_t>() + walk.offset(1);
      for (int64_t j = 0; j < width; j += kStopBlock) {
        if (j > 0) stop_if_requested();
        run(std::min(kStopBlock, width - j), x + j * steps[0], at + j * steps[1],
            other + j * steps[2], body);
      }
    }
  }

 private:
  template <class Body>
  void run(int64_t count, int64_t x, const int64_t* at, int64_t other, const Body& given) const {
    const Body body = given;  // what it holds, and these, stay in registers
    const int64_t by = steps[0], next = steps[1], across = steps[2];
    if (next == 0) {
      for (int64_t j = 0, first = x + *at; j < count; ++j) body(first + j * by, other + j * across);
    } else if (next == 1 && by == 0) {
      for (int64_t j = 0; j < count; ++j) body(x + at[j], other + j * across);
    } else {
      for (int64_t j = 0; j < count; ++j) body(x + at[j * next] + j * by, other + j * across);
    }
  }

 public:
  Tensor offsets;
  Dims outer, strides[3];
  int64_t steps[3], width, count;
};

// Calls put(position, value) for each element of x, as a T, that `indices` name, in row order.
template <class T, class Put>
void put_at(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, Put&& put) {
  const shapes::IndexPlan plan = shapes::plan_index("index_put", x, indices);
  check(can_expand(values.sizes(), plan.result), "index_put: values of shape ", values.sizes(),
        " do not broadcast to ", plan.result);
  const Tensor source = in_dtype(values, x.dtype());
  const IndexedRows rows("index_put", plan,
                         broadcast_strides(source.sizes(), source.strides(), plan.result));
  T* to = x.elements<T>();
  const T* from = source.elements<T>();
  serial_for(rows.count, rows.width * 4, [&](int64_t begin, int64_t end) {
    rows.each(begin, end, [=](int64_t position, int64_t at) { put(to[position], from[at]); });
  });
}

}  // namespace

void index(const Tensor& x, const std::vector<Tensor>& indices, Tensor& y) {
  const shapes::IndexPlan plan = shapes::plan_index("index", x, indices);
  const IndexedRows rows("index", plan, y.strides());
  if (y.numel() == 0) return;
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = x.elements<T>();
    T* to = y.elements<T>();
    parallel_for(rows.count, grain_for(rows.width * 4), [&](int64_t begin, int64_t end) {
      rows.each(begin, end, [=](int64_t position, int64_t at) { to[at] = from[position]; });
    });
  });
}

void index_put(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
               bool accumulate) {
  if (!accumulate) {
    visit_bytes(x.dtype(), [&]<class T>() {
      put_at<T>(x, indices, values, [](T& position, T value) { position = value; });
    });
    return;
  }
  if (is_storage(x.dtype())) {  // which no loop sums in
    Tensor wide = in_dtype(x, compute_dtype(x.dtype()));
    index_put(wide, indices, values, true);
    return copy_into(x, wide);
  }
  add_to(x, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      put_at<T>(sums, indices, values,
                [](T& position, T value) { position = added(position, value); });
    });
  });
}

namespace {

template <class T>
bool is_set(T v) {
  if constexpr (is_reduced_floating_v<T>)
    return float(v) != 0;
  else
    return v != T(0);
}

template <class T>
int64_t count_set(const T* x, int64_t count) {
  int64_t set = 0;
  serial_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) set += is_set(x[i]);
  });
  return set;
}

// Writes the positions in a shape that come in ascending order, one row of them each.
class PositionRows {
 public:
  PositionRows(const Dims& sizes, int64_t* out) : sizes_(sizes), out_(out), last_(sizes.back()) {}

  // The element with that number in row order.
  void write(int64_t i) {
    if (i - first_ >= last_) enter_row(i / last_);
    const int outer = sizes_.size() - 1;
    for (int d = 0; d < outer; ++d) out_[d] = before_[d];
    out_[outer] = i - first_ + 1;
    out_ += outer + 1;
  }

 private:
  void enter_row(int64_t row) {
    first_ = row * last_;
    for (int d = sizes_.size() - 2; d >= 0; --d) {
      before_[d] = row % sizes_[d] + 1;
      row /= sizes_[d];
    }
  }

  const Dims sizes_;
  int64_t* out_;
  const int64_t last_;
  int64_t first_ = -last_;  // of the row that `before_` names; none yet
  int64_t before_[kMaxDims];
};

// The positions of what is set, found by blocks and without a branch that depends on the data.
template <class T>
void write_positions(const T* x, int64_t count, PositionRows rows) {
  constexpr int64_t kFound = thresholds::index::kFound;
  serial_for(count, 8, [&](int64_t begin, int64_t end) {
    int32_t found[kFound];
    for (int64_t at = begin; at < end; at += kFound) {
      const auto width = static_cast<int32_t>(std::min(kFound, end - at));
      int64_t set = 0;
      for (int32_t j = 0; j < width; ++j) {
        found[set] = j;
        set += is_set(x[at + j]);
      }
      for (int64_t k = 0; k < set; ++k) rows.write(at + found[k]);
    }
  });
}

}  // namespace

Tensor nonzero(const Tensor& given) {
  const Tensor x = contiguous(given);
  Tensor out;
  visit(x.dtype(), [&]<class X>() {
    // The bytes of a bool tensor may be any: a view of them as uint8 writes there, too.
    using T = std::conditional_t<std::is_same_v<X, bool>, uint8_t, X>;
    const T* from = x.elements<T>();
    const int64_t count = count_set(from, x.numel());
    out = empty_plain(Dims{count, x.dim()}, Options{DType::Int64, x.device()}, "nonzero");
    if (x.dim() == 0 || count == 0) return;
    write_positions(from, x.numel(), PositionRows(x.sizes(), out.elements<int64_t>()));
  });
  return out;
}

namespace {

// The rows of a sorted sequence: row r begins at at[r * row_step], and `order`, where there is one,
// holds the positions that sort it.
template <class T>
struct SortedRows {
  const T* values;
  const int64_t* order;
  int64_t count, row_step;
  T at(int64_t row, int64_t i) const {
    const int64_t first = row * row_step;
    return values[first + (order != nullptr ? order[first + i] - 1 : i)];
  }
  // How many come before each of kCount values, which belong to the given rows; equal ones too if
  // kRight. The searches take the same steps, so that they do not wait for each other's memory.
  template <bool kRight, int kCount>
  void before(const int64_t* row, const T* v, int64_t* low) const {
    std::fill_n(low, kCount, int64_t{0});
    for (int64_t left = count; left > 0;) {
      const int64_t half = (left + 1) / 2;
      left -= half;
      for (int k = 0; k < kCount; ++k)
        low[k] += half & -comes_before<kRight>(at(row[k], low[k] + half - 1), v[k]);
    }
  }

 private:
  // 1 or 0, without a branch, which nobody could foretell. NaN comes last.
  template <bool kRight>
  static int64_t comes_before(T other, T v) {
    const int is_less = kRight ? other <= v : other < v;
    const int is_nan = v != v, is_number = kRight ? 1 : other == other;
    return is_less | (is_nan & is_number);
  }
};

// Writes the position of each of n values, which come in rows of `width`.
template <bool kRight, class T, class P>
void search(const SortedRows<T>& rows, const T* values, int64_t width, P* to, int64_t n) {
  constexpr int kGroup = thresholds::index::kSearchGroup;
  parallel_for(n, grain_for(32), [&](int64_t begin, int64_t end) {
    int64_t row[kGroup], low[kGroup];
    int64_t i = begin;
    for (; i + kGroup <= end; i += kGroup) {
      for (int k = 0; k < kGroup; ++k) row[k] = rows.row_step == 0 ? 0 : (i + k) / width;
      rows.template before<kRight, kGroup>(row, values + i, low);
      for (int k = 0; k < kGroup; ++k) to[i + k] = static_cast<P>(low[k] + 1);
    }
    for (; i < end; ++i) {
      row[0] = i / width;
      rows.template before<kRight, 1>(row, values + i, low);
      to[i] = static_cast<P>(low[0] + 1);
    }
  });
}

}  // namespace

void searchsorted(const Tensor& sequence, const Tensor& x, bool, bool right,
                  const std::optional<std::string>& side, const Tensor& sorter, Tensor& y) {
  const bool behind = shapes::searches_right(right, side);
  const DType dtype = sum_dtype(promote(sequence.dtype(), x.dtype()));
  const Tensor sorted = converted(sequence, dtype), values = converted(x, dtype);
  Tensor order;
  if (sorter.defined()) order = checked_positions("searchsorted", sorter, sequence.size(-1));
  if (x.numel() == 0) return;
  const int64_t width = sequence.dim() == 1 ? x.numel() : x.size(-1);
  visit<kSummed & dtypes::real>(dtype, [&]<class T>() {
    const SortedRows<T> rows{sorted.elements<T>(),
                             order.defined() ? order.elements<int64_t>() : nullptr,
                             sequence.size(-1), sequence.dim() == 1 ? 0 : sequence.size(-1)};
    const T* from = values.elements<T>();
    visit<bit(DType::Int32) | bit(DType::Int64)>(y.dtype(), [&]<class P>() {
      const auto run = behind ? search<true, T, P> : search<false, T, P>;
      run(rows, from, width, y.elements<P>(), x.numel());
    });
  });
}

}  // namespace moonlet::cpu
