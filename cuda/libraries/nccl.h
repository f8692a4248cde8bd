// cuda/libraries/nccl.h: collectives between the devices of several processes, by NCCL.
#pragma once

namespace moonlet {
class Communicators;
}

namespace moonlet::cuda::nccl {

// NCCL is opened when it is first asked for. Never destroyed.
Communicators* communicators() noexcept;

}  // namespace moonlet::cuda::nccl
