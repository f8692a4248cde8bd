// cuda/libraries/cudnn_recurrent.h: recurrent networks by cuDNN, where it is installed and not
// switched off (tensor/runtime/cudnn_settings.h). Without it, and where results must repeat, which
// its documentation does not promise, networks go step by step.
#pragma once

namespace moonlet {
class RecurrentNetworks;
}

namespace moonlet::cuda::cudnn {

// Null where there are no headers of cuDNN.
RecurrentNetworks* recurrent_networks() noexcept;

}  // namespace moonlet::cuda::cudnn
