// cuda/emulated/cudnn_recurrent_loops.h: a recurrent network as cuDNN's descriptors say it, and the
// loops that compute it, sequence by sequence in double.
#pragma once

#include <cstdint>
#include <vector>

#include "cudnn.h"

struct cudnnRNNStruct {
  bool is_set = false;
  cudnnRNNMode_t mode = CUDNN_LSTM;
  bool has_biases = false;
  std::int64_t directions = 1, layers = 1, features = 1, size = 1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  std::int64_t gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  /// Layers and directions, the directions of a layer side by side.
  std::int64_t parts() const { return layers * directions; }
  /// The width of what goes into one of them.
  std::int64_t width(std::int64_t part) const {
    return part < directions ? features : directions * size;
  }
  /// Elements in front of the matrix, or the bias, of a gate: those of the input first.
  std::int64_t matrix(std::int64_t part, std::int64_t gate) const;
  std::int64_t bias(std::int64_t part, std::int64_t gate) const {
    return matrix(parts(), 0) + (part * 2 * gates() + gate) * size;
  }
  std::int64_t weights() const { return has_biases ? bias(parts(), 0) : matrix(parts(), 0); }
};

struct cudnnRNNDataStruct {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t width = 0;
  std::vector<std::int64_t> lengths;  // they fall

  std::int64_t rows() const {
    std::int64_t out = 0;
    for (const std::int64_t n : lengths) out += n;
    return out;
  }
};

namespace moonlet::emulated {

/// The numbers of a network at work: of every row of each layer and direction its gates, what the
/// hidden state gave GRU's last one, the cell and the hidden state.
struct Numbers {
  const cudnnRNNStruct& network;
  const cudnnRNNDataStruct& data;
  double* all;

  static std::int64_t count(const cudnnRNNStruct& n, const cudnnRNNDataStruct& d) {
    return n.parts() * d.rows() * (n.gates() + 3) * n.size;
  }
  double* row(std::int64_t part, std::int64_t at) const {
    return all + (part * data.rows() + at) * (network.gates() + 3) * network.size;
  }
  double* gate(std::int64_t part, std::int64_t at, std::int64_t k) const {
    return row(part, at) + k * network.size;
  }
  double* inner(std::int64_t part, std::int64_t at) const {
    return gate(part, at, network.gates());
  }
  double* cell(std::int64_t part, std::int64_t at) const {
    return gate(part, at, network.gates() + 1);
  }
  double* state(std::int64_t part, std::int64_t at) const {
    return gate(part, at, network.gates() + 2);
  }
};

/// What is read and written; null where there is none.
struct RecurrentData {
  const void *x = nullptr, *hx = nullptr, *cx = nullptr, *weights = nullptr;
  void *y = nullptr, *hy = nullptr, *cy = nullptr;
  const void *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *dx = nullptr, *dhx = nullptr, *dcx = nullptr, *dweights = nullptr;
};

void forward(const Numbers& n, const RecurrentData& at);
/// Puts the gradients of the gates in the place of the gates.
void backward_data(const Numbers& n, const RecurrentData& at);
/// From these; adds to what is there.
void backward_weights(const Numbers& n, const RecurrentData& at);

}  // namespace moonlet::emulated
