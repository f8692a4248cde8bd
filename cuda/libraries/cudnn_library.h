// cuda/libraries/cudnn_library.h: NVIDIA's cuDNN, opened at its first use: its functions, a handle
// for each thread and device, and its errors.
#pragma once

#include <cudnn.h>

#include "cuda/runtime/device.h"

namespace moonlet::cuda::cudnn {

// The functions that are used.
#define MOONLET_CUDNN_FUNCTIONS(X)                  \
  X(cudnnGetVersion)                                \
  X(cudnnGetErrorString)                            \
  X(cudnnCreate)                                    \
  X(cudnnDestroy)                                   \
  X(cudnnSetStream)                                 \
  X(cudnnBackendCreateDescriptor)                   \
  X(cudnnBackendDestroyDescriptor)                  \
  X(cudnnBackendFinalize)                           \
  X(cudnnBackendSetAttribute)                       \
  X(cudnnBackendGetAttribute)                       \
  X(cudnnBackendExecute)                            \
  X(cudnnCreateTensorDescriptor)                    \
  X(cudnnDestroyTensorDescriptor)                   \
  X(cudnnSetTensorNdDescriptor)                     \
  X(cudnnCreateFilterDescriptor)                    \
  X(cudnnDestroyFilterDescriptor)                   \
  X(cudnnSetFilterNdDescriptor)                     \
  X(cudnnCreateConvolutionDescriptor)               \
  X(cudnnDestroyConvolutionDescriptor)              \
  X(cudnnSetConvolutionNdDescriptor)                \
  X(cudnnSetConvolutionGroupCount)                  \
  X(cudnnSetConvolutionMathType)                    \
  X(cudnnGetConvolutionForwardAlgorithm_v7)         \
  X(cudnnGetConvolutionForwardWorkspaceSize)        \
  X(cudnnConvolutionForward)                        \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  X(cudnnConvolutionBackwardData)                   \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(cudnnConvolutionBackwardFilter)                 \
  X(cudnnCreateRNNDescriptor)                       \
  X(cudnnDestroyRNNDescriptor)                      \
  X(cudnnSetRNNDescriptor_v8)                       \
  X(cudnnGetRNNWeightSpaceSize)                     \
  X(cudnnGetRNNWeightParams)                        \
  X(cudnnCreateRNNDataDescriptor)                   \
  X(cudnnDestroyRNNDataDescriptor)                  \
  X(cudnnSetRNNDataDescriptor)                      \
  X(cudnnGetRNNTempSpaceSizes)                      \
  X(cudnnRNNForward)                                \
  X(cudnnRNNBackwardData_v8)                        \
  X(cudnnRNNBackwardWeights_v8)

struct Library {
#define MOONLET_CUDNN_POINTER(name) decltype(&::name) name = nullptr;
  MOONLET_CUDNN_FUNCTIONS(MOONLET_CUDNN_POINTER)
#undef MOONLET_CUDNN_POINTER
};

// Null where there is none, or one of another version than that of the headers. Thread-safe.
const Library* library();

// Whether memory lies as everything that the library is given must.
inline bool is_aligned(const Tensor& x) { return reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0; }

// The handle of this thread and device, set to the stream of the call; null where the library
// cannot serve the device.
cudnnHandle_t handle_of(const Call& call);

// Whether a call went well. False where the library has no way of doing what it was asked for, so
// that something else must do it; throws where memory is short or work on the device failed.
bool went_well(cudnnStatus_t status, const char* op);
// The same of a call that only describes or plans, where a failure on the device too is no more
// than another way's turn.
bool is_planned(cudnnStatus_t status, const char* op);

}  // namespace moonlet::cuda::cudnn
