// tests/cpp/recorded_function.h: functions as programs with gradients, compared with eager code.
#pragma once

#include "tests/cpp/catch2.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/program/recorded_program.h"
#include "autograd/tape.h"
#include "tensor/runtime/random_generator.h"
#include "tests/cpp/messages.h"

namespace moonlet::recorded {

using program::Capture;
using program::CaptureScope;
using program::RecordedProgram;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

inline void seed(uint64_t number) { default_generator().manual_seed(number); }

inline Tensor random(const Dims& sizes, double scale = 1, DType dtype = DType::Float32) {
  return detach(mul(randn(sizes, nullptr, {dtype, {}}), scale));
}
inline Tensor leaf(const Dims& sizes, double scale = 1, DType dtype = DType::Float32) {
  Tensor t = random(sizes, scale, dtype);
  set_requires_grad(t, true);
  return t;
}
inline Tensor integers(std::vector<int64_t> values, const Dims& sizes) {
  Tensor t = empty_plain(sizes, {DType::Int64, {}});
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

// Whether all bits are the same.
inline bool same(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  const NoGrad no_grad;
  const Tensor x = contiguous(detach(a)), y = contiguous(detach(b));
  return std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

// Captures a call of f; null and the reason where it is refused.
inline std::shared_ptr<RecordedProgram> try_record(const Function& f, const Tensors& inputs,
                                                   std::string& reason,
                                                   bool through_hooks = false) {
  Capture capture;
  for (const Tensor& t : inputs) capture.add_input(t);
  Tensors results;
  {
    const CaptureScope scope(capture);
    results = f(inputs);
  }
  REQUIRE(capture.stopped().value_or("") == "");
  auto graphs = program::trace_backward(capture, results, reason, through_hooks);
  return graphs ? RecordedProgram::make(std::move(*graphs)) : nullptr;
}
inline std::shared_ptr<RecordedProgram> record(const Function& f, const Tensors& inputs) {
  std::string reason;
  auto made = try_record(f, inputs, reason);
  INFO(reason);
  REQUIRE(made != nullptr);
  return made;
}
inline std::string refusal(const Function& f, const Tensors& inputs) {
  std::string reason;
  CHECK(try_record(f, inputs, reason) == nullptr);
  return reason;
}

inline Function compiled(const std::shared_ptr<RecordedProgram>& program) {
  return [program](const Tensors& inputs) {
    Tensors outputs;
    program->run(inputs, outputs);
    return outputs;
  };
}

// A number that depends on each element of all results that have gradients.
inline Tensor loss_of(const Tensors& results) {
  Tensor total;
  double weight = 1;
  for (const Tensor& t : results) {
    if (!t.requires_grad()) continue;
    const Tensor steps = reshape(
        detach(arange(Scalar(t.numel()), std::nullopt, 1, t.dtype(), t.device())), t.sizes());
    const Tensor part = sum(mul(t, add(mul(sin(steps), weight), 0.5)));
    total = total.defined() ? add(total, part) : part;
    weight += 0.25;
  }
  return total;
}

struct Outcome {
  Tensors results, gradients, buffers;
};

// Runs f with the numbers of one seed, and its backward. Buffers begin as they are, and end so.
inline Outcome outcome(const Function& f, const Tensors& inputs, Tensors leaves, Tensors buffers) {
  const NoGrad outside;
  Tensors before;
  for (const Tensor& t : buffers) before.push_back(clone(t));
  for (Tensor& t : leaves) set_grad(t, Tensor());
  seed(7);
  Outcome out;
  {
    const GradModeGuard on(true);
    out.results = f(inputs);
    backward(loss_of(out.results));
  }
  for (Tensor& t : leaves) {
    out.gradients.push_back(grad_of(t).defined() ? clone(grad_of(t)) : Tensor());
    set_grad(t, Tensor());
  }
  for (Tensor& t : out.results) t = clone(detach(t));
  for (size_t i = 0; i < buffers.size(); ++i) {
    out.buffers.push_back(clone(buffers[i]));
    copy_(buffers[i], before[i]);
  }
  return out;
}

inline void check_same(const Outcome& a, const Outcome& b) {
  REQUIRE(a.results.size() == b.results.size());
  for (size_t i = 0; i < a.results.size(); ++i) {
    INFO("result " << i);
    CHECK(same(a.results[i], b.results[i]));
  }
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    INFO("leaf " << i);
    CHECK(same(a.gradients[i], b.gradients[i]));
  }
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    INFO("buffer " << i);
    CHECK(same(a.buffers[i], b.buffers[i]));
  }
}

// Results, gradients of the leaves, and buffers that f changes are those of eager code, twice.
inline std::shared_ptr<RecordedProgram> check_as_eager(const Function& f, const Tensors& inputs,
                                                       const Tensors& leaves,
                                                       const Tensors& buffers = {}) {
  const Outcome eager = outcome(f, inputs, leaves, buffers);
  bool some = false;
  for (const Tensor& g : eager.gradients) some = some || g.defined();
  CHECK(some);
  Tensors before;
  for (const Tensor& t : buffers) before.push_back(clone(t));
  const auto program = record(f, inputs);
  for (size_t i = 0; i < buffers.size(); ++i) {
    Tensor t = buffers[i];
    copy_(t, before[i]);
  }
  for (int round = 0; round < 2; ++round)
    check_same(eager, outcome(compiled(program), inputs, leaves, buffers));
  return program;
}

// Gradients of a function of the gradients.
inline Tensors second_gradients(const Function& f, const Tensors& inputs, Tensors leaves) {
  seed(7);
  const Tensor loss = loss_of(f(inputs));
  const Tensors first = grad({loss}, leaves, {}, true, true, true);
  Tensor total;
  for (const Tensor& g : first) {
    if (!g.defined() || !g.requires_grad()) continue;
    const Tensor part = sum(mul(mul(g, g), 0.5));
    total = total.defined() ? add(total, part) : part;
  }
  REQUIRE(total.defined());
  return grad({total}, leaves, {}, false, false, true);
}

inline void check_second(const Function& f, const Tensors& inputs, const Tensors& leaves) {
  const Tensors eager = second_gradients(f, inputs, leaves);
  const auto program = record(f, inputs);
  const Tensors found = second_gradients(compiled(program), inputs, leaves);
  for (size_t i = 0; i < eager.size(); ++i) {
    INFO("leaf " << i);
    REQUIRE(eager[i].defined() == found[i].defined());
    if (!eager[i].defined()) continue;
    const Tensor apart = max(abs(sub(eager[i], found[i])));
    CHECK(*apart.data<double>() <= 1e-12 * (1 + *max(abs(eager[i])).data<double>()));
  }
}

}  // namespace moonlet::recorded
