// tensor/program/shape_device.h: a device without memory, on which ops check their arguments and
// say what their results look like, and compute nothing. Graphs that come from files are run on it.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet {
struct KernelTable;
}

namespace moonlet::program {

// Scripts cannot name it: it has no device by their counting.
Device shape_device();
// A storage there, for a tensor that exists before any op runs. The caller holds one reference.
Storage* shape_storage(size_t bytes);

// Its kernels; generated.
const KernelTable& shape_kernels();
// Throws: what a result looks like depends on values, and there are none.
[[noreturn]] void fail_on_values();

}  // namespace moonlet::program
