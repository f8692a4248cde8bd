// tensor/program/apart.h: what runs together in a plan, what runs by itself, and why.
#pragma once

#include <string>
#include <vector>

#include "tensor/program/plan.h"

namespace moonlet::program {

// A line for the ops of each loop or strip, with how often where it is more than once. Of a strip
// the loops are in brackets, and it says how many rows run at once:
//   mul add tanh
//   (mul add) softmax (mul), 512 of 4000 rows at once
std::vector<std::string> fused_of(const Plan& plan);

// A line for each op and reason, with how often where it is more than once:
//   mm x2: a product, by a kernel of its own
//   sum: over other than the last dimensions, in an order that depends on all rows
std::vector<std::string> apart_of(const Plan& plan);

}  // namespace moonlet::program
