// tensor/cpu/index.cpp: advanced indexing to read and to write, and nonzero.
#include <vector>

#include "tensor/cpu/index_walk.h"

namespace moonlet::cpu {

namespace {

// The offset into x of every element of the index tensors' common shape.
std::vector<int64_t> indexed_offsets(const char* op, const shapes::IndexPlan& plan) {
  const int64_t count = numel_of(plan.index_sizes, op);
  std::vector<int64_t> out(static_cast<size_t>(count), 0);
  for (size_t k = 0; k < plan.indices.size(); ++k) {
    const int64_t size = plan.indexed_sizes[static_cast<int>(k)];
    const Tensor positions = checked_positions(op, plan.indices[k], size, true);
    const Dims strides[1] = {
        broadcast_strides(positions.sizes(), positions.strides(), plan.index_sizes)};
    Walk<1> walk(plan.index_sizes, strides);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      const int64_t p = positions.data<int64_t>()[walk.offset()];
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

}  // namespace

void index(const Tensor& x, const std::vector<Tensor>& indices, Tensor& y) {
  const shapes::IndexPlan plan = shapes::plan_index("index", x, indices);
  const std::vector<int64_t> offsets = indexed_offsets("index", plan);
  if (y.numel() == 0) return;
  const Dims strides[2] = {plan.base_strides, number_strides(plan)};
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    parallel_for(y.numel(), 8192, [&](int64_t begin, int64_t end) {
      Walk<2> walk(plan.result, strides, begin);
      for (int64_t i = begin; i < end; ++i, walk.next()) {
        to[i] = from[walk.offset(0) + offsets[walk.offset(1)]];
      }
    });
  });
}

void index_put(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
               bool accumulate) {
  const shapes::IndexPlan plan = shapes::plan_index("index_put", x, indices);
  const std::vector<int64_t> offsets = indexed_offsets("index_put", plan);
  // The values may be a view of x.
  Tensor source = empty(values.sizes(), options_of(x));
  copy_into(source, values);
  const Dims strides[3] = {plan.base_strides, number_strides(plan),
                           broadcast_strides(source.sizes(), source.strides(), plan.result)};
  const int64_t count = numel_of(plan.result, "index_put");
  visit(x.dtype(), [&]<class T>() {
    T* to = x.data<T>();
    const T* from = source.data<T>();
    Walk<3> walk(plan.result, strides);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      T& place = to[walk.offset(0) + offsets[walk.offset(1)]];
      const T value = from[walk.offset(2)];
      place = accumulate ? added(place, value) : value;
    }
  });
}

Tensor nonzero(const Tensor& given) {
  const Tensor x = contiguous(given);
  Tensor out;
  visit(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    const auto is_set = [&](int64_t i) {
      if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
        return float(from[i]) != 0;
      else
        return from[i] != T(0);
    };
    int64_t count = 0;
    for (int64_t i = 0; i < x.numel(); ++i) count += is_set(i);
    out = empty(Dims{count, x.dim()}, Options{DType::Int64, x.device()}, "nonzero");
    int64_t* row = out.data<int64_t>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (!is_set(i)) continue;
      int64_t rest = i;
      for (int d = x.dim() - 1; d >= 0; --d) {
        row[d] = rest % x.size(d) + 1;
        rest /= x.size(d);
      }
      row += x.dim();
    }
  });
  return out;
}

}  // namespace moonlet::cpu
