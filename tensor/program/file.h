// tensor/program/file.h: programs as files: safetensors files whose tensors are the parameters and
// whose metadata hold the graph as JSON. What is in a file may come from anybody.
#pragma once

#include <map>
#include <string>

#include "tensor/io/safetensors.h"
#include "tensor/program/program_data.h"

namespace moonlet::io {
class ReadBudget;
}

namespace moonlet::program {

// The key of the metadata under which the graph is; files of programs have it.
inline constexpr const char* kFileKey = "moonlet.program";

// Writes a program, the file whole or not at all. With `weights`, a plain name, the parameters go
// to a safetensors file of that name beside it, which the program's names with a checksum. Throws
// Error naming `op`.
void save_program(const std::string& path, const ProgramData& data, const std::string& weights,
                  const char* op);

// Reads one. Throws Error "OP: 'PATH': reason" for a file that is no program, whose ops are unknown
// here or have another schema, or whose graph is not one that may be run (check_graph.h).
// `max_bytes` bounds what reading may take; 0: as other readers (tensor/io/read_budget.h).
ProgramData load_program(const std::string& path, int64_t max_bytes, const char* op);

// The graph and what belongs to it as JSON. `keys` are the names under which the parameters'
// memory is kept, in their order.
struct StoredParameter {
  std::string key;
  bool raw = false;  // the key's tensor is the bytes of the storage
};
std::string to_json(const ProgramData& data, const std::vector<StoredParameter>& stored);
// The other way; parameters get the tensors that `tensors` has under their keys.
ProgramData from_json(const std::string& json, const io::NamedTensors& tensors,
                      io::ReadBudget& budget);

}  // namespace moonlet::program
