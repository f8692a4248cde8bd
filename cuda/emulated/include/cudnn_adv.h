// cuda/emulated/include/cudnn_adv.h: recurrent networks of cuDNN 9, the part that the backend uses.
// Weights lie as those of the real library do: of every layer and direction the matrices of the
// input and of the hidden state, gate by gate, then all the biases in this order.
#pragma once

#include "cudnn.h"

using cudnnRNNDescriptor_t = struct cudnnRNNStruct*;
using cudnnRNNDataDescriptor_t = struct cudnnRNNDataStruct*;
using cudnnDropoutDescriptor_t = struct cudnnDropoutStruct*;

enum cudnnForwardMode_t { CUDNN_FWD_MODE_INFERENCE = 0, CUDNN_FWD_MODE_TRAINING = 1 };
enum cudnnRNNMode_t { CUDNN_RNN_RELU = 0, CUDNN_RNN_TANH = 1, CUDNN_LSTM = 2, CUDNN_GRU = 3 };
enum cudnnRNNAlgo_t { CUDNN_RNN_ALGO_STANDARD = 0, CUDNN_RNN_ALGO_PERSIST_STATIC = 1 };
enum cudnnRNNBiasMode_t { CUDNN_RNN_NO_BIAS = 0, CUDNN_RNN_DOUBLE_BIAS = 2 };
enum cudnnDirectionMode_t { CUDNN_UNIDIRECTIONAL = 0, CUDNN_BIDIRECTIONAL = 1 };
enum cudnnRNNInputMode_t { CUDNN_LINEAR_INPUT = 0, CUDNN_SKIP_INPUT = 1 };
enum cudnnRNNDataLayout_t {
  CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0,
  CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED = 1,
};
enum cudnnWgradMode_t { CUDNN_WGRAD_MODE_ADD = 0, CUDNN_WGRAD_MODE_SET = 1 };

#define CUDNN_RNN_PADDED_IO_DISABLED 0

extern "C" {

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* network);
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t network);
/// Without dropout, for which `dropout` may be null, and without a projection: its size is the
/// state's.
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t network, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t biases,
                                       cudnnDirectionMode_t directions, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, std::int32_t features,
                                       std::int32_t size, std::int32_t projected,
                                       std::int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       std::uint32_t flags);
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                         std::size_t* bytes);
/// Where the matrix and the bias of a gate lie: those of the input first, then those of the hidden
/// state. The bias is null where there is none.
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                      std::int32_t layer, std::size_t bytes, const void* weights,
                                      std::int32_t gate, cudnnTensorDescriptor_t matrix,
                                      void** matrix_at, cudnnTensorDescriptor_t bias,
                                      void** bias_at);

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data);
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data);
/// Packed: the lengths fall, and the first is the longest.
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int longest, int sequences,
                                        int width, const int lengths[], void* padding);

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        std::size_t* work, std::size_t* reserve);
/// Lengths on the device are not read.
cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                              cudnnForwardMode_t mode, const std::int32_t lengths[],
                              cudnnRNNDataDescriptor_t x, const void* x_data,
                              cudnnRNNDataDescriptor_t y, void* y_data, cudnnTensorDescriptor_t h,
                              const void* hx, void* hy, cudnnTensorDescriptor_t c, const void* cx,
                              void* cy, std::size_t weight_bytes, const void* weights,
                              std::size_t work_bytes, void* work, std::size_t reserve_bytes,
                              void* reserve);
/// Once for a reserve, which it turns into what the gradients of the weights want.
cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                      const std::int32_t lengths[], cudnnRNNDataDescriptor_t y,
                                      const void* y_data, const void* dy,
                                      cudnnRNNDataDescriptor_t x, void* dx,
                                      cudnnTensorDescriptor_t h, const void* hx, const void* dhy,
                                      void* dhx, cudnnTensorDescriptor_t c, const void* cx,
                                      const void* dcy, void* dcx, std::size_t weight_bytes,
                                      const void* weights, std::size_t work_bytes, void* work,
                                      std::size_t reserve_bytes, void* reserve);
/// Adds to what is there; nothing else is supported.
cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                         cudnnWgradMode_t how, const std::int32_t lengths[],
                                         cudnnRNNDataDescriptor_t x, const void* x_data,
                                         cudnnTensorDescriptor_t h, const void* hx,
                                         cudnnRNNDataDescriptor_t y, const void* y_data,
                                         std::size_t weight_bytes, void* gradients,
                                         std::size_t work_bytes, void* work,
                                         std::size_t reserve_bytes, void* reserve);

}  // extern "C"
