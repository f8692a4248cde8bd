// cuda/libraries/cudnn_graph.cpp: descriptors of cuDNN's graph interface.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_graph.h"

#include <utility>

#include "cuda/libraries/cudnn_library.h"

namespace moonlet::cuda::cudnn {

namespace {

void ensure_way(cudnnStatus_t status, const char* op) {
  if (!is_planned(status, op)) throw NoWay();
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type, const char* op) : op_(op) {
  ensure_way(library()->cudnnBackendCreateDescriptor(type, &at_), op);
}

Descriptor::~Descriptor() {
  if (at_ != nullptr) library()->cudnnBackendDestroyDescriptor(at_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(op_, other.op_);
  std::swap(at_, other.at_);
  return *this;
}

void Descriptor::set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void* values) const {
  ensure_way(library()->cudnnBackendSetAttribute(at_, name, type, count, values), op_);
}

void Descriptor::finalize() const { ensure_way(library()->cudnnBackendFinalize(at_), op_); }

int64_t Descriptor::get_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t most, void* values) const {
  int64_t count = 0;
  ensure_way(library()->cudnnBackendGetAttribute(at_, name, type, most, &count, values), op_);
  return count;
}

cudnnDataType_t type_of(DType t) {
  switch (t) {
    case DType::Float64: return CUDNN_DATA_DOUBLE;
    case DType::Float16: return CUDNN_DATA_HALF;
    case DType::BFloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

Graph::Value Graph::add(cudnnDataType_t type, const Dims& sizes, const Dims& strides, bool is_inner,
                        bool is_scalar) {
  constexpr int64_t kAlignment = 16;
  const auto number = static_cast<int64_t>(tensors_.size()) + 1;
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, op_);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (is_inner) made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (is_scalar) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  made.finalize();
  tensors_.push_back({std::move(made), sizes});
  if (!is_inner) given_.push_back(number);
  return static_cast<Value>(number) - 1;
}

Graph::Value Graph::memory(cudnnDataType_t type, const Dims& sizes, const Dims& strides) {
  return add(type, sizes, strides, false, false);
}

Graph::Value Graph::scalar(cudnnDataType_t type, int rank) {
  const Dims ones = Dims::filled(rank, 1);
  return add(type, ones, ones, false, true);
}

Graph::Value Graph::inner(cudnnDataType_t type, const Dims& sizes) {
  return inner(type, sizes, contiguous_strides(sizes));
}

Graph::Value Graph::inner(cudnnDataType_t type, const Dims& sizes, const Dims& strides) {
  return add(type, sizes, strides, true, false);
}

Descriptor& Graph::operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type, op_);
}

void Graph::matmul(Value a, Value b, Value y) {
  Descriptor& kind = parameters_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR, op_);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(y));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  made.finalize();
}

void Graph::pointwise(Descriptor mode, cudnnDataType_t precision,
                      std::initializer_list<Value> inputs, Value y) {
  mode.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  mode.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  const auto* name = kInputs;
  for (const Value input : inputs) made.set(*name++, at(input));
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  made.finalize();
  parameters_.push_back(std::move(mode));
}

void Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> inputs, Value y,
                      cudnnDataType_t precision) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, op_);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  pointwise(std::move(kind), precision, inputs, y);
}

void Graph::indices(Value x, int64_t dimension, Value y) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, op_);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  kind.set(CUDNN_ATTR_POINTWISE_AXIS, dimension);
  pointwise(std::move(kind), CUDNN_DATA_FLOAT, {x}, y);
}

void Graph::reduce(cudnnReduceTensorOp_t by, Value x, Value y) {
  Descriptor& kind = parameters_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, op_);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, by);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  made.finalize();
}

void Graph::reshape(Value x, Value y) {
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  made.finalize();
}

void Graph::convolve(Value x, Value filters, Value y, const Dims& stride, const Dims& padding,
                     const Dims& dilation) {
  Descriptor& kind = parameters_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, op_);
  kind.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  kind.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{stride.size()});
  kind.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
  kind.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  kind.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  kind.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  kind.finalize();
  Descriptor& made = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x));
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(filters));
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y));
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kind);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
  made.finalize();
}

Descriptor Graph::operations() const {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& each : operations_) all.push_back(each.get());
  Descriptor out(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, op_);
  out.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<int64_t>(all.size()), all.data());
  return out;
}

}  // namespace moonlet::cuda::cudnn

#endif
