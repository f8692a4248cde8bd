// tensor/program/dynamic_argument.h: the integers among the arguments of nodes, alone or in lists,
// and which of them follow sizes.
#pragma once

#include <optional>
#include <vector>

#include "tensor/program/program_data.h"

namespace moonlet::program {

// The integer of an argument, or of an element of a list; nothing where there is none. A Scalar
// that is an integer counts.
std::optional<int64_t> integer_in(const Argument& argument, int32_t element);
// How many elements a list of integers has; kNone for another argument.
int32_t element_count(const Argument& argument);
// Replaces one that integer_in finds.
void set_integer(Argument& argument, int32_t element, int64_t value);
// constant + the sum of factors times sizes.
int64_t value_of(const DynamicArgument& argument, const std::vector<int64_t>& sizes);
// Whether two arguments that hold no integers, or the same, are alike.
bool is_same(const Argument& a, const Argument& b);

}  // namespace moonlet::program
