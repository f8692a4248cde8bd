// tensor/program/program_data.h: all that a program is: its graph, the names around it, and how
// sizes follow those of the inputs. A file holds it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/program/graph.h"

namespace moonlet::program {

// A size that may be another at each run. Sizes that were equal in the example are one.
struct DynamicSize {
  int32_t input = 0, dim = 0;  // from 0
  int32_t symbol = 0;
};

// An integer among a node's arguments that follows them: constant + the sum of factors times sizes.
struct DynamicArgument {
  int32_t node = 0, argument = 0;  // node kNone: a size of new memory, the value `argument`
  int32_t element = kNone;         // of a list; kNone: the argument itself
  std::vector<int64_t> factors;    // by symbol
  int64_t constant = 0;
};

struct Dynamic {
  std::vector<int64_t> example;  // the size of each symbol in the graph itself
  std::vector<DynamicSize> sizes;
  std::vector<DynamicArgument> arguments;
};

// All bytes of the storage that a tensor lies on.
Tensor bytes_of_storage(const Tensor& t);
// A tensor of the same geometry on a copy of its whole storage.
Tensor copy_with_storage(const Tensor& t);
// Gives the storage of one what is in that of the other, of the same size.
void copy_storage(const Tensor& to, const Tensor& from);

struct ProgramData {
  Graph graph;
  DType default_dtype = DType::Float32;                // in which ops compute with integers
  std::vector<std::string> input_names, output_names;  // as many as there are; "" for none
  Dynamic dynamic;
  std::map<std::string, std::string> notes;  // texts of who made it
  // Of a program with gradients: its backward pass, as autograd/program/exported.h writes and reads
  // it; else "". Runs of the program itself have no use for it.
  std::string gradients;
};

}  // namespace moonlet::program
