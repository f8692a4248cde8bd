-- tensor/ops/gen/formula.lua: the derivative of a row as C++: which arguments and results each gradient
-- expression uses, and the function that makes the expressions of one call.

local template = require "tensor.ops.gen.template"

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

-- The expression with each identifier that `replace` gives a text for replaced by it. Member names,
-- qualified names and strings are left out.
local function replace_names(expression, replace)
  local out, quoted = {}, false
  for part in (expression .. '"'):gmatch '([^"]*)"' do
    out[#out + 1] = quoted and part or part:gsub("()%f[%w_]([%a_][%w_]*)", function(at, word)
      local before = part:sub(1, at - 1)
      if before:find "%.%s*$" or before:find "::%s*$" then return nil end
      return replace(word)
    end)
    quoted = not quoted
  end
  return table.concat(out, '"')
end

-- How often an expression names each identifier.
function formula.identifiers(expression)
  local out = {}
  replace_names(expression, function(word) out[word] = (out[word] or 0) + 1 end)
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
    local text = grad.expression == "zero" and "formulas::zero_grad(g)" or grad.expression
    text = capture_geometry(row, text, plan.captures)
    local gradient = { text = text, line = grad.line, targets = {}, slots = {}, words = formula.identifiers(text) }
    for j, name in ipairs(grad.args) do gradient.targets[j] = order[name] end
    gradient.list = row.arg[grad.args[1]].info.list
    for word in pairs(gradient.words) do
      local arg = row.arg[word]
      if plan.slots[word] then
        gradient.slots[#gradient.slots + 1] = word
      elseif arg then
        local kept = arg.info.capture and ("%s = "):format(word) .. arg.info.capture:format(word)
        plan.captures[word] = { arg = word, text = kept or word }
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

-- The slots by name, as Formula::slots.
local function slot_names(row, plan)
  local names = {}
  for i, arg in ipairs(plan.inputs) do names[i] = arg.name .. (arg.info.list and "[]" or "") end
  for _, result in ipairs(row.results) do names[#names + 1] = result.name end
  return table.concat(names, ",")
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
  return ('constexpr Formula k%s = {"%sBackward", %d, %s, %d, %s, {%s}, "%s"};'):format(row.camel,
    row.camel, #plan.inputs, mask(arguments), #plan.differentiable, mask(plan.tracked),
    table.concat(gradients, ", "), slot_names(row, plan))
end

-- Where the tensors an expression names come from while the node runs: g -> "ctx.g()".
local function sources(row, plan, gradient)
  local out = {}
  if gradient.words.g then out.g = { type = "Tensor", text = "ctx.g()" } end
  if gradient.words.so_far then
    out.so_far = { type = "Tensor*", text = ("ctx.so_far(%d)"):format(gradient.targets[1]) }
  end
  if gradient.words.rows_taker then
    out.rows_taker = { type = "RowsTaker", text = ("ctx.rows_taker(%d)"):format(gradient.targets[1]) }
  end
  if gradient.words.keeps_graph then out.keeps_graph = { type = "bool", text = "ctx.keeps_graph()" } end
  for i, position in ipairs(plan.tracked) do
    local name = row.results[position + 1].name
    out["g_" .. name] = { type = "Tensor", text = ("ctx.g(%d)"):format(i - 1) }
    out["given_" .. name] = { type = "Tensor&", text = ("ctx.given(%d)"):format(i - 1) }
  end
  for _, name in ipairs(gradient.slots) do
    local slot = plan.slots[name]
    local type, method = "Tensor", "saved"
    if slot.info.operand then type, method = slot.info.value, "operand" end
    if slot.info.list then type, method = slot.info.value, "list" end
    out[name] = { type = type, text = ("ctx.%s(%d)"):format(method, slot.position) }
  end
  return out
end

-- The expression with what it names read from the node: in its place where it is named once, from a
-- local where several times. Also the locals' definitions.
local function placed(row, plan, gradient)
  local from, lines = sources(row, plan, gradient), {}
  for name, source in pairs(from) do
    if (gradient.words[name] or 0) > 1 then
      lines[#lines + 1] = ("const %s %s = %s;"):format(source.type, name, source.text)
      source.text = nil
    end
  end
  table.sort(lines)
  return replace_names(gradient.text, function(word) return from[word] and from[word].text end), lines
end

local function assignment(gradient, text)
  if #gradient.targets > 1 then
    local positions = {}
    for i, target in ipairs(gradient.targets) do positions[i] = ("ctx[%d]"):format(target) end
    return ("std::tie(%s) = %s;"):format(table.concat(positions, ", "), text)
  elseif gradient.list then
    return ("ctx.give_list(%d, %s);"):format(gradient.targets[1], text)
  end
  return ("ctx[%d] = %s;"):format(gradient.targets[1], text)
end

local statement_template = [[
    if (ctx.needs($mask)) {
      $locals
#line $line "$path"
      $assignment
    }]]

-- The compiler looks for what is wrong in a formula where the formula is written.
local function statement(row, plan, gradient)
  local text, locals = placed(row, plan, gradient)
  return template.fill(statement_template, {
    mask = mask(gradient.targets), locals = locals, line = tostring(gradient.line), path = row.path,
    assignment = assignment(gradient, text),
  })
end

local gradients_template = [[
$constant
static auto $name_gradients($parameters) {
  return [$captures](Backward& ctx) {
$statements
#line here
  };
}]]

-- The constant, and the function that makes the expressions of a call from its arguments. The line
-- "#line here" stands for the number of its own line and the name of the generated file.
function formula.define(row, plan)
  local captured, parameters, captures, statements = {}, {}, {}, {}
  for _, capture in pairs(plan.captures) do
    captured[capture.arg] = true
    captures[#captures + 1] = capture.text
  end
  table.sort(captures)
  for i, arg in ipairs(row.args) do
    parameters[i] = arg.info.below .. (captured[arg.name] and " " .. arg.name or "")
  end
  for i, gradient in ipairs(plan.gradients) do statements[i] = statement(row, plan, gradient) end
  return template.fill(gradients_template, {
    constant = constant(row, plan), name = row.name, parameters = table.concat(parameters, ", "),
    captures = table.concat(captures, ", "), statements = statements,
  })
end

-- The text of a generated file with its own positions after those of formulas.
function formula.own_lines(text, file)
  local out, number = {}, 0
  for line in text:gmatch "([^\n]*)\n" do
    number = number + 1
    out[number] = line == "#line here" and ('#line %d "%s"'):format(number + 1, file) or line
  end
  return table.concat(out, "\n") .. "\n"
end

return formula
