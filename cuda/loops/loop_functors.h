// cuda/loops/loop_functors.h: the functors of pointwise ops by the ops' names. The table is
// generated from the rows.
#pragma once

namespace moonlet::cuda::loops {

struct Functor {
  const char* op;
  const char* name;    // in moonlet::functors
  const char* header;  // that has it beside functors-inl.h, or null
  int inputs, params;
  const char* types;  // what it computes in: letters of F(loats), I(ntegers), C(omplex)
  bool divides;       // integers, where a zero is an error
};
extern const Functor kFunctors[];
extern const int kFunctorCount;

}  // namespace moonlet::cuda::loops
