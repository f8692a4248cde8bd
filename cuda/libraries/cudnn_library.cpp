// cuda/libraries/cudnn_library.cpp: opens cuDNN where it is installed. Without its headers there is
// none.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_library.h"

#include <string>
#include <vector>

#include "cuda/libraries/cudnn_conv.h"
#include "cuda/libraries/library.h"
#include "cuda/memory/allocator.h"

namespace moonlet::cuda::cudnn {

namespace {

std::string library_name() {
#ifdef MOONLET_CUDA_EMULATED
  return emulated::cudnn_library_name();
#else
  return "libcudnn.so." + std::to_string(CUDNN_MAJOR);
#endif
}

const Library* open() {
  void* const from = open_library("cudnn", library_name().c_str());
  if (from == nullptr) return nullptr;
  static Library out;
  bool whole = true;
#define MOONLET_CUDNN_FIND(name) whole = find_in(from, #name, out.name) && whole;
  MOONLET_CUDNN_FUNCTIONS(MOONLET_CUDNN_FIND)
#undef MOONLET_CUDNN_FIND
  return whole && out.cudnnGetVersion() / 10000 == CUDNN_MAJOR ? &out : nullptr;
}

bool is_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

// One handle per device of a thread.
struct Handles {
  struct Slot {
    cudnnHandle_t handle = nullptr;
    bool refused = false;  // the library has said that it cannot serve the device
  };
  std::vector<Slot> list;
  ~Handles() {
    for (const Slot& slot : list)
      if (slot.handle) library()->cudnnDestroy(slot.handle);
  }
};

}  // namespace

const Library* library() {
  static const Library* const once = open();
  return once;
}

int64_t version() {
  return library() == nullptr ? 0 : static_cast<int64_t>(library()->cudnnGetVersion());
}

bool went_well(cudnnStatus_t status, const char* op) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return true;
  const cudaError_t left = cudaGetLastError();  // the next launch would be blamed for it
  if (is_memory(status)) ensure(cudaErrorMemoryAllocation, op);
  if (status < CUDNN_STATUS_EXECUTION_FAILED) return false;
  ensure(left, op);
  fail(op, ": cuDNN error ", library()->cudnnGetErrorString(status));
}

bool is_planned(cudnnStatus_t status, const char* op) {
  if (status < CUDNN_STATUS_EXECUTION_FAILED || is_memory(status)) return went_well(status, op);
  cudaGetLastError();  // the next launch would be blamed for it
  return false;
}

cudnnHandle_t handle_of(const Call& call) {
  static thread_local Handles handles;
  const auto at = static_cast<size_t>(call.device().index);
  if (handles.list.size() <= at) handles.list.resize(at + 1);
  Handles::Slot& slot = handles.list[at];
  if (slot.refused) return nullptr;
  if (!slot.handle) {
    cudnnStatus_t status = library()->cudnnCreate(&slot.handle);
    if (is_memory(status) || status == CUDNN_STATUS_NOT_INITIALIZED) {
      // Its memory may be in our cache.
      caching_allocator().empty_cache();
      cudaGetLastError();
      status = library()->cudnnCreate(&slot.handle);
    }
    if (status != CUDNN_STATUS_SUCCESS) slot.handle = nullptr;
    if (!went_well(status, call.op())) {
      slot.refused = true;
      return nullptr;
    }
  }
  return went_well(library()->cudnnSetStream(slot.handle, call.stream()), call.op()) ? slot.handle
                                                                                     : nullptr;
}

}  // namespace moonlet::cuda::cudnn

#endif
