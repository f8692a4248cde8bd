// interp/binding/boxed_argument.cpp: see boxed_argument.h.
#include "interp/binding/boxed_argument.h"

#include "tensor/core/boxing.h"

namespace moonlet::binding {

BoxedValue boxed_argument(ArgReader& args, int i, ArgType type) {
  switch (type) {
    case ArgType::Tensor:
    case ArgType::OptionalTensor: return args.tensor(i);
    case ArgType::TensorList: return args.tensors(i);
    case ArgType::Operand: return boxing::box(args.operand(i));
    case ArgType::Scalar: return args.scalar(i);
    case ArgType::Int: return args.integer(i);
    case ArgType::IntList: return args.ints(i);
    case ArgType::IntVector: return args.integers(i);
    case ArgType::Float: return args.number(i);
    case ArgType::FloatVector: return args.numbers(i);
    case ArgType::Bool: return args.boolean(i);
    case ArgType::String: return std::string(args.string(i));
    case ArgType::Dim: return args.dim(i);
    case ArgType::DimList: return args.dims(i);
    case ArgType::Index: return args.index(i);
    case ArgType::IndexVector: return args.indices(i);
    case ArgType::DType: return args.dtype(i);
    case ArgType::Device: return args.device(i);
    case ArgType::MemoryFormat: return args.memory_format(i);
    default: return {};
  }
}

}  // namespace moonlet::binding
