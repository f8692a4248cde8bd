// tensor/program/program.h: programs for hosts: what `ml.export` made of a module or a function is
// loaded and run without Lua. A program is shared by threads; each has a Context, in which, after
// its first run, nothing is allocated and nobody is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet {

namespace program {
struct ProgramData;
}

// Copying a Program copies the handle. All functions that throw throw moonlet::Error, whose text
// says what was expected and what came.
class Program {
 public:
  // An input or output.
  struct Description {
    std::string name;  // "" where it has none
    DType dtype = DType::Float32;
    Dims sizes;  // -1 for a size that may be another at each run
    Device device;
  };
  // Memory of the host that a run reads: elements one after another, row-major.
  struct Input {
    const void* data = nullptr;
    DType dtype = DType::Float32;
    Dims sizes;
  };
  // Memory that a run fills.
  struct Output {
    void* data = nullptr;
    DType dtype = DType::Float32;
    Dims sizes;
  };

  class Context;

  // Reads a file that `program:save` wrote. Such a file may come from anybody: whatever is in it,
  // this gives a program that runs or throws, naming the path. `max_bytes` bounds what it may take;
  // 0: 512 MiB, or 256 times the file where that is more.
  static Program load(const std::string& path, int64_t max_bytes = 0);

  // Writes it, the file whole or not at all; with `weights`, a name without a folder, the
  // parameters go to a safetensors file of that name beside it.
  void save(const std::string& path, const std::string& weights = {}) const;

  const std::vector<Description>& inputs() const;
  const std::vector<Description>& outputs() const;

  // The names of the ops it is made of, sorted, each once.
  std::vector<std::string> ops() const;
  // A text for people: what goes in and out, the ops, the memory that a run takes.
  std::string describe() const;
  // The graph as text in Graphviz's language.
  std::string to_dot() const;
  // The nodes one by one, as text.
  std::string to_string() const;

  // Its parameters by name. Those without a name are constants and not among them. Ops may change
  // them in place; what a host writes to their memory itself is seen after set_parameter.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
  // Puts another tensor, of the same dtype, shape, strides and device, in the place of a parameter,
  // for all runs that begin after it.
  void set_parameter(const std::string& name, const Tensor& tensor);

  // Of parts that were captured; throws where they do not fit together or write to inputs or
  // parameters.
  explicit Program(program::ProgramData data);
  const program::ProgramData& data() const;

 private:
  struct Shared;
  explicit Program(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

// The memory of one thread for a program.
class Program::Context {
 public:
  explicit Context(const Program& program);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Runs it. The inputs have the dtypes, sizes and devices that `inputs()` says; those of other
  // strides than in the example are copied. Outputs that are given and fit are filled, the others
  // become new tensors, or the inputs and parameters that they are.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  // The same on the host's own memory, which is copied from and to; for programs on the CPU.
  void run(std::span<const Input> inputs, std::span<const Output> outputs);
  // "net.lua:12": the script's line of the op that ran last, for messages; "" where none is known.
  const std::string& line() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonlet
