// tensor/program/fusion/loop.cpp: loops as text.
#include "tensor/program/fusion/loop.h"

#include <sstream>

namespace moonlet::program {

namespace {

void write_source(std::ostream& out, const Loop& loop, Loop::Source source) {
  if (source.kind == Loop::Source::Load)
    out << 'x' << source.index;
  else if (source.kind == Loop::Source::Op)
    out << 't' << source.index;
  else
    out << text(loop.numbers[source.index]);
}

void write_memory(std::ostream& out, const Loop& loop, const Loop::Memory& memory) {
  out << " : " << text(memory.dtype) << ' ' << text(Dims(memory.strides, loop.ndim));
  if (memory.offset != 0) out << " + " << memory.offset;
}

void write_op(std::ostream& out, const Loop& loop, const Loop::Op& op) {
  out << (op.op ? op.op->name : "copy") << '(';
  for (int k = 0; k < op.inputs; ++k) {
    if (k > 0) out << ", ";
    write_source(out, loop, op.in[k]);
  }
  for (int k = 0; k < op.param_count; ++k) out << ", " << text(loop.params[op.first_param + k]);
  out << ") : " << text(op.dtype);
  if (op.op && op.compute != op.dtype) out << " in " << text(op.compute);
}

}  // namespace

std::string to_string(const Loop& loop) {
  std::ostringstream out;
  out << "loop " << text(Dims(loop.sizes, loop.ndim)) << '\n';
  for (size_t i = 0; i < loop.loads.size(); ++i) {
    out << 'x' << i << " = load " << loop.loads[i].slot;
    write_memory(out, loop, loop.loads[i]);
    out << '\n';
  }
  for (size_t i = 0; i < loop.ops.size(); ++i) {
    out << 't' << i << " = ";
    write_op(out, loop, loop.ops[i]);
    out << '\n';
  }
  for (const Loop::Store& store : loop.stores) {
    out << "store t" << store.op << " to " << store.to.slot;
    write_memory(out, loop, store.to);
    out << '\n';
  }
  return out.str();
}

}  // namespace moonlet::program
