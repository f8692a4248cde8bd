// tensor/program/program.h: programs for hosts: what `ml.export` made of a module or a function is
// loaded and run without Lua. A program is shared by threads and does not change; each thread has a
// Context, in which, after its first run, nothing is allocated and nobody is waited for. What runs
// change, as a cache of keys and values or a counter, is the context's state.
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
    bool changed = false;  // an input that a run writes to
  };
  // Memory of the host that a run reads: elements one after another, row-major. `changed`: where
  // the elements go after the run, of an input that the program changes; may be `data`.
  struct Input {
    const void* data = nullptr;
    DType dtype = DType::Float32;
    Dims sizes;
    void* changed = nullptr;
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

  using NamedTensor = std::pair<std::string, Tensor>;
  // Its parameters by name. Those without a name are constants and not among them, nor is state.
  // Ops may change them in place; what a host writes to their memory itself is seen after
  // set_parameter.
  std::vector<NamedTensor> parameters() const;
  // What a new context's state is.
  std::vector<NamedTensor> initial_state() const;
  // Puts another tensor, of the same dtype, shape, strides and device, in the place of a parameter,
  // for all runs that begin after it.
  void set_parameter(const std::string& name, const Tensor& tensor);

  // Of parts that were captured; throws where they do not fit together.
  explicit Program(program::ProgramData data);
  const program::ProgramData& data() const;

 private:
  struct Shared;
  explicit Program(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

// The memory of one thread for a program, and its state.
class Program::Context {
 public:
  explicit Context(const Program& program);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Runs it. The inputs have the dtypes, sizes and devices that `inputs()` says; those of other
  // strides than in the example are copied, but for those that the program changes, which must have
  // these strides. Outputs that are given and fit are filled, the others become new tensors, or the
  // inputs, parameters and state that they are. When a run throws, what it has changed until then
  // stays changed.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  // The same on the host's own memory, which is copied from and to; for programs on the CPU.
  void run(std::span<const Input> inputs, std::span<const Output> outputs);
  // Throws unless a run takes such inputs.
  void check(std::span<const Tensor> inputs) const;
  // The state by name: tensors that runs change, and that may be read and written between runs.
  std::vector<NamedTensor> state() const;
  // Makes the state what it was at first.
  void reset();
  // Writes the program as `Program::save` does, with the state of now as what it is at first.
  void save(const std::string& path, const std::string& weights = {}) const;
  // "net.lua:12": the script's line of the op that ran last, for messages; "" where none is known.
  const std::string& line() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonlet
