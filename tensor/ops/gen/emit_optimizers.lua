-- tensor/ops/gen/emit_optimizers.lua: what is compiled of the rows of tensor/functors/optimizers.lua:
-- `steps`, the numbers of each step; `updates`, what a step does to one element of vectors and on
-- CUDA; `kernels`, from an op's arguments to its step, the same on all devices; `checks`, the shape
-- functions.

local cpptext = require "tensor.ops.gen.cpptext"
local optimizers = require "tensor.ops.gen.optimizers"
local template = require "tensor.ops.gen.template"
local fill = template.fill

local function camel(row) return (row.name:gsub("^%l", string.upper)) end

local steps_file = [[
// tensor/optim_steps.h: generated from tensor/functors/optimizers.lua: the numbers of each
// optimiser's step.
#pragma once

#include "tensor/functors/optim_number.h"

namespace moonlet::optim {

$structs

// All steps: X(name).
#define MOONLET_OPTIM_STEPS(X) \
  $list

inline constexpr int kMostStates = $most;
// The parameter, the gradient and the states of one tensor.
inline constexpr int kMostArrays = 2 + kMostStates;

}  // namespace moonlet::optim
]]

local struct = [[
struct $step {
  static constexpr int kStates = $states;
  $fields
};
]]

-- The fields of a step's numbers in order: what is declared, and the value that a kernel gives.
local function fields_of(row)
  local declared, values = {}, {}
  for _, arg in ipairs(optimizers.arguments(row)) do
    declared[#declared + 1] = ("%s %s;"):format(arg.flag and "bool" or "Number", arg.name)
    values[#values + 1] = arg.flag and arg.name or ("{%s}"):format(arg.name)
  end
  for _, state in ipairs(row.states) do
    if state.option then
      declared[#declared + 1] = ("bool has_%s;"):format(state[1])
      values[#values + 1] = ("!%s.empty()"):format(state[1])
    end
  end
  return declared, values
end

local function steps()
  local structs, list, most = {}, {}, 0
  for i, row in ipairs(optimizers.rows) do
    structs[i] = fill(struct, { step = camel(row), states = tostring(#row.states), fields = (fields_of(row)) })
    list[i] = ("X(%s)"):format(camel(row))
    most = math.max(most, #row.states)
  end
  return fill(steps_file, { structs = structs, list = table.concat(list, " \\\n"), most = tostring(most) })
end

local updates_file = [[
// tensor/optim_updates-inl.h: generated from tensor/functors/optimizers.lua: what each step does to
// one element. tensor/functors/optim_math-inl.h includes it, once for each instruction set.

$updates
]]

local update = [[
template <class V>
MOONLET_STEP_FN void update(const optim::$step& c, V& x, V g, V* s) {
  $names
  $lines
}
]]

local function update_of(row)
  local lines, used = optimizers.update(row)
  local names = {}
  for _, arg in ipairs(optimizers.arguments(row)) do
    if used[arg.name] then
      names[#names + 1] = ("const %s %s = c.%s;"):format(arg.flag and "bool" or "Number", arg.name, arg.name)
    end
  end
  for i, state in ipairs(row.states) do names[#names + 1] = ("V& %s = s[%d];"):format(state[1], i - 1) end
  return fill(update, { step = camel(row), names = names, lines = lines })
end

local function updates()
  local out = {}
  for i, row in ipairs(optimizers.rows) do out[i] = update_of(row) end
  return fill(updates_file, { updates = out })
end

-- The op of each row, and the text that `write` makes of both.
local function for_ops(all_rows, write)
  local by_name, out = {}, {}
  for _, op in ipairs(all_rows) do by_name[op.name] = op end
  for i, row in ipairs(optimizers.rows) do out[i] = write(row, by_name[row.name .. "_step"]) end
  return out
end

local kernels_file = [[
// tensor/optim_kernels-inl.h: generated from tensor/functors/optimizers.lua: the kernels of the
// optimisers' steps. Included once for each device inside the namespace of its kernels, after a
// function template `run_step(op, lists, step)`.

$kernels
]]

local kernel = [[
void $op($parameters) {
  run_step("$op", {&x, &gradient, $states}, optim::$step{$values});
}
]]

local function kernels(all_rows)
  return fill(kernels_file, { kernels = for_ops(all_rows, function(row, op)
    local states, _, values = {}, fields_of(row)
    for i, state in ipairs(row.states) do states[i] = "&" .. state[1] end
    return fill(kernel, { op = op.name, parameters = cpptext.parameters(op, { below = true }),
      states = table.concat(states, ", "), step = camel(row), values = table.concat(values, ", ") })
  end) })
end

local checks_file = [[
// tensor/optim_checks-inl.h: generated from tensor/functors/optimizers.lua: the shape functions of
// the optimisers' steps, after the function `check_lists` of tensor/shapes/optim.cpp.

$checks
]]

local check = [[
void $op($parameters) {
  $conditions
  check_lists("$op", x, {$wanted}, {$optional});
}
]]

local condition = 'check(%s == 0 || !%s.empty(), "%s: %s is %s, so a %s is expected, got none");'

local function check_of(row, op)
  local wanted, optional, conditions = { '{"gradient", &gradient}' }, {}, {}
  local named = { x = true, gradient = true }
  for _, state in ipairs(row.states) do
    local name = state[1]
    table.insert(state.option and optional or wanted, ('{"%s", &%s}'):format(name, name))
    named[name] = true
    if op.arg[state.option] then
      named[state.option] = true
      conditions[#conditions + 1] = condition:format(state.option, name, op.name, state.option,
        ('", %s, "'):format(state.option), name)
    end
  end
  local parameters = {}
  for i, arg in ipairs(op.args) do parameters[i] = arg.info.below .. (named[arg.name] and " " .. arg.name or "") end
  return fill(check, { op = op.name, parameters = table.concat(parameters, ", "), conditions = conditions,
    wanted = table.concat(wanted, ", "), optional = table.concat(optional, ", ") })
end

local function checks(all_rows) return fill(checks_file, { checks = for_ops(all_rows, check_of) }) end

local files = { steps = steps, updates = updates, kernels = kernels, checks = checks }

-- The file of that name.
return function(_, file, all_rows) return template.short_lines(files[file](all_rows)) .. "\n" end
