// cuda/libraries/cudnn_conv_graph.h: a convolution with bias, and with relu behind it,
// as one graph of cuDNN's.
#pragma once

#include "cuda/libraries/cudnn_graph.h"
#include "cuda/libraries/cudnn_plan.h"

namespace moonlet::cuda::cudnn {

// Given when it runs: the input, the filters, the result, and a number for each of its channels.
Graph biased_graph(const Problem& p, bool relu, const char* op);

// Computes the output from the other two and the bias, dense and at a multiple of 16 bytes. False
// where there is no way, as of float64.
bool run_biased(const Call& call, const Problem& problem, const Operands& at, const Tensor& bias,
                bool relu);

}  // namespace moonlet::cuda::cudnn
