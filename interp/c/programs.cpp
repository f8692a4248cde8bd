// interp/c/programs.cpp: programs of the C interface, and contexts that run them.
#include <atomic>
#include <memory>

#include "interp/c/calls.h"
#include "interp/c/memory.h"
#include "tensor/program/program.h"

using namespace moonlet::c;
using moonlet::Dims;
using moonlet::Program;
using moonlet::Tensor;

namespace {

// What a context's handle names. What a run needs beside the program's memory is made with it.
struct Running {
  explicit Running(const Program& given)
      : program(given),
        context(given),
        inputs(given.inputs().size()),
        outputs(given.outputs().size()) {}
  const Program program;
  Program::Context context;
  std::vector<Program::Input> inputs;
  std::vector<Program::Output> outputs;
  std::atomic_flag busy;
};

class Busy {
 public:
  explicit Busy(std::atomic_flag& flag) : flag_(flag) {
    if (flag.test_and_set(std::memory_order_acquire))
      throw StatusError(MOONLET_BUSY, "the context is in use by another thread");
  }
  ~Busy() { flag_.clear(std::memory_order_release); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic_flag& flag_;
};

template <class Body>
moonlet_status with_program(moonlet_program program, const char* function, Body&& body) {
  return guarded(
      [&] { body(object_of<Program>(program, HandleKind::Program, function, "program")); });
}

void give_end(const std::vector<Program::Description>& ends, size_t position,
              moonlet_end_info* info, const char* function) {
  moonlet_end_info& to = not_null(info, function, "info");
  if (position >= ends.size())
    refuse(function, ": 'position': expected less than ", ends.size(), ", got ", position);
  const Program::Description& end = ends[position];
  moonlet_end_info out{};
  out.dtype = dtype_number(end.dtype);
  out.rank = end.sizes.size();
  std::copy(end.sizes.begin(), end.sizes.end(), out.sizes);
  moonlet::name(end.device).copy(out.device, sizeof out.device - 1);
  out.name = end.name.c_str();
  fill_struct(to, out, function);
}

// The caller's memory as a run takes it.
template <class End>
void read_buffers(const moonlet_buffer* given, size_t count, std::vector<End>& to,
                  const char* function, const char* argument) {
  if (count != to.size())
    refuse(function, ": '", argument, "': expected ", to.size(), ", got ", count);
  if (count > 0) not_null(given, function, argument);
  for (size_t i = 0; i < count; ++i) {
    to[i].data = given[i].data;
    to[i].dtype = dtype_in(given[i].dtype, function);
    to[i].sizes = dims_in(given[i].sizes, given[i].rank, function, argument);
  }
}

}  // namespace

moonlet_status moonlet_program_load(const char* path, int64_t max_bytes, moonlet_program* program) {
  const char* function = __func__;
  return guarded([&] {
    const std::string file(text_in(path, function, "path"));
    not_null(program, function, "program");
    auto loaded = std::make_unique<Program>(Program::load(file, max_bytes));
    *program = static_cast<moonlet_program>(new_handle(HandleKind::Program, loaded.get()));
    static_cast<void>(loaded.release());
  });
}

moonlet_status moonlet_program_save(moonlet_program program, const char* path) {
  const char* function = __func__;
  return with_program(program, function, [&](const Program& p) {
    p.save(std::string(text_in(path, function, "path")));
  });
}

moonlet_status moonlet_program_free(moonlet_program program) {
  const char* function = __func__;
  return guarded([&] {
    auto* held = static_cast<Program*>(release_handle(program, HandleKind::Program));
    if (held == nullptr) refuse_handle(function, "program", program, HandleKind::Program);
    delete held;
  });
}

moonlet_status moonlet_program_counts(moonlet_program program, size_t* inputs, size_t* outputs) {
  return with_program(program, __func__, [&](const Program& p) {
    give(inputs, p.inputs().size());
    give(outputs, p.outputs().size());
  });
}

moonlet_status moonlet_program_input(moonlet_program program, size_t position,
                                     moonlet_end_info* info) {
  const char* function = __func__;
  return with_program(program, function,
                      [&](const Program& p) { give_end(p.inputs(), position, info, function); });
}

moonlet_status moonlet_program_output(moonlet_program program, size_t position,
                                      moonlet_end_info* info) {
  const char* function = __func__;
  return with_program(program, function,
                      [&](const Program& p) { give_end(p.outputs(), position, info, function); });
}

moonlet_status moonlet_program_text(moonlet_program program, const char** text) {
  return with_program(program, __func__,
                      [&](const Program& p) { give(text, give_text(p.describe())); });
}

moonlet_status moonlet_program_parameter(moonlet_program program, const char* name,
                                         moonlet_tensor* tensor) {
  const char* function = __func__;
  return with_program(program, function, [&](const Program& p) {
    const std::string_view wanted = text_in(name, function, "name");
    for (const auto& [key, value] : p.parameters())
      if (key == wanted) return give(tensor, value);
    moonlet::fail(function, ": there is no parameter '", wanted, "'");
  });
}

moonlet_status moonlet_program_set_parameter(moonlet_program program, const char* name,
                                             moonlet_tensor tensor) {
  const char* function = __func__;
  return with_program(program, function, [&](Program& p) {
    p.set_parameter(std::string(text_in(name, function, "name")),
                    *TensorIn(tensor, function, "tensor"));
  });
}

moonlet_status moonlet_context_new(moonlet_program program, moonlet_context* context) {
  const char* function = __func__;
  return with_program(program, function, [&](const Program& p) {
    not_null(context, function, "context");
    auto running = std::make_unique<Running>(p);
    *context = static_cast<moonlet_context>(new_handle(HandleKind::Context, running.get()));
    static_cast<void>(running.release());
  });
}

moonlet_status moonlet_context_free(moonlet_context context) {
  const char* function = __func__;
  return guarded([&] {
    auto& running = object_of<Running>(context, HandleKind::Context, function, "context");
    {
      const Busy busy(running.busy);
      if (release_handle(context, HandleKind::Context) == nullptr)
        refuse_handle(function, "context", context, HandleKind::Context);
    }
    delete &running;
  });
}

moonlet_status moonlet_context_run(moonlet_context context, const moonlet_buffer* inputs,
                                   size_t input_count, const moonlet_buffer* outputs,
                                   size_t output_count) {
  const char* function = __func__;
  return guarded([&] {
    auto& running = object_of<Running>(context, HandleKind::Context, function, "context");
    const Busy busy(running.busy);
    read_buffers(inputs, input_count, running.inputs, function, "inputs");
    read_buffers(outputs, output_count, running.outputs, function, "outputs");
    running.context.run(running.inputs, running.outputs);
  });
}

moonlet_status moonlet_context_run_tensors(moonlet_context context, const moonlet_tensor* inputs,
                                           size_t input_count, moonlet_tensor* outputs,
                                           size_t output_count) {
  const char* function = __func__;
  return guarded([&] {
    auto& running = object_of<Running>(context, HandleKind::Context, function, "context");
    const Busy busy(running.busy);
    if (output_count < running.outputs.size())
      refuse(function, ": 'outputs': expected room for ", running.outputs.size(), ", got ",
             output_count);
    if (input_count > 0) not_null(inputs, function, "inputs");
    if (!running.outputs.empty()) not_null(outputs, function, "outputs");
    std::vector<Tensor> in(input_count), out;
    for (size_t i = 0; i < input_count; ++i) in[i] = *TensorIn(inputs[i], function, "inputs");
    running.context.run(in, out);
    give_all(out, outputs);
  });
}
