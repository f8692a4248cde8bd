// cuda/emulated/cudnn_recurrent.cpp: the calls of cuDNN's recurrent networks, with what the library
// refuses. A reserve says whose it is: one of another network or other lengths, or one that was
// used up, is an error of the device.
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "checks.h"
#include "cudnn.h"
#include "cudnn_calls.h"
#include "cudnn_loops.h"
#include "cudnn_recurrent_loops.h"
#include "queue.h"

namespace moonlet::emulated {

namespace {

enum class Stage : std::uint64_t { Forward = 0x52455345, Data, Weights };

/// In front of the numbers of a reserve.
struct Header {
  Stage stage;
  std::uint64_t network;
};

std::size_t bytes_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

std::uint64_t number_of(const cudnnRNNStruct& n, const cudnnRNNDataStruct& x) {
  std::uint64_t out = 14695981039346656037u;
  const auto mix = [&](std::int64_t k) {
    out = (out ^ static_cast<std::uint64_t>(k)) * 1099511628211u;
  };
  for (const std::int64_t k : {std::int64_t{n.mode}, std::int64_t{n.has_biases}, n.directions,
                               n.layers, n.features, n.size, std::int64_t{n.type}})
    mix(k);
  for (const std::int64_t k : x.lengths) mix(k);
  return out;
}

std::size_t work_bytes(const cudnnRNNStruct& n, const cudnnRNNDataStruct& x) {
  if (says("greedy")) return std::size_t{768} << 20;
  return static_cast<std::size_t>(x.rows() * n.gates() * n.size * n.directions) * bytes_of(n.type);
}

std::size_t reserve_bytes(const cudnnRNNStruct& n, const cudnnRNNDataStruct& x,
                          cudnnForwardMode_t mode) {
  if (mode == CUDNN_FWD_MODE_INFERENCE) return 0;
  return sizeof(Header) + static_cast<std::size_t>(Numbers::count(n, x)) * sizeof(double);
}

/// What all calls have in common.
struct Arguments {
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t network;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h, c;
  std::size_t weight_bytes, work_bytes;
  void* work;
  std::size_t reserve_bytes;
  void* reserve;
};

bool is_state(const cudnnRNNStruct& n, const cudnnRNNDataStruct& x, cudnnTensorDescriptor_t h) {
  const View& v = h->view;
  const auto sequences = static_cast<std::int64_t>(x.lengths.size());
  return v.count == 3 && v.type == n.type && v.size[0] == n.parts() && v.size[1] == sequences &&
         v.size[2] == n.size && v.stride[0] == sequences * n.size && v.stride[1] == n.size &&
         v.stride[2] == 1;
}

cudnnStatus_t check(const Arguments& a, cudnnForwardMode_t mode) {
  if (!a.handle || !a.network || !a.x || !a.y || !a.h || !a.work) return CUDNN_STATUS_BAD_PARAM;
  if (device_error() || !valid_stream(a.handle->stream))
    return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  const cudnnRNNStruct& n = *a.network;
  const bool has_cell = n.mode == CUDNN_LSTM;
  if (!n.is_set || !a.x->is_set || !a.y->is_set) return CUDNN_STATUS_BAD_PARAM;
  if (has_cell && !a.c) return CUDNN_STATUS_BAD_PARAM;
  if (a.x->type != n.type || a.y->type != n.type || a.x->lengths != a.y->lengths ||
      a.x->width != n.features || a.y->width != n.directions * n.size || !is_state(n, *a.x, a.h) ||
      (has_cell && !is_state(n, *a.x, a.c)))
    return CUDNN_STATUS_BAD_PARAM;
  if (a.weight_bytes != static_cast<std::size_t>(n.weights()) * bytes_of(n.type))
    return CUDNN_STATUS_BAD_PARAM;
  if (a.work_bytes < work_bytes(n, *a.x) || a.reserve_bytes < reserve_bytes(n, *a.x, mode))
    return CUDNN_STATUS_BAD_PARAM;
  if (mode == CUDNN_FWD_MODE_TRAINING && !a.reserve) return CUDNN_STATUS_BAD_PARAM;
  if (says("fussy")) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool on_it = on_device(a.work, a.work_bytes) && on_device(a.reserve, a.reserve_bytes);
  return on_it ? CUDNN_STATUS_SUCCESS : illegal_address();
}

/// Memory of so many elements, which may be missing where it is said.
struct Piece {
  const void* data;
  std::int64_t count;
  bool may_miss = false;
};

cudnnStatus_t check(const Arguments& a, std::initializer_list<Piece> pieces) {
  for (const Piece& p : pieces) {
    if (!p.data && !p.may_miss) return CUDNN_STATUS_BAD_PARAM;
    if (reinterpret_cast<std::uintptr_t>(p.data) % 16 != 0)
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  for (const Piece& p : pieces)
    if (p.data && !on_device(p.data, static_cast<std::size_t>(p.count) * bytes_of(a.network->type)))
      return illegal_address();
  return CUDNN_STATUS_SUCCESS;
}

void log(const Arguments& a, const char* what) {
  if (!says("log")) return;
  const cudnnRNNStruct& n = *a.network;
  const char* const modes[] = {"rnn_relu", "rnn_tanh", "lstm", "gru"};
  const char* const math = n.math == CUDNN_FMA_MATH       ? "fma"
                           : n.math == CUDNN_DEFAULT_MATH ? "default"
                                                          : "tensor";
  std::fprintf(stderr, "cudnn: %s %s, %ld layers, %ld directions, %s\n", modes[n.mode], what,
               static_cast<long>(n.layers), static_cast<long>(n.directions), math);
}

/// Puts work into the stream that finds the reserve at one stage and leaves it at the next.
template <class Run>
void enqueue_stage(const Arguments& a, Stage from, Stage to, Run run) {
  enqueue(a.handle->stream,
          [=, n = *a.network, x = *a.x, work = a.work, bytes = a.work_bytes, reserve = a.reserve] {
            std::memset(work, 0xA5, bytes);
            auto* const header = static_cast<Header*>(reserve);
            const bool starts = to == Stage::Forward;
            if (!starts && (header->stage != from || header->network != number_of(n, x))) {
              set_sticky(cudaErrorLaunchFailure,
                         "cuDNN was given a reserve that is not that of the call before");
              return;
            }
            *header = {to, number_of(n, x)};
            run(Numbers{n, x, reinterpret_cast<double*>(header + 1)});
          });
}

template <class Descriptor>
cudnnStatus_t create(Descriptor** out) {
  if (!out) return CUDNN_STATUS_BAD_PARAM;
  *out = new (std::nothrow) Descriptor;
  return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/// A dense view of three dimensions.
void describe(cudnnTensorDescriptor_t out, cudnnDataType_t type, std::int64_t rows,
              std::int64_t columns) {
  out->view = {type, 3, {1, rows, columns, 1, 1}, {rows * columns, columns, 1, 0, 0}};
}

std::int64_t state_count(const Arguments& a) {
  return a.network->parts() * static_cast<std::int64_t>(a.x->lengths.size()) * a.network->size;
}

}  // namespace

}  // namespace moonlet::emulated

using namespace moonlet::emulated;

extern "C" {

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* network) {
  MOONLET_MAY_FAIL("cudnnCreateRNNDescriptor");
  return create(network);
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t network) {
  delete network;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t network, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t biases,
                                       cudnnDirectionMode_t directions, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, std::int32_t features,
                                       std::int32_t size, std::int32_t projected,
                                       std::int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       std::uint32_t flags) {
  MOONLET_MAY_FAIL("cudnnSetRNNDescriptor_v8");
  if (!network) return CUDNN_STATUS_BAD_PARAM;
  if (mode < CUDNN_RNN_RELU || mode > CUDNN_GRU || features < 1 || size < 1 || layers < 1 ||
      projected < 1 || projected > size)
    return CUDNN_STATUS_BAD_PARAM;
  const bool wide = type == CUDNN_DATA_DOUBLE;
  const bool half = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  if ((!wide && !half && type != CUDNN_DATA_FLOAT) || wide != (precision == CUDNN_DATA_DOUBLE) ||
      (math == CUDNN_TENSOR_OP_MATH && !half) || algorithm != CUDNN_RNN_ALGO_STANDARD ||
      input != CUDNN_LINEAR_INPUT || projected != size || dropout != nullptr ||
      flags != CUDNN_RNN_PADDED_IO_DISABLED)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *network = {true, mode, biases == CUDNN_RNN_DOUBLE_BIAS, directions + 1, layers, features, size,
              type, math};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                         std::size_t* bytes) {
  MOONLET_MAY_FAIL("cudnnGetRNNWeightSpaceSize");
  if (!handle || !network || !bytes) return CUDNN_STATUS_BAD_PARAM;
  if (!network->is_set) return CUDNN_STATUS_BAD_PARAM;
  if (says("log")) std::fprintf(stderr, "cudnn: looks up a recurrent network\n");
  *bytes = static_cast<std::size_t>(network->weights()) * bytes_of(network->type);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                      std::int32_t layer, std::size_t bytes, const void* weights,
                                      std::int32_t gate, cudnnTensorDescriptor_t matrix,
                                      void** matrix_at, cudnnTensorDescriptor_t bias,
                                      void** bias_at) {
  MOONLET_MAY_FAIL("cudnnGetRNNWeightParams");
  if (!handle || !network || !weights || !matrix || !matrix_at || !bias || !bias_at)
    return CUDNN_STATUS_BAD_PARAM;
  const cudnnRNNStruct& n = *network;
  if (!n.is_set || layer < 0 || layer >= n.parts() || gate < 0 || gate >= 2 * n.gates())
    return CUDNN_STATUS_BAD_PARAM;
  const std::size_t each = bytes_of(n.type);
  if (bytes != static_cast<std::size_t>(n.weights()) * each) return CUDNN_STATUS_BAD_PARAM;
  const auto at = [&](std::int64_t elements) {
    char* const start = static_cast<char*>(const_cast<void*>(weights));
    return start + elements * static_cast<std::int64_t>(each);
  };
  // Another order than the real one, so that what looks shows.
  const std::int64_t shown = says("shuffled") ? gate ^ 1 : gate;
  *matrix_at = at(n.matrix(layer, shown));
  describe(matrix, n.type, n.size, gate < n.gates() ? n.width(layer) : n.size);
  *bias_at = n.has_biases ? at(n.bias(layer, gate)) : nullptr;
  describe(bias, n.type, n.size, 1);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) {
  MOONLET_MAY_FAIL("cudnnCreateRNNDataDescriptor");
  return create(data);
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) {
  delete data;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int longest, int sequences,
                                        int width, const int lengths[], void*) {
  MOONLET_MAY_FAIL("cudnnSetRNNDataDescriptor");
  if (!data || !lengths) return CUDNN_STATUS_BAD_PARAM;
  if (longest < 1 || sequences < 1 || width < 1 || lengths[0] != longest)
    return CUDNN_STATUS_BAD_PARAM;
  // The others go with padded input and output, which the network's descriptor has switched off.
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) return CUDNN_STATUS_BAD_PARAM;
  for (int i = 0; i < sequences; ++i)
    if (lengths[i] < 1 || (i > 0 && lengths[i] > lengths[i - 1])) return CUDNN_STATUS_BAD_PARAM;
  *data = {true, type, width, {lengths, lengths + sequences}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        std::size_t* work, std::size_t* reserve) {
  MOONLET_MAY_FAIL("cudnnGetRNNTempSpaceSizes");
  if (!handle || !network || !x || !work || !reserve) return CUDNN_STATUS_BAD_PARAM;
  if (!network->is_set || !x->is_set || x->type != network->type || x->width != network->features)
    return CUDNN_STATUS_BAD_PARAM;
  if (says("unsupported")) return CUDNN_STATUS_NOT_SUPPORTED;
  *work = work_bytes(*network, *x);
  *reserve = reserve_bytes(*network, *x, mode);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                              cudnnForwardMode_t mode, const std::int32_t[],
                              cudnnRNNDataDescriptor_t x, const void* x_data,
                              cudnnRNNDataDescriptor_t y, void* y_data, cudnnTensorDescriptor_t h,
                              const void* hx, void* hy, cudnnTensorDescriptor_t c, const void* cx,
                              void* cy, std::size_t weight_bytes, const void* weights,
                              std::size_t work_bytes, void* work, std::size_t reserve_bytes,
                              void* reserve) {
  MOONLET_MAY_FAIL("cudnnRNNForward");
  const Arguments a{handle, network,       x,      y, h, c, weight_bytes, work_bytes,
                    work,   reserve_bytes, reserve};
  if (const cudnnStatus_t status = check(a, mode)) return status;
  const cudnnRNNStruct& n = *network;
  const std::int64_t states = state_count(a), rows = x->rows();
  const bool no_cell = n.mode != CUDNN_LSTM;
  if (const cudnnStatus_t status = check(a, {{x_data, rows * n.features},
                                             {y_data, rows * n.directions * n.size},
                                             {hx, states},
                                             {hy, states},
                                             {cx, states, no_cell},
                                             {cy, states, no_cell},
                                             {weights, n.weights()}}))
    return status;
  RecurrentData at;
  at.x = x_data, at.hx = hx, at.cx = cx, at.weights = weights;
  at.y = y_data, at.hy = hy, at.cy = cy;
  const bool trains = mode == CUDNN_FWD_MODE_TRAINING;
  log(a, trains ? "forward with a reserve" : "forward");
  if (trains) {
    enqueue_stage(a, Stage::Forward, Stage::Forward,
                  [at](const Numbers& all) { forward(all, at); });
  } else {
    enqueue(handle->stream, [at, n, d = *x, work, work_bytes] {
      std::memset(work, 0xA5, work_bytes);
      std::vector<double> all(static_cast<std::size_t>(Numbers::count(n, d)));
      forward({n, d, all.data()}, at);
    });
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t network,
                                      const std::int32_t[], cudnnRNNDataDescriptor_t y,
                                      const void* y_data, const void* dy,
                                      cudnnRNNDataDescriptor_t x, void* dx,
                                      cudnnTensorDescriptor_t h, const void* hx, const void* dhy,
                                      void* dhx, cudnnTensorDescriptor_t c, const void* cx,
                                      const void* dcy, void* dcx, std::size_t weight_bytes,
                                      const void* weights, std::size_t work_bytes, void* work,
                                      std::size_t reserve_bytes, void* reserve) {
  MOONLET_MAY_FAIL("cudnnRNNBackwardData_v8");
  const Arguments a{handle, network,       x,      y, h, c, weight_bytes, work_bytes,
                    work,   reserve_bytes, reserve};
  if (const cudnnStatus_t status = check(a, CUDNN_FWD_MODE_TRAINING)) return status;
  const cudnnRNNStruct& n = *network;
  const std::int64_t states = state_count(a), outputs = x->rows() * n.directions * n.size;
  const bool no_cell = n.mode != CUDNN_LSTM;
  if (const cudnnStatus_t status = check(a, {{y_data, outputs},
                                             {dy, outputs},
                                             {dx, x->rows() * n.features},
                                             {hx, states},
                                             {dhy, states, true},
                                             {dhx, states, true},
                                             {cx, states, no_cell},
                                             {dcy, states, true},
                                             {dcx, states, true},
                                             {weights, n.weights()}}))
    return status;
  RecurrentData at;
  at.hx = hx, at.cx = cx, at.weights = weights;
  at.dy = dy, at.dhy = dhy, at.dcy = dcy, at.dx = dx, at.dhx = dhx, at.dcx = dcx;
  log(a, "gradients of data");
  enqueue_stage(a, Stage::Forward, Stage::Data,
                [at](const Numbers& all) { backward_data(all, at); });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t network, cudnnWgradMode_t how, const std::int32_t[],
    cudnnRNNDataDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t h, const void* hx,
    cudnnRNNDataDescriptor_t y, const void* y_data, std::size_t weight_bytes, void* gradients,
    std::size_t work_bytes, void* work, std::size_t reserve_bytes, void* reserve) {
  MOONLET_MAY_FAIL("cudnnRNNBackwardWeights_v8");
  const Arguments a{handle, network,       x,      y, h, h, weight_bytes, work_bytes,
                    work,   reserve_bytes, reserve};
  if (const cudnnStatus_t status = check(a, CUDNN_FWD_MODE_TRAINING)) return status;
  if (how != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnRNNStruct& n = *network;
  if (const cudnnStatus_t status = check(a, {{x_data, x->rows() * n.features},
                                             {hx, state_count(a)},
                                             {y_data, x->rows() * n.directions * n.size},
                                             {gradients, n.weights()}}))
    return status;
  RecurrentData at;
  at.x = x_data, at.hx = hx, at.dweights = gradients;
  log(a, "gradients of weights");
  enqueue_stage(a, Stage::Data, Stage::Weights,
                [at](const Numbers& all) { backward_weights(all, at); });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
