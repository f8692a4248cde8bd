// tensor/program/jit/loop_trace.cpp: ops traced one by one, with the conversions between them.
#include "tensor/program/jit/loop_trace.h"

#include <bit>

#include "tensor/core/dispatch.h"
#include "tensor/core/raw_op.h"
#include "tensor/kernels.h"

namespace moonlet::program::jit {

namespace {

bool is_whole(DType dtype) {
  return dtype == DType::Int64 || dtype == DType::Int32 || dtype == DType::Int16 ||
         dtype == DType::Int8 || dtype == DType::UInt8;
}
bool is_single(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16;
}

class LoopTracer {
 public:
  LoopTracer(const Loop& loop, Target target, Body& body)
      : loop_(loop), target_(target), body_(body), to_(body.trace) {}

  bool run() {
    body_.target = target_;
    for (const Loop::Memory& each : loop_.loads) {
      if (!add_load(each)) return false;
    }
    for (const Loop::Op& op : loop_.ops)
      if (!add_op(op)) return false;
    std::vector<int> results;
    for (const Loop::Store& store : loop_.stores) results.push_back(ops_[store.op]);
    to_.drop_dead(results);
    for (size_t i = 0; i < results.size(); ++i) {
      const Loop::Memory& memory = loop_.stores[i].to;
      body_.stores.push_back(operand(memory));
      body_.stores.back().node = results[i];
    }
    return !to_.refused();
  }

 private:
  Operand operand(const Loop::Memory& memory) const {
    return {memory.dtype, {memory.strides[0], loop_.ndim > 1 ? memory.strides[1] : 0}, -1};
  }

  bool add_load(const Loop::Memory& memory) {
    const bool is_bool = memory.dtype == DType::Bool;
    if (!is_bool && !is_single(memory.dtype) && memory.dtype != DType::Float64 &&
        !is_whole(memory.dtype))
      return false;
    const int index = static_cast<int>(body_.loads.size());
    const int size = is_bool || is_single(memory.dtype) ? 4 : 8;
    body_.loads.push_back(operand(memory));
    loads_.push_back(to_.add(is_bool ? Code::MaskLoad : Code::Load, size, -1, -1, -1, index));
    return true;
  }

  int floating(double value, int size) {
    return to_.constant(size, size == 4 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                        : std::bit_cast<uint64_t>(value));
  }
  int number(const Scalar& value, DType compute) {
    if (compute == DType::Float32)
      return to_.constant(4, std::bit_cast<uint32_t>(value.to<float>()));
    if (compute == DType::Float64)
      return to_.constant(8, std::bit_cast<uint64_t>(value.to<double>()));
    return to_.constant(8, static_cast<uint64_t>(value.to<int64_t>()));
  }

  // A value as kernels compute with it, or -1.
  int converted(int node, DType from, DType compute) {
    const int size = compute == DType::Float32 ? 4 : 8;
    if (from == DType::Bool) {
      if (compute == DType::Int64)
        return to_.add(Code::Select, 8, node, to_.constant(8, 1), to_.constant(8, 0));
      return to_.add(Code::Select, size, node, floating(1, size), floating(0, size));
    }
    if (is_whole(from))
      return compute == DType::Int64 ? node : to_.add(Code::IntToFloat, size, node);
    if (compute == DType::Int64) return -1;
    const bool is_wide = from == DType::Float64;
    if (is_wide == (compute == DType::Float64)) return node;
    return to_.add(is_wide ? Code::Narrow : Code::Widen, size, node);
  }

  // As the bits of a bfloat16 and zeros: rounded to nearest even, but NaN.
  int rounded_to_bfloat16(int x) {
    const int last =
        to_.add(Code::And, 4, to_.add(Code::ShiftRight, 4, x, -1, -1, 16), to_.constant(4, 1));
    const int up =
        to_.add(Code::IntAdd, 4, to_.add(Code::IntAdd, 4, x, to_.constant(4, 0x7fff)), last);
    const int quiet = to_.add(Code::Or, 4, x, to_.constant(4, 0x400000));
    const int all = to_.add(Code::Select, 4, to_.add(Code::Equal, 4, x, x), up, quiet);
    return to_.add(Code::And, 4, all, to_.constant(4, 0xffff0000u));
  }

  // A result as it would be read back from memory, or -1.
  int stored(int node, DType compute, DType dtype) {
    if (compute == dtype) return node;
    if (dtype == DType::Bool) {
      const bool floats = compute != DType::Int64;
      const int size = compute == DType::Float32 ? 4 : 8;
      const int zero =
          to_.add(floats ? Code::Equal : Code::IntEqual, size, node, to_.constant(size, 0));
      return to_.add(Code::MaskNot, to_[zero].size, zero);
    }
    if (compute == DType::Int64) return -1;
    if (compute == DType::Float64 && is_single(dtype)) node = to_.add(Code::Narrow, 4, node);
    if (dtype == DType::Float64) return to_.add(Code::Widen, 8, node);
    if (dtype == DType::Float16) return to_.add(Code::RoundToHalf, 4, node);
    if (dtype == DType::BFloat16) return rounded_to_bfloat16(node);
    return dtype == DType::Float32 ? node : -1;
  }

  int source(Loop::Source from) const {
    return from.kind == Loop::Source::Load ? loads_[from.index] : ops_[from.index];
  }

  // The input itself in another dtype.
  bool add_copy(const Loop::Op& op) {
    const DType way = is_single(op.dtype)       ? DType::Float32
                      : is_whole(op.dtype)      ? DType::Int64
                      : op.dtype == DType::Bool ? DType::Bool
                                                : DType::Float64;
    const Loop::Source from = op.in[0];
    int node = -1;
    if (from.kind == Loop::Source::Number) {
      const DType compute = way == DType::Bool ? DType::Float64 : way;
      if (is_whole(op.dtype) && op.dtype != DType::Int64) return false;
      node = stored(number(loop_.numbers[from.index], compute), compute, op.dtype);
    } else {
      const DType dtype = loop_.dtype_of(from);
      node = source(from);
      if (dtype != op.dtype) {
        if (is_whole(op.dtype) && op.dtype != DType::Int64) return false;
        // Rounded once.
        if (dtype == DType::Float64 && is_single(op.dtype) && op.dtype != DType::Float32)
          return false;
        if (way == DType::Bool) {
          const DType compute = is_whole(dtype)    ? DType::Int64
                                : is_single(dtype) ? DType::Float32
                                                   : DType::Float64;
          node = stored(node, compute, DType::Bool);
        } else {
          node = converted(node, dtype, way);
          if (node >= 0) node = stored(node, way, op.dtype);
        }
      }
    }
    ops_.push_back(node);
    return node >= 0;
  }

  // A value as the functor's own trace sees it: numbers too are unknown there, as they are to the
  // C++ compiler, and what two arguments share is one.
  static int argument(Trace& own, int size, std::vector<int>& inputs, int node) {
    int known = 0;
    while (known < static_cast<int>(inputs.size()) && inputs[known] != node) ++known;
    if (known == static_cast<int>(inputs.size())) inputs.push_back(node);
    return own.add(Code::Load, size, -1, -1, -1, known);
  }

  bool add_op(const Loop::Op& op) {
    if (!op.op) return add_copy(op);
    const TracedOp* traced = find_traced_op(target_, op.op->name);
    const TracedOp::Run run = traced ? traced->for_compute(op.compute) : nullptr;
    if (!run || traced->inputs != op.inputs || traced->params != op.param_count) return false;
    // Powers of numbers only: of a tensor of them kernels look at all.
    const bool is_power = std::string_view(op.op->name) == "pow";
    if (is_power && op.in[1].kind != Loop::Source::Number) return false;

    Trace own;
    std::vector<int> inputs, arguments(static_cast<size_t>(op.inputs + op.param_count));
    const int size = op.compute == DType::Float32 ? 4 : 8;
    for (int k = 0; k < op.param_count; ++k)
      arguments[op.inputs + k] =
          argument(own, size, inputs, number(loop_.params[op.first_param + k], op.compute));
    // From the last to the first, as GCC evaluates arguments: Trace::contract() has an order.
    for (int k = op.inputs - 1; k >= 0; --k) {
      const Loop::Source from = op.in[k];
      const int node = from.kind == Loop::Source::Number
                           ? number(loop_.numbers[from.index], op.compute)
                           : converted(source(from), loop_.dtype_of(from), op.compute);
      if (node < 0) return false;
      arguments[k] = is_power && k == 1 ? own.constant(size, to_[node].bits)
                                        : argument(own, size, inputs, node);
    }
    tracing = &own;
    const int result = run(arguments.data());
    tracing = nullptr;
    if (own.refused()) return false;
    if (kernels_contract() && op.compute != DType::Int64) own.contract({result});
    ops_.push_back(stored(to_.append(own, result, inputs), op.compute, op.dtype));
    return ops_.back() >= 0;
  }

  const Loop& loop_;
  const Target target_;
  Body& body_;
  Trace& to_;
  std::vector<int> loads_, ops_;
};

}  // namespace

bool trace_loop(const Loop& loop, Target target, Body& body) {
  return LoopTracer(loop, target, body).run();
}

// With x the rounded square of 1 + 2^-20, x - (1 + 2^-20)^2 is 0 if the square is rounded first.
bool kernels_contract() {
  static const bool answer = [] {
    const RawOp* op = find_raw_op("sub_scaled");
    if (!op || !op->pointwise) return false;
    const float near = 1 + 0x1p-20f;
    float x = near * near, other = near, y = 0;
    const Scalar alpha(static_cast<double>(near));
    PointwisePlan plan;
    plan.ndim = 1;
    plan.sizes[0] = plan.numel = 1;
    plan.inputs = 2;
    plan.compute = DType::Float32;
    plan.device = Device();
    plan.flat = plan.direct = true;
    plan.params = &alpha;
    plan.param_count = 1;
    plan.op = op->name;
    float* const memory[] = {&y, &x, &other};
    PointwiseArg* const args[] = {&plan.out, &plan.in[0], &plan.in[1]};
    for (int k = 0; k < 3; ++k) {
      args[k]->data = reinterpret_cast<char*>(memory[k]);
      args[k]->scalar = nullptr;
      args[k]->dtype = DType::Float32;
      args[k]->strides[0] = sizeof(float);
    }
    const PointwiseOp* pointwise = op->pointwise;
    kernels_for(DeviceType::CPU, op->name).pointwise_ops[pointwise->family][pointwise->index](plan);
    return y != 0;
  }();
  return answer;
}

}  // namespace moonlet::program::jit
