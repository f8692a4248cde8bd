-- autograd/gen/formula.lua: the derivative of a row as C++: which arguments and results each gradient
-- expression uses, and the function that makes the expressions of one call.

local formula = {}

-- The arguments a gradient is named for, in order.
function formula.differentiable(row)
  local named, out = {}, {}
  for _, grad in ipairs(row.grads) do
    for _, name in ipairs(grad.args) do named[name] = true end
  end
  for _, arg in ipairs(row.args) do
    if named[arg.name] then out[#out + 1] = arg end
  end
  return out
end

-- The positions (from 0) of the results that can carry a gradient.
local function tracked_results(row)
  local out = {}
  for i, result in ipairs(row.results) do
    if result.type == "Tensor" and not row.nodiff_set[result.name] then out[#out + 1] = i - 1 end
  end
  return out
end

-- The identifiers of an expression, without member names, qualified names and strings.
function formula.identifiers(expression)
  local out = {}
  local bare = expression:gsub('"[^"]*"', '""'):gsub("[%.:]%s*[%a_][%w_]*", "")
  for word in bare:gmatch "[%a_][%w_]*" do out[word] = true end
  return out
end

local geometry = { sizes_of = "sizes", options_of_ = "options", dtype_of_ = "dtype" }

-- Replaces geometry calls by the names of what is captured for them; adds those to `captures`.
local function capture_geometry(row, expression, captures)
  for call, suffix in pairs(geometry) do
    expression = expression:gsub("%f[%w_]" .. call .. "%(([%w_]+)%)", function(name)
      if not row.arg[name] then return nil end
      local field = name .. "_" .. suffix
      captures[field] = { arg = name, text = ("%s = %s(%s)"):format(field, call, name) }
      return field
    end)
  end
  return expression
end

-- What the row's formula needs: slots (name -> position), captures, and a list of gradients with
-- their targets, the slots they use, and their text.
function formula.analyse(row)
  local plan = { slots = {}, inputs = {}, captures = {}, gradients = {}, calls = {} }
  plan.differentiable = formula.differentiable(row)
  plan.tracked = tracked_results(row)
  for _, arg in ipairs(row.args) do
    if arg.info.tensor then
      plan.slots[arg.name] = { position = #plan.inputs, info = arg.info }
      plan.inputs[#plan.inputs + 1] = arg
    end
  end
  for i, result in ipairs(row.results) do
    if not row.arg[result.name] then
      plan.slots[result.name] = { position = #plan.inputs + i - 1, info = {} }
    end
  end
  local order = {}
  for i, arg in ipairs(plan.differentiable) do order[arg.name] = i - 1 end
  for i, grad in ipairs(row.grads) do
    local text = grad.expression == "zero" and "zeros_like(g)" or grad.expression
    text = capture_geometry(row, text, plan.captures)
    local gradient = { text = text, targets = {}, slots = {}, words = formula.identifiers(text) }
    for j, name in ipairs(grad.args) do gradient.targets[j] = order[name] end
    gradient.list = row.arg[grad.args[1]].info.list
    for word in pairs(gradient.words) do
      local arg = row.arg[word]
      if plan.slots[word] then
        gradient.slots[#gradient.slots + 1] = word
      elseif arg then
        local text_type = arg.info.cpp == "std::string_view"
        plan.captures[word] = { arg = word,
          text = text_type and ("%s = std::string(%s)"):format(word, word) or word }
      else
        plan.calls[word] = true
      end
    end
    table.sort(gradient.slots)
    plan.gradients[i] = gradient
  end
  return plan
end

local function mask(positions)
  local bits = 0
  for _, position in ipairs(positions) do bits = bits | (1 << position) end
  return tostring(bits)
end

-- `const Formula kMul = {...};`
local function constant(row, plan)
  local gradients, arguments, slot_position = {}, {}, {}
  for i, gradient in ipairs(plan.gradients) do
    local uses = {}
    for j, name in ipairs(gradient.slots) do uses[j] = plan.slots[name].position end
    gradients[i] = ("{%s, %s}"):format(mask(gradient.targets), mask(uses))
  end
  for i, arg in ipairs(plan.inputs) do slot_position[arg.name] = i - 1 end
  for i, arg in ipairs(plan.differentiable) do arguments[i] = slot_position[arg.name] end
  return ('constexpr Formula k%s = {"%sBackward", %d, %s, %s, {%s}};'):format(row.camel, row.camel,
    #plan.inputs, mask(arguments), mask(plan.tracked), table.concat(gradients, ", "))
end

-- Lines that define the gradients of results the expression names: g, g_values.
local function gradient_locals(row, plan, gradient)
  local lines = {}
  if gradient.words.g then lines[1] = "const Tensor g = ctx.g();" end
  for i, position in ipairs(plan.tracked) do
    local name = row.results[position + 1].name
    if gradient.words["g_" .. name] then
      lines[#lines + 1] = ("const Tensor g_%s = ctx.g(%d);"):format(name, i - 1)
    end
    if gradient.words["given_" .. name] then
      lines[#lines + 1] = ("const Tensor& given_%s = ctx.given(%d);"):format(name, i - 1)
    end
  end
  return lines
end

local function unpack_line(slot, name)
  if slot.info.operand then return ("const Operand %s = ctx.operand(%d);"):format(name, slot.position) end
  if slot.info.list then
    return ("const std::vector<Tensor> %s = ctx.list(%d);"):format(name, slot.position)
  end
  return ("const Tensor %s = ctx.saved(%d);"):format(name, slot.position)
end

local function assignment(gradient)
  if #gradient.targets > 1 then
    local places = {}
    for i, target in ipairs(gradient.targets) do places[i] = ("ctx[%d]"):format(target) end
    return ("std::tie(%s) = %s;"):format(table.concat(places, ", "), gradient.text)
  elseif gradient.list then
    return ("ctx.give_list(%d, %s);"):format(gradient.targets[1], gradient.text)
  end
  return ("ctx[%d] = %s;"):format(gradient.targets[1], gradient.text)
end

-- The names of the row's arguments that are captured, in order.
function formula.captured_arguments(row, plan)
  local wanted, out = {}, {}
  for _, capture in pairs(plan.captures) do wanted[capture.arg] = true end
  for _, arg in ipairs(row.args) do
    if wanted[arg.name] then out[#out + 1] = arg end
  end
  return out
end

-- The constant, and the function that makes the expressions of a call.
function formula.define(row, plan)
  local parameters, captures, out = {}, {}, { constant(row, plan) }
  for i, arg in ipairs(formula.captured_arguments(row, plan)) do
    parameters[i] = arg.info.below .. " " .. arg.name
  end
  for _, capture in pairs(plan.captures) do captures[#captures + 1] = capture.text end
  table.sort(captures)
  out[#out + 1] = ("auto %s_gradients(%s) {"):format(row.name, table.concat(parameters, ", "))
  out[#out + 1] = ("  return [%s](Backward& ctx) {"):format(table.concat(captures, ", "))
  for _, gradient in ipairs(plan.gradients) do
    local lines = gradient_locals(row, plan, gradient)
    for _, name in ipairs(gradient.slots) do lines[#lines + 1] = unpack_line(plan.slots[name], name) end
    lines[#lines + 1] = assignment(gradient)
    out[#out + 1] = ("    if (ctx.needs(%s)) {\n      %s\n    }"):format(mask(gradient.targets),
      table.concat(lines, "\n      "))
  end
  out[#out + 1] = "  };\n}"
  return table.concat(out, "\n")
end

return formula
