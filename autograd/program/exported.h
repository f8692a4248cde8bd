// autograd/program/exported.h: programs that carry their backward pass: made of a captured run,
// kept as text beside the graph of the forward pass, and read again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/program/recorded_program.h"
#include "tensor/program/program_data.h"

namespace moonlet::program {

// What a program with gradients is made of.
struct Exported {
  Graph graph;            // the forward pass; its outputs are the function's results
  std::string gradients;  // ProgramData::gradients
};

// While a function is captured: its results as tensors of their own, where they are views or
// share memory with what it was given or with each other.
std::vector<Tensor> results_apart(Capture& capture, std::span<const Tensor> results);

// Of one captured run, as for trace_backward; `results` are on memory that the function has made,
// each on its own. Throws Error "export: ..." for what has no backward pass that a file can hold.
Exported export_gradients(Capture& capture, std::span<const Tensor> results);

// The program that is recorded on the tape when it runs, on these parameters, one for each of the
// graph's. The text may come from anybody: throws Error where it does not fit the graph.
std::shared_ptr<RecordedProgram> program_with_gradients(const ProgramData& data,
                                                        std::vector<Tensor> parameters);

// Whether gradients of the parameters are among those that it computes, by position.
std::vector<bool> parameters_with_gradients(const RecordedGraphs& graphs);

}  // namespace moonlet::program
