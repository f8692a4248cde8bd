// tensor/core/left_out.h: what stands for ops that a build of chosen ops has not (the option ops).
#pragma once

namespace moonlet {

// Throws Error: there is no such op, and what to build so that there is.
[[noreturn]] void op_left_out(const char* op);

}  // namespace moonlet
