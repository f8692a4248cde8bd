// tensor/cpu/index.cpp: advanced indexing to read and to write, and nonzero.
#include <memory>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/index_walk.h"

namespace moonlet::cpu {

namespace {

// The offset into x of every element of the index tensors' common shape.
std::unique_ptr<int64_t[]> indexed_offsets(const char* op, const shapes::IndexPlan& plan) {
  const int64_t count = numel_of(plan.index_sizes, op);
  auto out = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(count));
  zero_bytes(out.get(), count * static_cast<int64_t>(sizeof(int64_t)));
  for (size_t k = 0; k < plan.indices.size(); ++k) {
    const int64_t size = plan.indexed_sizes[static_cast<int>(k)];
    const Tensor positions = checked_positions(op, plan.indices[k], size, true);
    const Dims strides[1] = {
        broadcast_strides(positions.sizes(), positions.strides(), plan.index_sizes)};
    Walk<1> walk(plan.index_sizes, strides);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      if (i % kStopBlock == kStopBlock - 1) stop_if_requested();
      const int64_t p = positions.elements<int64_t>()[walk.offset()];
      out[i] += (p < 0 ? p + size : p - 1) * plan.indexed_strides[static_cast<int>(k)];
    }
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
  void each(int64_t begin, int64_t end, Body&& body) const {
    Walk<3> walk(outer, strides, begin);
    for (int64_t r = begin; r < end; ++r, walk.next()) {
      const int64_t x = walk.offset(0), other = walk.offset(2);
      const int64_t* at = offsets.get() + walk.offset(1);
      for (int64_t j0 = 0; j0 < width; j0 += kStopBlock) {
        if (j0 > 0) stop_if_requested();
        const int64_t end = std::min(width, j0 + kStopBlock);
        if (steps[1] == 0) {
          for (int64_t j = j0; j < end; ++j) body(x + *at + j * steps[0], other + j * steps[2]);
        } else {
          for (int64_t j = j0; j < end; ++j)
            body(x + at[j * steps[1]] + j * steps[0], other + j * steps[2]);
        }
      }
    }
  }
  std::unique_ptr<int64_t[]> offsets;
  Dims outer, strides[3];
  int64_t steps[3], width, count;
};

// Calls put(place, value) for each element of x, of dtype T, that `indices` name, in row order.
template <class T, class Put>
void put_at(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, Put&& put) {
  const shapes::IndexPlan plan = shapes::plan_index("index_put", x, indices);
  check(can_expand(values.sizes(), plan.result), "index_put: values of shape ", values.sizes(),
        " do not broadcast to ", plan.result);
  // The values may be a view of x.
  Tensor source = empty_plain(values.sizes(), options_of(x));
  copy_into(source, values);
  const IndexedRows rows("index_put", plan,
                         broadcast_strides(source.sizes(), source.strides(), plan.result));
  T* to = x.elements<T>();
  const T* from = source.elements<T>();
  serial_for(rows.count, rows.width * 4, [&](int64_t begin, int64_t end) {
    rows.each(begin, end, [&](int64_t place, int64_t at) { put(to[place], from[at]); });
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
      rows.each(begin, end, [&](int64_t place, int64_t at) { to[at] = from[place]; });
    });
  });
}

void index_put(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
               bool accumulate) {
  if (!accumulate) {
    visit(x.dtype(), [&]<class T>() {
      put_at<T>(x, indices, values, [](T& place, T value) { place = value; });
    });
    return;
  }
  add_to(x, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      put_at<T>(sums, indices, values, [](T& place, T value) { place = added(place, value); });
    });
  });
}

Tensor nonzero(const Tensor& given) {
  const Tensor x = contiguous(given);
  Tensor out;
  visit(x.dtype(), [&]<class T>() {
    const T* from = x.elements<T>();
    const auto is_set = [&](int64_t i) {
      if constexpr (is_reduced_floating_v<T>)
        return float(from[i]) != 0;
      else
        return from[i] != T(0);
    };
    int64_t count = 0;
    serial_for(x.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) count += is_set(i);
    });
    out = empty_plain(Dims{count, x.dim()}, Options{DType::Int64, x.device()}, "nonzero");
    int64_t* row = out.elements<int64_t>();
    serial_for(x.numel(), 1 + 8 * x.dim(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!is_set(i)) continue;
        int64_t rest = i;
        for (int d = x.dim() - 1; d >= 0; --d) {
          row[d] = rest % x.size(d) + 1;
          rest /= x.size(d);
        }
        row += x.dim();
      }
    });
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
  // How many come before v; equal ones too where `right`. NaN comes last.
  int64_t before(int64_t row, T v, bool right) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const T other = at(row, middle);
      const bool comes_before = right ? !(other > v) : !(other >= v);
      // What NaN is compared with comes before it, and NaN before nothing.
      const bool first = other != other ? right && v != v : v != v || comes_before;
      if (first)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace

void searchsorted(const Tensor& sequence, const Tensor& x, bool, bool right, std::string_view side,
                  const Tensor& sorter, Tensor& y) {
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
      P* to = y.elements<P>();
      parallel_for(x.numel(), grain_for(32), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          to[i] = static_cast<P>(rows.before(i / width, from[i], behind) + 1);
      });
    });
  });
}

}  // namespace moonlet::cpu
