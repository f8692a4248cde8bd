// cuda/emulated/cudnn_backend.h: descriptors of cuDNN's graph interface as the emulation keeps
// them, and the loops that compute a graph.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cudnn.h"

namespace moonlet::emulated {

struct BackendNode;
using NodeRef = std::shared_ptr<const BackendNode>;

struct Attribute {
  std::int64_t count = 0;
  std::vector<char> bytes;
  std::vector<NodeRef> nodes;
};

struct BackendNode {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  int engine = -1;                   // of configurations and engines: its number
  mutable bool is_compiled = false;  // of a cache of kernels

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) != 0; }
  /// A value that is there, or what is given.
  template <class T>
  T value(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    const auto found = attributes.find(name);
    if (found != attributes.end()) std::memcpy(&otherwise, found->second.bytes.data(), sizeof(T));
    return otherwise;
  }
  std::vector<std::int64_t> list(cudnnBackendAttributeName_t name) const {
    const Attribute& found = attributes.at(name);
    std::vector<std::int64_t> out(static_cast<std::size_t>(found.count));
    std::memcpy(out.data(), found.bytes.data(), found.bytes.size());
    return out;
  }
  /// Null where it is not there.
  NodeRef node(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? nullptr : found->second.nodes[0];
  }
};

/// The tensors that an operation reads, in order, and the one that it writes.
struct Operation {
  std::vector<NodeRef> inputs;
  NodeRef output;
};
Operation operation_of(const BackendNode& node);

/// What a graph is called in the log: what its operations compute.
const char* name_of_graph(const BackendNode& graph);

/// Whether the tensors of each operation belong together.
bool shapes_match(const BackendNode& operation);

struct GivenTensor {
  void* data;
  bool is_number;  // of the host, by value
};

/// Computes the graph, in order, in double; what is between operations is rounded to its type.
void compute_graph(const BackendNode& graph, const std::map<std::int64_t, GivenTensor>& given,
                   bool tf32);

}  // namespace moonlet::emulated
