// tensor/program/file/program_file.cpp: programs in safetensors files, with their parameters or
// beside them.
#include "tensor/program/file/program_file.h"

#include <cinttypes>
#include <cstdio>

#include "tensor/core/error.h"
#include "tensor/io/bytes.h"
#include "tensor/io/files.h"
#include "tensor/io/json.h"
#include "tensor/io/json_tree.h"
#include "tensor/io/read_budget.h"
#include "tensor/program/shapes/check_graph.h"
#include "tensor/program/shapes/dynamic.h"

namespace moonlet::program {

namespace {

// The key of the metadata that names the file of the parameters, and what it holds.
constexpr const char* kWeightsKey = "moonlet.weights";
// The key of the backward pass of a program with gradients. Behind that of the program, which files
// of programs begin with.
constexpr const char* kGradientsKey = "moonlet.program.gradients";

// --- parameters ----------------------------------------------------------------------------------

// Whether a tensor is all of its storage, in row order: it is saved as it is.
bool is_whole(const Tensor& t) {
  return t.offset() == 0 && t.is_contiguous() &&
         t.numel() * static_cast<int64_t>(size_of(t.dtype())) ==
             static_cast<int64_t>(t.storage().bytes());
}

std::string free_name(const std::string& wanted, const io::NamedTensors& taken) {
  if (!wanted.empty() && !taken.contains(wanted)) return wanted;
  int i = 1;
  const auto numbered = [&] { return text(wanted.empty() ? "constant" : wanted, ".", i); };
  while (taken.contains(numbered())) ++i;
  return numbered();
}

// The tensors of a file. A storage has one parameter, as in all graphs.
std::vector<StoredParameter> store_parameters(const Graph& graph, io::NamedTensors& tensors) {
  std::vector<StoredParameter> out;
  for (const Parameter& p : graph.parameters) {
    StoredParameter stored{free_name(p.name, tensors), !is_whole(p.tensor)};
    tensors.emplace(stored.key, stored.raw ? bytes_of_storage(p.tensor) : p.tensor);
    out.push_back(std::move(stored));
  }
  return out;
}

// --- a file of its own ---------------------------------------------------------------------------

// A sum over names, dtypes, shapes and elements, so that other weights are not taken for these.
std::string checksum_of(const io::NamedTensors& tensors, const char* op) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum = io::checksum(text(name, "\n", tensor.dtype(), tensor.sizes(), "\n"), sum);
    sum = io::checksum(io::bytes_of(io::host_rows(tensor, op)), sum);
  }
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08" PRIx32, sum);
  return hex;
}

std::string beside(const std::string& path, const std::string& name) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? name : path.substr(0, slash + 1) + name;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

std::string describe_weights(const std::string& name, const std::string& sum) {
  io::JsonWriter out;
  out.begin_object();
  out.key("file"), out.string(name);
  out.key("crc32"), out.string(sum);
  out.end_object();
  return out.take();
}

io::NamedTensors load_weights(const std::string& path, const std::string& json,
                              io::ReadBudget& budget, int64_t max_bytes, const char* op) {
  const io::JsonTree tree = io::JsonTree::read(json, "the weights", &budget);
  const std::string& name = tree.at("file").string("file");
  check(is_plain_name(name), "it names weights that are not beside it");
  io::Safetensors file = io::load_safetensors(beside(path, name), {.max_bytes = max_bytes}, op);
  check(file.left_out.empty(), "'", name, "' has tensors of dtypes that are not supported");
  check(checksum_of(file.tensors, op) == tree.at("crc32").string("crc32"), "'", name,
        "' does not hold the weights of this program");
  return std::move(file.tensors);
}

ProgramData read_checked(const std::string& path, io::Safetensors& file, int64_t max_bytes,
                         const char* op) {
  const auto json = file.metadata.find(kFileKey);
  check(json != file.metadata.end(), "this is no program");
  io::ReadBudget budget(json->second.size(), max_bytes);
  const auto weights = file.metadata.find(kWeightsKey);
  if (weights != file.metadata.end())
    file.tensors = load_weights(path, weights->second, budget, max_bytes, op);
  ProgramData data = from_json(json->second, file.tensors, budget);
  const auto gradients = file.metadata.find(kGradientsKey);
  if (gradients != file.metadata.end()) data.gradients = std::move(gradients->second);
  check_graph(data.graph, data.default_dtype);
  check_dynamic(data);
  return data;
}

}  // namespace

void save_program(const std::string& path, const ProgramData& data, const std::string& weights,
                  const char* op) {
  io::NamedTensors tensors;
  const std::vector<StoredParameter> stored = store_parameters(data.graph, tensors);
  io::Metadata metadata{{kFileKey, to_json(data, stored)}};
  if (!data.gradients.empty()) metadata.emplace(kGradientsKey, data.gradients);
  if (!weights.empty()) {
    check(is_plain_name(weights), op, ": weights go beside the program: '", weights,
          "' must be a name without a folder");
    check(beside(path, weights) != path, op, ": '", weights, "' is the program itself");
    metadata.emplace(kWeightsKey, describe_weights(weights, checksum_of(tensors, op)));
    io::save_safetensors(beside(path, weights), tensors, {}, op);
    tensors.clear();
  }
  io::save_safetensors(path, tensors, metadata, op);
}

ProgramData load_program(const std::string& path, int64_t max_bytes, const char* op) {
  io::Safetensors file = io::load_safetensors(path, {.max_bytes = max_bytes}, op);
  try {
    return read_checked(path, file, max_bytes, op);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    const std::string_view said = e.what();
    if (said.starts_with(text(op, ": '"))) throw;  // of the file beside it
    fail(op, ": '", path, "': ", said);
  }
}

}  // namespace moonlet::program
