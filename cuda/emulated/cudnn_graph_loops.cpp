// cuda/emulated/cudnn_graph_loops.cpp: the operations of cuDNN's graphs over dense numbers in
// double.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cudnn_backend.h"
#include "cudnn_loops.h"

namespace moonlet::emulated {

namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t count_of(const Sizes& sizes) {
  std::int64_t out = 1;
  for (const std::int64_t n : sizes) out *= n;
  return out;
}

Sizes sizes_of(const NodeRef& tensor) { return tensor->list(CUDNN_ATTR_TENSOR_DIMENSIONS); }

Sizes dense(const Sizes& sizes) {
  Sizes out(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) out[d - 1] = out[d] * sizes[d];
  return out;
}

/// f(coordinates) for each position.
void each_position(const Sizes& sizes, const std::function<void(const Sizes&)>& f) {
  Sizes at(sizes.size(), 0);
  for (std::int64_t i = count_of(sizes); i > 0; --i) {
    f(at);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

struct Numbers {
  Sizes sizes, strides;
  std::vector<double> data;
  explicit Numbers(const Sizes& of)
      : sizes(of), strides(dense(of)), data(static_cast<std::size_t>(count_of(of))) {}
  /// Where dimensions of size 1 are broadcast, and fewer heads are shared by as many in a row.
  double& at(const Sizes& position, const Sizes& whole) {
    std::int64_t out = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      out += position[d] / (whole[d] / sizes[d]) * strides[d] * (sizes[d] > 1);
    return data[static_cast<std::size_t>(out)];
  }
};

double applied(cudnnPointwiseMode_t mode, double x, double b, double is_first) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_RELU_FWD: return x <= 0 ? 0 : x;
    case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT: return is_first != 0 ? x : b;
    default: return x;
  }
}

void pointwise(const BackendNode& op, const std::vector<Numbers*>& in, Numbers& y) {
  const NodeRef kind = op.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = kind->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const auto axis = static_cast<std::size_t>(kind->value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
  each_position(y.sizes, [&](const Sizes& at) {
    double& out = y.at(at, y.sizes);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
      out = static_cast<double>(at[axis]);
      return;
    }
    const auto input = [&](std::size_t i) { return i < in.size() ? in[i]->at(at, y.sizes) : 0; };
    out = applied(mode, input(0), input(1), input(2));
  });
}

void matmul(Numbers& a, Numbers& b, Numbers& y) {
  const std::size_t rank = y.sizes.size();
  Sizes whole_a = y.sizes, whole_b = y.sizes;
  whole_a[rank - 1] = whole_b[rank - 2] = a.sizes[rank - 1];
  each_position(y.sizes, [&](const Sizes& at) {
    double sum = 0;
    Sizes left = at, right = at;
    for (std::int64_t k = 0; k < a.sizes[rank - 1]; ++k) {
      left[rank - 1] = right[rank - 2] = k;
      sum += a.at(left, whole_a) * b.at(right, whole_b);
    }
    y.at(at, y.sizes) = sum;
  });
}

void reduce(const BackendNode& op, Numbers& x, Numbers& y) {
  const bool is_max =
      op.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
          ->value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
  const double start = is_max ? -std::numeric_limits<double>::infinity() : 0;
  std::fill(y.data.begin(), y.data.end(), start);
  each_position(x.sizes, [&](const Sizes& at) {
    double& out = y.at(at, x.sizes);
    const double in = x.at(at, x.sizes);
    out = is_max ? std::max(out, in) : out + in;
  });
}

/// A list of one number for each axis, for three of them.
std::array<std::int64_t, 3> axes_of(const NodeRef& window, cudnnBackendAttributeName_t name,
                                    std::int64_t fill) {
  const Sizes given = window->list(name);
  std::array<std::int64_t, 3> out{fill, fill, fill};
  std::copy(given.begin(), given.end(), out.end() - static_cast<std::ptrdiff_t>(given.size()));
  return out;
}

View view_of(const Numbers& x) {
  View out;
  out.type = CUDNN_DATA_DOUBLE;
  out.count = static_cast<int>(x.sizes.size());
  out.size = {x.sizes[0], x.sizes[1], 1, 1, 1};
  std::copy(x.sizes.begin() + 2, x.sizes.end(),
            out.size.end() - static_cast<std::ptrdiff_t>(x.sizes.size() - 2));
  std::int64_t step = 1;
  for (std::size_t d = 5; d-- > 0;) {
    out.stride[d] = step;
    step *= out.size[d];
  }
  return out;
}

void convolve(const BackendNode& op, Numbers& x, Numbers& w, Numbers& y) {
  const NodeRef window = op.node(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  cudnnConvolutionStruct conv;
  conv.axes = static_cast<int>(window->value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  conv.groups = static_cast<int>(x.sizes[1] / w.sizes[1]);
  conv.padding = axes_of(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  conv.stride = axes_of(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  conv.dilation = axes_of(window, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
  compute(Kind::Forward, {view_of(x), view_of(w), view_of(y), conv},
          {x.data.data(), w.data.data(), y.data.data()}, 1, 0);
}

/// The tensors of a graph while it runs.
class Values {
 public:
  Values(const std::map<std::int64_t, GivenTensor>& given, bool tf32)
      : given_(given), tf32_(tf32) {}

  Numbers& of(const NodeRef& tensor) {
    const auto id = tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto found = known_.find(id);
    if (found != known_.end()) return found->second;
    Numbers& out = known_.emplace(id, Numbers(sizes_of(tensor))).first->second;
    const auto given = given_.find(id);
    if (given == given_.end()) return out;
    const bool rounds = tf32_ && !given->second.is_number;
    each_element(tensor, [&](double& x, std::int64_t at) {
      x = load(given->second.data, type_of(tensor), at, rounds);
    });
    return out;
  }
  /// After it was computed: rounds it, and puts it into its memory.
  void done(const NodeRef& tensor) {
    const auto given = given_.find(tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    const cudnnDataType_t type = type_of(tensor);
    each_element(tensor, [&](double& x, std::int64_t at) {
      if (given != given_.end()) store(x, given->second.data, type, at);
      if (type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16) return;
      std::uint16_t bits = 0;
      store(x, &bits, type, 0);
      x = load(&bits, type, 0, false);
    });
  }

 private:
  static cudnnDataType_t type_of(const NodeRef& tensor) {
    return tensor->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  }
  /// f(number, position in memory)
  template <class F>
  void each_element(const NodeRef& tensor, F&& f) {
    Numbers& x = of(tensor);
    const Sizes strides = tensor->list(CUDNN_ATTR_TENSOR_STRIDES);
    each_position(x.sizes, [&](const Sizes& at) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < at.size(); ++d) position += at[d] * strides[d];
      f(x.at(at, x.sizes), position);
    });
  }

  const std::map<std::int64_t, GivenTensor>& given_;
  bool tf32_;
  std::map<std::int64_t, Numbers> known_;
};

void compute_one(const BackendNode& op, const std::vector<Numbers*>& in, Numbers& y,
                 const NodeRef& from, const NodeRef& to) {
  switch (op.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise(op, in, y);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return matmul(*in[0], *in[1], y);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(op, *in[0], y);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return convolve(op, *in[0], *in[1], y);
    default: break;
  }
  // The same elements in memory under other sizes and strides: the last two dimensions turned.
  const bool is_turned = sizes_of(from) != sizes_of(to) || from->list(CUDNN_ATTR_TENSOR_STRIDES) !=
                                                               to->list(CUDNN_ATTR_TENSOR_STRIDES);
  each_position(y.sizes, [&](const Sizes& at) {
    Sizes there = at;
    if (is_turned) std::swap(there[at.size() - 1], there[at.size() - 2]);
    y.at(at, y.sizes) = in[0]->at(there, in[0]->sizes);
  });
}

}  // namespace

bool shapes_match(const BackendNode& op) {
  const Operation tensors = operation_of(op);
  const Sizes y = sizes_of(tensors.output);
  std::vector<Sizes> in;
  for (const NodeRef& each : tensors.inputs) in.push_back(sizes_of(each));
  const std::size_t rank = y.size();
  for (const Sizes& each : in)
    if (each.size() != rank) return false;
  const auto divides = [&](const Sizes& x, std::size_t dims) {
    for (std::size_t d = 0; d < dims; ++d)
      if (y[d] % x[d] != 0) return false;
    return true;
  };
  switch (op.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return std::all_of(in.begin(), in.end(), [&](const Sizes& x) {
        for (std::size_t d = 0; d < rank; ++d)
          if (x[d] != y[d] && x[d] != 1) return false;
        return true;
      });
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return rank >= 3 && divides(in[0], rank - 2) && divides(in[1], rank - 2) &&
             in[0][rank - 2] == y[rank - 2] && in[1][rank - 1] == y[rank - 1] &&
             in[0][rank - 1] == in[1][rank - 2];
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      for (std::size_t d = 0; d < rank; ++d)
        if (in[0][d] % y[d] != 0) return false;
      return true;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return (rank == 4 || rank == 5) && in[0][0] == y[0] && in[1][0] == y[1] &&
             in[0][1] % in[1][1] == 0;
    default: return count_of(in[0]) == count_of(y);
  }
}

void compute_graph(const BackendNode& graph, const std::map<std::int64_t, GivenTensor>& given,
                   bool tf32) {
  Values values(given, tf32);
  for (const NodeRef& op : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes) {
    const Operation tensors = operation_of(*op);
    std::vector<Numbers*> in;
    for (const NodeRef& each : tensors.inputs) in.push_back(&values.of(each));
    compute_one(*op, in, values.of(tensors.output), tensors.inputs[0], tensors.output);
    values.done(tensors.output);
  }
}

}  // namespace moonlet::emulated
