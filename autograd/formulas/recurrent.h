// autograd/formulas/recurrent.h: recurrent networks over whole sequences, and their derivatives.
#pragma once

#include <tuple>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// How a state follows from the one before; what native_recurrent calls `mode`.
enum RecurrentMode : int64_t { kLstm, kGru, kRnnTanh, kRnnRelu };

// Throws unless the rows of data are those of the steps.
void check_batch_sizes(const char* op, const std::vector<int64_t>& sizes, int64_t rows);
// Throws unless the arguments of native_recurrent fit.
void check_recurrent(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                     const Tensor& w_hh, const Tensor& b_hh, const std::vector<int64_t>& sizes,
                     int64_t mode);

// The gradients of (gates, cell) and of (x_gates, h_gates, hidden).
std::tuple<Tensor, Tensor> lstm_step_backward(const Tensor& grad_h, const Tensor& grad_c,
                                              const Tensor& gates, const Tensor& cell,
                                              const Tensor& c);
std::tuple<Tensor, Tensor, Tensor> gru_step_backward(const Tensor& grad, const Tensor& x_gates,
                                                     const Tensor& h_gates, const Tensor& hidden);

// native_recurrent: (y, h_n, c_n, cells, sums), unrecorded. `keep_sums` says whether a gradient
// will want the last.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent(
    const Tensor& gates, const Tensor& hidden, const Tensor& cell, const Tensor& w_hh,
    const Tensor& b_hh, const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse,
    bool keep_sums);
// The same as ops on the steps, which are recorded, and take tensors inside vmap: (y, h_n), and of
// lstm (c_n, cells).
std::vector<Tensor> unrolled(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                             const Tensor& w_hh, const Tensor& b_hh,
                             const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse);
// Its gradients with respect to (gates, hidden, cell, w_hh, b_hh).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_grads(
    const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c, const Tensor& gates,
    const Tensor& hidden, const Tensor& cell, const Tensor& w_hh, const Tensor& b_hh,
    const Tensor& y, const Tensor& cells, const Tensor& sums,
    const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse);

}  // namespace moonlet::formulas
