// autograd/composite/recurrent.h: recurrent networks over whole sequences, step by step. The rows
// of a sequence are those of its steps one after the other; the step of batch size n goes on with
// the first n rows of the state, so sequences may end before others.
#pragma once

#include <tuple>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/runtime/recurrent_networks.h"

namespace moonlet::recurrent {

// From so many steps on a copy of the weights pays.
inline constexpr size_t kManySteps = 8;

// The rows of a step of a sequence.
struct Step {
  int64_t at, count;
};

// The steps in the order in which the state goes through them.
std::vector<Step> steps_of(const std::vector<int64_t>& batch_sizes, bool reverse);
Tensor rows(const Tensor& x, const Step& s);
// The first rows, which are all where there are no more.
Tensor first(const Tensor& x, int64_t count);

// Throws unless the rows of data are those of the steps.
void check_batch_sizes(const char* op, const std::vector<int64_t>& sizes, int64_t rows);
// Throws unless the arguments of native_recurrent fit.
void check_recurrent(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                     const Tensor& w_hh, const Tensor& b_hh, const std::vector<int64_t>& sizes,
                     int64_t mode);

// native_recurrent: (y, h_n, c_n, cells, sums), unrecorded. `keep_sums` says whether a gradient
// will want the last.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> run_steps(
    const Tensor& gates, const Tensor& hidden, const Tensor& cell, const Tensor& w_hh,
    const Tensor& b_hh, const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse,
    bool keep_sums);
// The same as ops on the steps, which are recorded, and take tensors inside vmap: (y, h_n), and of
// lstm (c_n, cells).
std::vector<Tensor> unrolled(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                             const Tensor& w_hh, const Tensor& b_hh,
                             const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse);

// What a network is besides its parameters: those of `Shape`, and dropout between its layers.
struct Network : Shape {
  double dropout = 0;
  bool train = false;
};
struct Outcome {
  Tensor y, h, c;
};
// The rows `data` of all steps through the layers, in one call of the device's library where it
// takes that; params has for each layer and direction the weights of the input and of the hidden
// state and then their biases.
Outcome run_network(const Network& net, const Tensor& data, const Tensor& h, const Tensor& c,
                    const std::vector<Tensor>& params, const std::vector<int64_t>& batch_sizes);
// Throws unless the arguments of recurrent_network fit.
void check_network(const Shape& shape, const Inputs& in);
// What that computes, step by step.
Outcome run_by_steps(const Shape& shape, const Inputs& in);
// What computes whole networks on the device of x, or null: nothing that is written down, put off
// or inside vmap is given to it.
RecurrentNetworks* library_of(const Tensor& x);

}  // namespace moonlet::recurrent
