// autograd/composite/recurrent.h: recurrent networks over whole sequences, step by step. The rows
// of a sequence are those of its steps one after the other; the step of batch size n goes on with
// the first n rows of the state, so sequences may end before others.
#pragma once

#include <tuple>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::recurrent {

// How a state follows from the one before; what native_recurrent calls `mode`.
enum RecurrentMode : int64_t { kLstm, kGru, kRnnTanh, kRnnRelu };

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

}  // namespace moonlet::recurrent
