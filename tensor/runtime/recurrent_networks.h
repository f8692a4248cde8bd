// tensor/runtime/recurrent_networks.h: recurrent networks of several layers and directions in one
// call, where a backend has a library for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::recurrent {

// How a state follows from the one before; what ops call `mode`.
enum RecurrentMode : int64_t { kLstm, kGru, kRnnTanh, kRnnRelu };

struct Shape {
  int64_t mode;
  bool has_biases;
  int64_t layers;
  bool bidirectional;

  // The op that scripts call.
  const char* op() const {
    constexpr const char* kOps[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    return kOps[mode];
  }
  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t gates() const { return mode == kLstm ? 4 : mode == kGru ? 3 : 1; }
  // How many weights a network has of so many features and a state of that size.
  int64_t weight_count(int64_t features, int64_t size) const {
    int64_t out = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const int64_t wide = layer == 0 ? features : directions() * size;
      out += directions() * gates() * size * (wide + size + (has_biases ? 2 : 0));
    }
    return out;
  }
};

// What a network computes from. The rows of x are those of its steps one after the other: step t
// goes on with the first batch_sizes[t] sequences, of which there do not get more. Of every layer
// and direction `weights` has, row-major, those of the input and those of the hidden state, and
// behind the ones of all the biases in this order; `hidden` and `cell`, of lstm alone, have the
// states before the first step.
struct Inputs {
  const Tensor &x, &hidden, &cell, &weights;
  const std::vector<int64_t>& batch_sizes;
};
struct Results {
  Tensor y, h_n, c_n;
  Tensor reserve;  // what the gradients want besides: bytes
};
struct Gradients {
  Tensor x, hidden, cell, weights;
};

}  // namespace moonlet::recurrent

namespace moonlet {

class RecurrentNetworks {
 public:
  virtual ~RecurrentNetworks() = default;
  // Whether networks of so many features and states of that size, in the dtype of x and on its
  // device, are computed here, with what `forward` keeps for gradients.
  virtual bool takes(const recurrent::Shape& shape, const Tensor& x, int64_t features, int64_t size,
                     const std::vector<int64_t>& batch_sizes, bool keeps) = 0;
  // Nothing where it is not done here, whatever was said before.
  virtual std::optional<recurrent::Results> forward(const recurrent::Shape& shape,
                                                    const recurrent::Inputs& in, bool keeps) = 0;
  // The gradients of what `forward` gave from those of its results, with its reserve, which is used
  // up unless it is to be kept.
  virtual std::optional<recurrent::Gradients> backward(const recurrent::Shape& shape,
                                                       const recurrent::Inputs& in, const Tensor& y,
                                                       const recurrent::Results& gradients,
                                                       bool keeps_reserve) = 0;
};

}  // namespace moonlet
