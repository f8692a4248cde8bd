// tensor/program/program_text.h: programs as texts for people.
#pragma once

#include <string>
#include <vector>

#include "tensor/program/plan.h"
#include "tensor/program/program.h"
#include "tensor/program/program_data.h"

namespace moonlet::program {

std::vector<std::string> ops_of(const Graph& graph);
std::string dot_of(const ProgramData& data);
std::string description_of(const Program& program, const Plan& plan);

}  // namespace moonlet::program
