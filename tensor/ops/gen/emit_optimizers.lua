-- tensor/ops/gen/emit_optimizers.lua: what is compiled of the rows of tensor/functors/optimizers.lua:
-- `steps`, the numbers of each step and how they follow from options and counts; `updates`, what a
-- step does to one element of vectors and on CUDA; `kernels`, from an op's arguments to its step, the
-- same on all devices; `checks`, the shape functions.

local cpptext = require "tensor.ops.gen.cpptext"
local optimizers = require "tensor.ops.gen.optimizers"
local template = require "tensor.ops.gen.template"
local fill = template.fill

local function camel(row) return (row.name:gsub("^%l", string.upper)) end

local steps_file = [[
// tensor/optim_steps.h: generated from tensor/functors/optimizers.lua: the numbers of each
// optimiser's step, and how they follow from what is given and what is counted.
#pragma once

#include "tensor/functors/optim_number.h"

namespace moonlet::optim {

$structs

// Goes on by a step: its numbers, and the counts after it. What is given is in the order of the op.
$advances

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
  static constexpr int kStates = $states, kCounts = $counts, kGiven = $given;
  $fields
};
]]

local advance = [=[
MOONLET_HD void advance($step& now, const double* given, [[maybe_unused]] bool decoupled,
                        [[maybe_unused]] double* counts) {
  $given
  $declared
  $lines
  $out
}
]=]

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

local decouple = {
  "if (decoupled) {",
  "  keep = 1 - lr * weight_decay;",
  "  weight_decay = 0;",
  "}",
}

-- What `advance` is given: its lines, their count, the names in it and whether a flag chooses how the
-- weights decay.
local function given_of(row)
  local lines, names, decoupled = {}, {}, false
  for _, arg in ipairs(optimizers.given(row)) do
    decoupled = decoupled or arg.name == "decoupled"
    if not arg.flag then
      names[arg.name] = true
      lines[#lines + 1] = ("double %s = given[%d];"):format(arg.name, #lines)
    end
  end
  return lines, #lines, names, decoupled
end

local function advance_of(row)
  local given, _, known, decoupled = given_of(row)
  local lines, declared, out = optimizers.numbers(row), {}, {}
  for i, name in ipairs(optimizers.counted(row)) do
    declared[#declared + 1] = ("double %s = counts[%d]%s;"):format(name, i - 1, name == "step" and " + 1" or "")
    out[#out + 1] = ("counts[%d] = %s;"):format(i - 1, name)
  end
  for _, arg in ipairs(optimizers.arguments(row)) do
    if not arg.flag then
      if not known[arg.name] then
        declared[#declared + 1] = ("double %s%s;"):format(arg.name, arg.name == "keep" and " = 1" or "")
      end
      out[#out + 1] = ("now.%s = {%s};"):format(arg.name, arg.name)
    end
  end
  if decoupled then table.move(decouple, 1, #decouple, #declared + 1, declared) end
  return fill(advance, { step = camel(row), given = given,
    declared = declared, lines = lines, out = out })
end

local function steps()
  local structs, advances, list, most = {}, {}, {}, 0
  for i, row in ipairs(optimizers.rows) do
    local _, given = given_of(row)
    structs[i] = fill(struct, { step = camel(row), states = tostring(#row.states), fields = (fields_of(row)),
      counts = tostring(#optimizers.counted(row)), given = tostring(given) })
    advances[i] = advance_of(row)
    list[i] = ("X(%s)"):format(camel(row))
    most = math.max(most, #row.states)
  end
  return fill(steps_file, { structs = structs, advances = advances, list = table.concat(list, " \\\n"),
    most = tostring(most) })
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

-- The ops of each row, and the text that `write` makes of both.
local function for_ops(all_rows, write)
  local by_name, out = {}, {}
  for _, op in ipairs(all_rows) do by_name[op.name] = op end
  for _, row in ipairs(optimizers.rows) do
    out[#out + 1] = write(row, by_name[row.name .. "_step"], false)
    out[#out + 1] = write(row, by_name[row.name .. "_capturable_step"], true)
  end
  return out
end

local kernels_file = [[
// tensor/optim_kernels-inl.h: generated from tensor/functors/optimizers.lua: the kernels of the
// optimisers' steps. Included once for each device inside the namespace of its kernels, after the
// function templates `run_step(op, lists, step)` and `run_capturable_step(op, lists, counts, source)`.

$kernels
]]

local kernel = [[
void $op($parameters) {
  run_step("$op", {&x, &gradient, $states}, optim::$step{$values});
}
]]

local capturable_kernel = [[
void $op($parameters) {
  run_capturable_step("$op", {&x, &gradient, $states}, {$counts},
      optim::StepSource<optim::$step>{optim::$step{$values}, {$numbers}, given, $decoupled, found_inf});
}
]]

local function kernels(all_rows)
  return fill(kernels_file, { kernels = for_ops(all_rows, function(row, op, capturable)
    local states, counts, numbers, _, values = {}, {}, {}, fields_of(row)
    for i, state in ipairs(row.states) do states[i] = "&" .. state[1] end
    for i, name in ipairs(optimizers.counted(row)) do counts[i] = "&" .. name end
    for i, arg in ipairs(optimizers.arguments(row)) do
      if capturable and not arg.flag then values[i] = "{}" end
    end
    local _, _, _, decoupled = given_of(row)
    for _, arg in ipairs(optimizers.given(row)) do
      if not arg.flag then numbers[#numbers + 1] = arg.name end
    end
    return fill(capturable and capturable_kernel or kernel, { op = op.name,
      parameters = cpptext.parameters(op, { below = true }), states = table.concat(states, ", "),
      step = camel(row), values = table.concat(values, ", "), counts = table.concat(counts, ", "),
      numbers = table.concat(numbers, ", "), decoupled = decoupled and "decoupled" or "false" })
  end) })
end

local checks_file = [[
// tensor/optim_checks-inl.h: generated from tensor/functors/optimizers.lua: the shape functions of
// the optimisers' steps, after the functions `check_lists` and `check_numbers` of
// tensor/shapes/optim.cpp.

$checks
]]

local check = [[
void $op($parameters) {
  $conditions
  check_lists("$op", x, {$wanted}, {$optional});
  $numbers
}
]]

local numbers_check = 'check_numbers("%s", x, {%s}, given, optim::%s::kGiven, found_inf);'

local condition = 'check(%s == 0 || !%s.empty(), "%s: %s is %s, so a %s is expected, got none");'

local function check_of(row, op, capturable)
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
  local counts, parameters = {}, {}
  for i, name in ipairs(capturable and optimizers.counted(row) or {}) do
    counts[i] = ('{"%s", &%s}'):format(name, name)
    named[name] = true
  end
  named.given, named.found_inf = capturable, capturable
  for i, arg in ipairs(op.args) do parameters[i] = arg.info.below .. (named[arg.name] and " " .. arg.name or "") end
  return fill(check, { op = op.name, parameters = table.concat(parameters, ", "), conditions = conditions,
    wanted = table.concat(wanted, ", "), optional = table.concat(optional, ", "),
    numbers = capturable and numbers_check:format(op.name, table.concat(counts, ", "), camel(row)) or {} })
end

local function checks(all_rows) return fill(checks_file, { checks = for_ops(all_rows, check_of) }) end

local files = { steps = steps, updates = updates, kernels = kernels, checks = checks }

-- The file of that name.
return function(_, file, all_rows) return template.short_lines(files[file](all_rows)) .. "\n" end
