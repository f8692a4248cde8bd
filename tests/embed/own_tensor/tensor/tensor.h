// tests/embed/own_tensor/tensor/tensor.h: a header of a host, with a name that Moonlet has too.
#pragma once

namespace host {

struct Tensor {
  int rank;
};

}  // namespace host
