// cuda/libraries/cudnn_graph.h: what cuDNN is to compute, said as a graph of operations on tensors
// by the descriptors of its graph interface.
#pragma once

#include <cudnn.h>

#include <initializer_list>
#include <vector>

#include "tensor/core/dims.h"
#include "tensor/core/dtype.h"

namespace moonlet::cuda::cudnn {

// Thrown while something is described: the library has no way of doing it.
struct NoWay {};

template <class T>
inline constexpr auto kAttributeType = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;

// A descriptor of the library, which goes with its owner. What the library refuses throws NoWay.
class Descriptor {
 public:
  Descriptor(cudnnBackendDescriptorType_t type, const char* op);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : op_(other.op_), at_(other.at_) { other.at_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  cudnnBackendDescriptor_t get() const { return at_; }
  const char* op() const { return op_; }

  void set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
               const void* values) const;
  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) const {
    set_all(name, kAttributeType<T>, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) const {
    set_all(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.at_);
  }
  void set(cudnnBackendAttributeName_t name, const Dims& values) const {
    set_all(name, CUDNN_TYPE_INT64, values.size(), values.data());
  }
  void finalize() const;
  // Up to `most` of the values, and how many there are.
  int64_t get_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                  void* values) const;

 private:
  const char* op_;
  cudnnBackendDescriptor_t at_ = nullptr;
};

cudnnDataType_t type_of(DType t);

// A graph is described operation by operation, in order; sums are in float32.
class Graph {
 public:
  // A tensor of the graph.
  using Value = int;

  explicit Graph(const char* op) : op_(op) {}
  const char* op() const { return op_; }

  // In memory at a multiple of 16 bytes, that is given when the graph runs.
  Value memory(cudnnDataType_t type, const Dims& sizes, const Dims& strides);
  // One number of the host, that is given when the graph runs.
  Value scalar(cudnnDataType_t type, int rank);
  // Between operations: never in memory.
  Value inner(cudnnDataType_t type, const Dims& sizes);
  Value inner(cudnnDataType_t type, const Dims& sizes, const Dims& strides);

  // y = a b for each of the leading dimensions, which a and b may have fewer of.
  void matmul(Value a, Value b, Value y);
  // y = mode(x, b), or of three the first where the third is true and the second elsewhere.
  void pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> inputs, Value y,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  // y = the positions along a dimension.
  void indices(Value x, int64_t dimension, Value y);
  // Over the dimensions of which y has 1.
  void reduce(cudnnReduceTensorOp_t by, Value x, Value y);
  void reshape(Value x, Value y);
  // Sizes are (n, c, axes...) and (o, c / groups, axes...).
  void convolve(Value x, Value filters, Value y, const Dims& stride, const Dims& padding,
                const Dims& dilation);

  const Dims& sizes(Value x) const { return tensors_[static_cast<size_t>(x)].sizes; }
  // What is given when the graph runs, in the order in which it was described.
  const std::vector<int64_t>& given() const { return given_; }
  // The operations as a descriptor that is not finalized.
  Descriptor operations() const;

 private:
  struct Tensor {
    Descriptor descriptor;
    Dims sizes;
  };
  Value add(cudnnDataType_t type, const Dims& sizes, const Dims& strides, bool is_inner,
            bool is_scalar);
  const Descriptor& at(Value x) const { return tensors_[static_cast<size_t>(x)].descriptor; }
  void pointwise(Descriptor mode, cudnnDataType_t precision, std::initializer_list<Value> inputs,
                 Value y);
  Descriptor& operation(cudnnBackendDescriptorType_t type);

  const char* op_;
  std::vector<Tensor> tensors_;
  std::vector<Descriptor> operations_, parameters_;
  std::vector<int64_t> given_;
};

}  // namespace moonlet::cuda::cudnn
