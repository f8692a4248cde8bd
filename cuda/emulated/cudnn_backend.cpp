// cuda/emulated/cudnn_backend.cpp: cuDNN's graph interface: descriptors whose attributes are
// checked one by one, engines that all compute the same, and plans that run by loops over the
// host's memory.
#include "cudnn_backend.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <set>
#include <string_view>

#include "checks.h"
#include "cudnn_calls.h"
#include "queue.h"

namespace moonlet::emulated {

namespace {

using Type = cudnnBackendDescriptorType_t;

/// What an attribute must be; `of` is the type of the descriptors that it refers to, or -1 for any
/// operation.
struct Rule {
  Type in;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most;
  bool is_needed;
  int of = -2;
};

constexpr int kFirstEngine = 1;  // that anyone uses
constexpr std::string_view kGradients = "attention's gradients";
constexpr int kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
constexpr std::int64_t kMostDims = 8, kMostOperations = 64, kMostTensors = 64;

#define MOONLET_OF(kind, name, type, most, needed) \
  { CUDNN_BACKEND_##kind##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, most, needed }
#define MOONLET_REFERS(kind, name, most, needed, of)                                           \
  {                                                                                            \
    CUDNN_BACKEND_##kind##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, \
        needed, of                                                                             \
  }
constexpr Rule kRules[] = {
    MOONLET_OF(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, true),
    MOONLET_OF(TENSOR, TENSOR_DIMENSIONS, INT64, kMostDims, true),
    MOONLET_OF(TENSOR, TENSOR_STRIDES, INT64, kMostDims, true),
    MOONLET_OF(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, true),
    MOONLET_OF(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, true),
    MOONLET_OF(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, false),
    MOONLET_OF(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, false),
    MOONLET_OF(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, true),
    MOONLET_OF(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, true),
    MOONLET_OF(POINTWISE, POINTWISE_AXIS, INT64, 1, false),
    MOONLET_OF(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, true),
    MOONLET_OF(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, true),
    MOONLET_OF(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 3, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 3, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 3, true),
    MOONLET_OF(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 3, true),
    MOONLET_REFERS(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_MATMUL, OPERATION_MATMUL_DESC, 1, true,
                   CUDNN_BACKEND_MATMUL_DESCRIPTOR),
    MOONLET_REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, 1, true,
                   CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    MOONLET_REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, 1, false, kTensor),
    MOONLET_REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, 1, false, kTensor),
    MOONLET_REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, 1, true,
                   CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
    MOONLET_REFERS(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, 1, true, kTensor),
    MOONLET_REFERS(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_X, 1, true,
                   kTensor),
    MOONLET_REFERS(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_W, 1, true,
                   kTensor),
    MOONLET_REFERS(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_Y, 1, true,
                   kTensor),
    MOONLET_REFERS(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 1, true,
                   CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
    MOONLET_OF(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, 1, true),
    MOONLET_OF(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, 1, true),
    MOONLET_REFERS(OPERATIONGRAPH, OPERATIONGRAPH_OPS, kMostOperations, true, -1),
    MOONLET_OF(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, true),
    MOONLET_OF(OPERATIONGRAPH, OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, BOOLEAN, 1, false),
    MOONLET_REFERS(KERNEL_CACHE, KERNEL_CACHE_OPERATION_GRAPH, 1, true,
                   CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    MOONLET_REFERS(EXECUTION_PLAN, EXECUTION_PLAN_KERNEL_CACHE, 1, false,
                   CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR),
    MOONLET_OF(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, true),
    MOONLET_REFERS(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, 1, true,
                   CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    MOONLET_OF(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, true),
    MOONLET_REFERS(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, 1, true,
                   CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    MOONLET_OF(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, kMostTensors, true),
    MOONLET_OF(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, kMostTensors, true),
    MOONLET_OF(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, true),
};
#undef MOONLET_OF
#undef MOONLET_REFERS

/// Who holds a descriptor that a caller knows; what refers to it holds what is in it.
struct Holder {
  std::shared_ptr<BackendNode> node = std::make_shared<BackendNode>();
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64: return sizeof(std::int64_t);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void*);
    default: return 4;
  }
}

bool is_operation(Type type) {
  return type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
}

const Rule* rule_of(Type in, cudnnBackendAttributeName_t name) {
  for (const Rule& rule : kRules)
    if (rule.in == in && rule.name == name) return &rule;
  return nullptr;
}

cudnnStatus_t check_tensor(const BackendNode& x) {
  const auto sizes = x.list(CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = x.list(CUDNN_ATTR_TENSOR_STRIDES);
  if (sizes.size() != strides.size()) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 1 || strides[d] < 1) return CUDNN_STATUS_BAD_PARAM;
  const auto alignment = x.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (alignment < 1 || (alignment & (alignment - 1)) != 0) return CUDNN_STATUS_BAD_PARAM;
  const bool both =
      x.value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false) && x.value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
  return both ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

bool is_inner(const NodeRef& tensor) { return tensor->value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false); }

/// Numbers are those of one tensor each; what is between operations is computed once, and before
/// it is used.
cudnnStatus_t check_graph(const BackendNode& graph) {
  std::map<std::int64_t, NodeRef> known;
  std::set<std::int64_t> written;
  for (const NodeRef& op : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes) {
    const Operation tensors = operation_of(*op);
    std::vector<NodeRef> all = tensors.inputs;
    all.push_back(tensors.output);
    for (const NodeRef& each : all) {
      const auto id = each->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      if (known.emplace(id, each).first->second != each)
        return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
      if (each != tensors.output) {
        if (is_inner(each) && written.count(id) == 0) return CUDNN_STATUS_NOT_SUPPORTED;
      } else if (!written.insert(id).second || each->value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
        return CUDNN_STATUS_BAD_PARAM;
      }
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_pack(const BackendNode& pack) {
  const Attribute& ids = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids.count != pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count)
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  const auto list = pack.list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  return std::set<std::int64_t>(list.begin(), list.end()).size() == list.size()
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
}

bool is_channels_last_conv(const BackendNode& graph) {
  const NodeRef first = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes[0];
  if (first->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return false;
  const NodeRef y = operation_of(*first).output;
  return y->list(CUDNN_ATTR_TENSOR_STRIDES)[1] == 1 && y->list(CUDNN_ATTR_TENSOR_DIMENSIONS)[1] > 1;
}

bool is_of_any_size(const BackendNode& graph) {
  return graph.value(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, false);
}

cudnnStatus_t check_plan(const BackendNode& plan) {
  const NodeRef config = plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                graph = config->node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
                kernels = plan.node(CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE);
  if (says("unready") && config->engine == kFirstEngine) return CUDNN_STATUS_NOT_SUPPORTED;
  if ((kernels != nullptr) != is_of_any_size(*graph)) return CUDNN_STATUS_BAD_PARAM;
  if (says("log") && (!kernels || !kernels->is_compiled))
    std::fprintf(stderr, "cudnn: compiles %s\n", name_of_graph(*graph));
  if (kernels) kernels->is_compiled = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_heuristics(const BackendNode& heuristics) {
  const NodeRef graph = heuristics.node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (says("log")) std::fprintf(stderr, "cudnn: looks up %s\n", name_of_graph(*graph));
  const bool has_none = is_of_any_size(*graph) && name_of_graph(*graph) == kGradients;
  return has_none || says("unsupported") || (says("rows") && is_channels_last_conv(*graph))
             ? CUDNN_STATUS_NOT_SUPPORTED
             : CUDNN_STATUS_SUCCESS;
}

/// The engines that heuristics propose: their notes, and the bytes that they work in.
struct EngineRow {
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::size_t workspace;
};
const EngineRow kEngines[] = {
    {{CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, 0},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 4096},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 256},
    {{}, 0},
};

const EngineRow& row_of(const BackendNode& config) {
  return kEngines[static_cast<std::size_t>(config.engine)];
}

std::size_t workspace_of(const BackendNode& plan) {
  const NodeRef config = plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  // More than a small device has.
  if (says("greedy") && config->engine == kFirstEngine) return std::size_t{768} << 20;
  return row_of(*config).workspace;
}

cudnnStatus_t check_final(const BackendNode& node) {
  if (is_operation(node.type))
    return shapes_match(node) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  switch (node.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return check_tensor(node);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return check_graph(node);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return check_heuristics(node);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return check_pack(node);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return check_plan(node);
    default: return CUDNN_STATUS_SUCCESS;
  }
}

/// Fills descriptors of the caller's with what belongs to a node.
cudnnStatus_t fill(Type type, const std::vector<BackendNode>& from, std::int64_t most,
                   std::int64_t* count, void* values) {
  *count = static_cast<std::int64_t>(from.size());
  if (most == 0) return CUDNN_STATUS_SUCCESS;
  if (!values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *count = std::min(*count, most);
  for (std::int64_t i = 0; i < *count; ++i) {
    auto* holder = static_cast<Holder*>(static_cast<void**>(values)[i]);
    if (!holder) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (holder->node->type != type || holder->node->is_final)
      return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    *holder->node = from[static_cast<std::size_t>(i)];
  }
  return CUDNN_STATUS_SUCCESS;
}

BackendNode made(Type type, int engine, const BackendNode& of) {
  BackendNode out;
  out.type = type;
  out.is_final = true;
  out.engine = engine;
  out.attributes = of.attributes;
  return out;
}

cudnnStatus_t ask(const BackendNode& node, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t most, std::int64_t* count,
                  void* values) {
  const auto is = [&](Type in, cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t as) {
    return node.type == in && name == what && type == as;
  };
  if (is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
         CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    std::vector<BackendNode> configs;
    for (int i = 0; i < static_cast<int>(std::size(kEngines)); ++i)
      configs.push_back(made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, i, node));
    return fill(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, configs, most, count, values);
  }
  if (is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
         CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return fill(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                {made(CUDNN_BACKEND_ENGINE_DESCRIPTOR, node.engine, node)}, most, count, values);
  if (!values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
         CUDNN_TYPE_NUMERICAL_NOTE)) {
    const auto& notes = row_of(node).notes;
    *count = std::min<std::int64_t>(most, static_cast<std::int64_t>(notes.size()));
    std::copy_n(notes.begin(), *count, static_cast<cudnnBackendNumericalNote_t*>(values));
    return CUDNN_STATUS_SUCCESS;
  }
  if (is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
         CUDNN_TYPE_INT64)) {
    *count = 1;
    *static_cast<std::int64_t*>(values) = static_cast<std::int64_t>(workspace_of(node));
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
}

std::size_t bytes_of(const NodeRef& tensor) {
  const auto sizes = tensor->list(CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = tensor->list(CUDNN_ATTR_TENSOR_STRIDES);
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  const auto type = tensor->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const bool is_half = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  return (static_cast<std::size_t>(last) + 1) * (is_half ? 2 : 4);
}

/// What a plan is given of each tensor in memory: all of them, on the device and aligned. Numbers
/// of the host are kept as they are at the call.
cudnnStatus_t read_given(const BackendNode& graph, const BackendNode& pack,
                         std::map<std::int64_t, GivenTensor>& given, std::vector<float>& numbers) {
  std::map<std::int64_t, void*> at;
  const auto ids = pack.list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
             pointers = pack.list(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < ids.size(); ++i) at[ids[i]] = reinterpret_cast<void*>(pointers[i]);
  numbers.reserve(ids.size());
  for (const NodeRef& op : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes) {
    const Operation tensors = operation_of(*op);
    std::vector<NodeRef> all = tensors.inputs;
    all.push_back(tensors.output);
    for (const NodeRef& each : all) {
      const auto id = each->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      if (is_inner(each) || given.count(id) != 0) continue;
      const auto found = at.find(id);
      if (found == at.end() || !found->second) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
      if (each->value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
        numbers.push_back(*static_cast<const float*>(found->second));
        given[id] = {&numbers.back(), true};
        continue;
      }
      const auto alignment = each->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
      if (reinterpret_cast<std::int64_t>(found->second) % alignment != 0)
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
      if (!on_device(found->second, bytes_of(each))) return illegal_address();
      given[id] = {found->second, false};
    }
  }
  return given.size() == at.size() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t execute(cudnnHandle_t handle, const BackendNode& plan, const BackendNode& pack) {
  if (device_error() || !valid_stream(handle->stream)) return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  const NodeRef config = plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                graph = config->node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (says("fussy") && config->engine == kFirstEngine) return CUDNN_STATUS_NOT_SUPPORTED;
  struct Data {
    std::map<std::int64_t, GivenTensor> given;
    std::vector<float> numbers;
  };
  const auto data = std::make_shared<Data>();
  if (const cudnnStatus_t status = read_given(*graph, pack, data->given, data->numbers))
    return status;
  const std::size_t needed = workspace_of(plan);
  auto* workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (needed > 0 && !workspace) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (needed > 0 && !on_device(workspace, needed)) return illegal_address();
  if (says("log")) std::fprintf(stderr, "cudnn: %s by %d\n", name_of_graph(*graph), config->engine);
  const auto& notes = row_of(*config).notes;
  const bool tf32 = !notes.empty() && notes[0] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
                    graph->attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes[0]->type ==
                        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  enqueue(handle->stream, [data, graph, workspace, needed, tf32] {
    // What works in memory that it was given leaves something there.
    if (needed > 0) std::memset(workspace, 0xA5, needed);
    compute_graph(*graph, data->given, tf32);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

Operation operation_of(const BackendNode& op) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC,       CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_TDESC,       CUDNN_ATTR_OPERATION_MATMUL_ADESC,
      CUDNN_ATTR_OPERATION_MATMUL_BDESC,          CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
      CUDNN_ATTR_OPERATION_RESHAPE_XDESC,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
  };
  constexpr cudnnBackendAttributeName_t kOutputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
      CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  Operation out;
  for (const auto name : kInputs)
    if (op.has(name)) out.inputs.push_back(op.node(name));
  for (const auto name : kOutputs)
    if (op.has(name)) out.output = op.node(name);
  return out;
}

const char* name_of_graph(const BackendNode& graph) {
  const auto& ops = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes;
  const auto products = std::count_if(ops.begin(), ops.end(), [](const NodeRef& op) {
    return op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  });
  if (products != 0) return products == 2 ? "attention" : kGradients.data();
  return ops.size() == 3 ? "forward with bias and relu" : "forward with bias";
}

}  // namespace moonlet::emulated

using namespace moonlet::emulated;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  MOONLET_MAY_FAIL("cudnnBackendCreateDescriptor");
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  auto* holder = new (std::nothrow) Holder;
  if (!holder) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  holder->node->type = type;
  *descriptor = holder;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Holder*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  MOONLET_MAY_FAIL("cudnnBackendSetAttribute");
  if (!descriptor || !values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  BackendNode& node = *static_cast<Holder*>(descriptor)->node;
  const Rule* rule = rule_of(node.type, name);
  if (node.is_final || !rule) return CUDNN_STATUS_BAD_PARAM;
  if (rule->type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  if (count < 1 || count > rule->most) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  Attribute out;
  out.count = count;
  const auto* bytes = static_cast<const char*>(values);
  out.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  for (std::int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; ++i) {
    const auto* holder = static_cast<const Holder*>(static_cast<void* const*>(values)[i]);
    if (!holder) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!holder->node->is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const bool fits = rule->of == -1 ? is_operation(holder->node->type)
                                     : static_cast<int>(holder->node->type) == rule->of;
    if (!fits) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    out.nodes.push_back(holder->node);
  }
  node.attributes[name] = std::move(out);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  MOONLET_MAY_FAIL("cudnnBackendFinalize");
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  BackendNode& node = *static_cast<Holder*>(descriptor)->node;
  if (node.is_final) return CUDNN_STATUS_BAD_PARAM;
  for (const Rule& rule : kRules)
    if (rule.in == node.type && rule.is_needed && !node.has(rule.name))
      return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = check_final(node);
  node.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most,
                                       std::int64_t* count, void* values) {
  MOONLET_MAY_FAIL("cudnnBackendGetAttribute");
  if (!descriptor || !count) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const BackendNode& node = *static_cast<Holder*>(descriptor)->node;
  if (!node.is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  return ask(node, name, type, most, count, values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  MOONLET_MAY_FAIL("cudnnBackendExecute");
  if (!handle || !plan || !pack) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const BackendNode &of = *static_cast<Holder*>(plan)->node,
                    &with = *static_cast<Holder*>(pack)->node;
  if (!of.is_final || !with.is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (of.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      with.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  return execute(handle, of, with);
}

}  // extern "C"
