// cuda/emulated/cudnn.cpp: cuDNN's convolutions by loops over the host's memory. Every argument is
// checked as the library does; matrices of the host leave cudaErrorIllegalAddress on the device.
#include "cudnn.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "checks.h"
#include "cudnn_calls.h"
#include "cudnn_loops.h"
#include "queue.h"

using moonlet::emulated::View;

namespace {

bool is_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_FLOAT || t == CUDNN_DATA_DOUBLE || t == CUDNN_DATA_HALF ||
         t == CUDNN_DATA_BFLOAT16;
}

}  // namespace

struct cudnnFilterStruct {
  View view;
};

namespace moonlet::emulated {

namespace {

constexpr const char* kKinds[] = {"forward", "backward data", "backward filter"};

cudnnStatus_t shape_of(cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, Shape* out) {
  if (!handle || !x || !w || !conv || !y) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (device_error() || !valid_stream(handle->stream)) return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  const Shape s{x->view, w->view, y->view, *conv};
  const int count = s.x.count;
  if (count == 0 || s.w.count != count || s.y.count != count || s.conv.axes != count - 2 ||
      s.w.type != s.x.type || s.y.type != s.x.type) {
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  if (s.w.size[0] % s.conv.groups != 0 || s.x.size[1] != s.w.size[1] * s.conv.groups ||
      s.y.size[0] != s.x.size[0] || s.y.size[1] != s.w.size[0]) {
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t reach = s.conv.dilation[d] * (s.w.size[d + 2] - 1) + 1;
    const std::int64_t extent = s.x.size[d + 2] + 2 * s.conv.padding[d] - reach;
    if (extent < 0 || s.y.size[d + 2] != extent / s.conv.stride[d] + 1) {
      return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    }
  }
  const bool wide = s.x.type == CUDNN_DATA_DOUBLE;
  if (wide != (s.conv.compute == CUDNN_DATA_DOUBLE)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (wide && (s.x.channels_last() || s.w.channels_last())) return CUDNN_STATUS_NOT_SUPPORTED;
  *out = s;
  return CUDNN_STATUS_SUCCESS;
}

/// An algorithm, by the library's number, and the memory that it works in, in sizes of the input.
struct Known {
  int number;
  cudnnDeterminism_t determinism;
  std::size_t inputs;
};
constexpr Known kForward[] = {
    {1, CUDNN_DETERMINISTIC, 1}, {0, CUDNN_DETERMINISTIC, 0}, {2, CUDNN_DETERMINISTIC, 4}};
constexpr Known kData[] = {{0, CUDNN_NON_DETERMINISTIC, 0}, {1, CUDNN_DETERMINISTIC, 1}};
constexpr Known kFilter[] = {
    {3, CUDNN_NON_DETERMINISTIC, 1}, {1, CUDNN_DETERMINISTIC, 2}, {0, CUDNN_NON_DETERMINISTIC, 0}};

std::vector<Known> known(Kind kind) {
  switch (kind) {
    case Kind::Forward: return {std::begin(kForward), std::end(kForward)};
    case Kind::Data: return {std::begin(kData), std::end(kData)};
    case Kind::Filter: break;
  }
  return {std::begin(kFilter), std::end(kFilter)};
}

cudnnStatus_t workspace(Kind kind, const Shape& s, int number, std::size_t* bytes) {
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  for (const Known& it : known(kind)) {
    if (it.number != number) continue;
    *bytes = it.inputs * s.x.bytes();
    // More than a small device has.
    if (says("greedy") && number == known(kind)[0].number) *bytes = std::size_t{768} << 20;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

template <class Number>
cudnnStatus_t propose(Kind kind, const Shape& s, int wanted, int* count,
                      cudnnAlgoPerf<Number>* found) {
  if (!count || !found) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (wanted < 1) return CUDNN_STATUS_BAD_PARAM;
  if (says("log")) {
    std::fprintf(stderr, "cudnn: looks up %s\n", kKinds[static_cast<int>(kind)]);
  }
  if (says("unsupported") || (says("rows") && s.x.channels_last()))
    return CUDNN_STATUS_NOT_SUPPORTED;
  *count = 0;
  for (const Known& it : known(kind)) {
    if (*count == wanted) break;
    cudnnAlgoPerf<Number>& out = found[(*count)++];
    out = {static_cast<Number>(it.number),
           CUDNN_STATUS_SUCCESS,
           -1,
           0,
           it.determinism,
           s.conv.math,
           {}};
    workspace(kind, s, it.number, &out.memory);
  }
  return CUDNN_STATUS_SUCCESS;
}

const char* name(cudnnMathType_t math) {
  return math == CUDNN_FMA_MATH ? "fma" : math == CUDNN_DEFAULT_MATH ? "default" : "tensor";
}

/// Checks the rest and puts the work into the stream.
cudnnStatus_t run(Kind kind, cudnnHandle_t handle, const Shape& s, int number, const Data& at,
                  void* memory, std::size_t bytes, const void* alpha, const void* beta) {
  std::size_t needed = 0;
  if (const cudnnStatus_t status = workspace(kind, s, number, &needed)) return status;
  if (!alpha || !beta || !at.x || !at.w || !at.y || (needed > 0 && !memory)) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  if (bytes < needed) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  for (const void* data : {at.x, at.w, at.y}) {
    if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) {
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  if (says("fussy") && number == known(kind)[0].number) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!on_device(at.x, s.x.bytes()) || !on_device(at.w, s.w.bytes()) ||
      !on_device(at.y, s.y.bytes()) || (needed > 0 && !on_device(memory, needed))) {
    return illegal_address();
  }
  if (says("log")) {
    std::fprintf(stderr, "cudnn: %s by %d, %s, %s\n", kKinds[static_cast<int>(kind)], number,
                 name(s.conv.math), s.x.channels_last() ? "channels last" : "row-major");
  }
  const bool wide = s.x.type == CUDNN_DATA_DOUBLE;
  const auto scale = [&](const void* value) {
    return wide ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
  };
  enqueue(handle->stream, [=, by = scale(alpha), and_by = scale(beta)] {
    // What works in memory that it was given leaves something there.
    if (needed > 0) std::memset(memory, 0xA5, needed);
    compute(kind, s, at, by, and_by);
  });
  return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t create(Descriptor** out) {
  if (!out) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *out = new (std::nothrow) Descriptor;
  return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/// Sizes (and strides) of 3 to 5 dimensions; an image gets a depth of 1, and what there is not too.
cudnnStatus_t set(View* out, cudnnDataType_t type, int count, const int* sizes,
                  const std::int64_t* strides) {
  if (!sizes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (count < 3 || count > 5 || !is_type(type)) return CUDNN_STATUS_BAD_PARAM;
  View made;
  made.type = type;
  made.count = count;
  made.size = {1, 1, 1, 1, 1};
  std::size_t to = 0;
  for (int d = 0; d < count; ++d) {
    if (sizes[d] < 1 || strides[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    if (count == 4 && d == 2) made.size[to++] = 1;
    made.size[to] = sizes[d];
    made.stride[to++] = strides[d];
  }
  if (made.elements() > INT32_MAX) return CUDNN_STATUS_NOT_SUPPORTED;
  *out = made;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnn_library_name() {
  return says("absent") ? "libcudnn-absent.so.9" : "libmoonlet-cuda-emulated.so";
}

}  // namespace moonlet::emulated

using namespace moonlet::emulated;

extern "C" {

std::size_t cudnnGetVersion() { return says("old") ? 90500 : 91900; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED_CUDART: return "CUDNN_STATUS_EXECUTION_FAILED_CUDART";
    default: return "CUDNN_STATUS_OTHER";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  MOONLET_MAY_FAIL("cudnnCreate");
  if (device_error()) return CUDNN_STATUS_NOT_INITIALIZED;
  return create(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  MOONLET_MAY_FAIL("cudnnSetStream");
  if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  MOONLET_MAY_FAIL("cudnnCreateTensorDescriptor");
  return create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int count, const int sizes[], const int strides[]) {
  MOONLET_MAY_FAIL("cudnnSetTensorNdDescriptor");
  if (!tensor || !strides) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::int64_t wide[5] = {};
  for (int d = 0; d < std::min(count, 5); ++d) wide[d] = strides[d];
  return set(&tensor->view, type, count, sizes, wide);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  MOONLET_MAY_FAIL("cudnnCreateFilterDescriptor");
  return create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int count, const int sizes[]) {
  MOONLET_MAY_FAIL("cudnnSetFilterNdDescriptor");
  if (!filter || !sizes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (count < 4 || count > 5) return CUDNN_STATUS_BAD_PARAM;
  std::int64_t strides[5] = {}, step = 1;
  const bool last = format == CUDNN_TENSOR_NHWC;
  if (last) {
    strides[1] = 1;
    step = sizes[1];
  }
  for (int d = count - 1; d >= 0; --d) {
    if (last && d == 1) continue;
    strides[d] = step;
    step *= sizes[d];
  }
  return set(&filter->view, type, count, sizes, strides);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) {
  MOONLET_MAY_FAIL("cudnnCreateConvolutionDescriptor");
  return create(conv);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  delete conv;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv, int axes,
                                              const int padding[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  MOONLET_MAY_FAIL("cudnnSetConvolutionNdDescriptor");
  if (!conv || !padding || !stride || !dilation) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (axes < 2 || axes > 3) return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
  conv->axes = axes;
  conv->compute = compute;
  conv->padding = {0, 0, 0};
  conv->stride = conv->dilation = {1, 1, 1};
  for (int i = 0; i < axes; ++i) {
    if (padding[i] < 0 || stride[i] < 1 || dilation[i] < 1) return CUDNN_STATUS_BAD_PARAM;
    const auto to = static_cast<std::size_t>(3 - axes + i);
    conv->padding[to] = padding[i];
    conv->stride[to] = stride[i];
    conv->dilation[to] = dilation[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  MOONLET_MAY_FAIL("cudnnSetConvolutionGroupCount");
  if (!conv) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  MOONLET_MAY_FAIL("cudnnSetConvolutionMathType");
  if (!conv) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int wanted, int* count,
    cudnnConvolutionFwdAlgoPerf_t* found) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionForwardAlgorithm_v7");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, w, conv, y, &s)) return status;
  return propose(Kind::Forward, s, wanted, count, found);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionForwardWorkspaceSize");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, w, conv, y, &s)) return status;
  return workspace(Kind::Forward, s, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* x_data,
                                      cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_data) {
  MOONLET_MAY_FAIL("cudnnConvolutionForward");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, w, conv, y, &s)) return status;
  return run(Kind::Forward, handle, s, algorithm, {x_data, w_data, y_data}, workspace, bytes, alpha,
             beta);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int wanted, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* found) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, dx, w, conv, dy, &s)) return status;
  return propose(Kind::Data, s, wanted, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionBackwardDataWorkspaceSize");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, dx, w, conv, dy, &s)) return status;
  return workspace(Kind::Data, s, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* w_data,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx, void* dx_data) {
  MOONLET_MAY_FAIL("cudnnConvolutionBackwardData");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, dx, w, conv, dy, &s)) return status;
  return run(Kind::Data, handle, s, algorithm, {dx_data, w_data, dy_data}, workspace, bytes, alpha,
             beta);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int wanted, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, dw, conv, dy, &s)) return status;
  return propose(Kind::Filter, s, wanted, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  MOONLET_MAY_FAIL("cudnnGetConvolutionBackwardFilterWorkspaceSize");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, dw, conv, dy, &s)) return status;
  return workspace(Kind::Filter, s, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t dy, const void* dy_data,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw, void* dw_data) {
  MOONLET_MAY_FAIL("cudnnConvolutionBackwardFilter");
  Shape s;
  if (const cudnnStatus_t status = shape_of(handle, x, dw, conv, dy, &s)) return status;
  return run(Kind::Filter, handle, s, algorithm, {x_data, dw_data, dy_data}, workspace, bytes,
             alpha, beta);
}

}  // extern "C"
