-- stdlib/autograd/jacobians.lua: the Jacobians of a function at its inputs, by differences and by
-- the tape, as gradcheck compares them.
--
-- A case is `{ call, inputs, checked, where }`: the function, its arguments, the positions of those
-- to be differentiated, and what messages begin with. A complex output counts as two functions, its
-- real and its imaginary part, and the derivative of such a part by a complex element z is
-- d/d re z + i d/d im z, as gradients are. A part is `{ output = 1, unit = 1, what = "real" }`.
-- A Jacobian has a row for each element of the input and a column for each of the output, in double
-- precision on the CPU.

local forward_ad = require "moonlet.autograd.forward_ad"
local ml = require "moonlet"
local fail = require("moonlet.options").fail

local jacobians = {}

local I = ml.complex(0, 1)

local function is_inexact(x) return x:is_floating_point() or x:is_complex() end
jacobians.is_inexact = is_inexact

-- A copy in double precision on the CPU, without history.
local function exact(x)
  local dtype = x:is_complex() and ml.complex128 or ml.float64
  return x:detach():to { dtype = dtype, device = "cpu" }:clone()
end

local function add_tensors(where, out, value, number)
  if ml.is_tensor(value) then
    out[#out + 1] = value
  elseif type(value) == "table" and not getmetatable(value) then
    for _, item in ipairs(value) do add_tensors(where, out, item, number) end
  elseif value ~= nil then
    fail("%s: result %d of the function is a %s, expected a tensor or an array of tensors", where,
      number, type(value))
  end
end

--- The tensors among results, those in arrays too.
---@param where string
---@param ... any
---@return Tensor[]
function jacobians.tensors(where, ...)
  local out = {}
  for i = 1, select("#", ...) do add_tensors(where, out, (select(i, ...)), i) end
  return out
end

--- What the function of a case gives for its inputs, or for others in their place.
---@param case table
---@param inputs? any[]
---@return Tensor[]
function jacobians.outputs(case, inputs)
  inputs = inputs or case.inputs
  return jacobians.tensors(case.where, case.call(table.unpack(inputs, 1, case.count)))
end

--- The parts of the outputs that have a derivative, of those for which `wanted(output)` holds.
---@param outputs Tensor[]
---@param wanted fun(output: Tensor): boolean
---@return table[]
function jacobians.parts(outputs, wanted)
  local out = {}
  for i, y in ipairs(outputs) do
    if is_inexact(y) and wanted(y) then
      local shape = y.shape
      if y:is_complex() then
        out[#out + 1] = { output = i, unit = 1, what = "real", shape = shape }
        out[#out + 1] = { output = i, unit = I, what = "imaginary", shape = shape }
      else
        out[#out + 1] = { output = i, unit = 1, shape = shape }
      end
    end
  end
  return out
end

-- A part of a tensor in double precision, as a vector.
local function part_of(x, part)
  local y = exact(x)
  if part.what then y = part.what == "real" and y.real or y.imag end
  return y:reshape(-1)
end
jacobians.part_of = part_of

-- Calls `f` with each element of x, a tensor of no dimensions that shares memory with it.
local function each_element(x, f)
  local data = x.data
  local shape, stride = data.shape, {}
  local at, position = data:storage_offset(), {}
  for d = 1, #shape do stride[d], position[d] = data:stride(d), 0 end
  for number = 1, x:numel() do
    f(data:as_strided({}, {}, at), number)
    local d = #shape
    while d > 0 do
      position[d], at = position[d] + 1, at + stride[d]
      if position[d] < shape[d] then break end
      position[d], at = 0, at - shape[d] * stride[d]
      d = d - 1
    end
  end
end

-- The outputs with `step` added to `element`, a part of an input that is restored also when the
-- function fails.
local function outputs_at(case, element, before, step, parts)
  local restore <close> = setmetatable({}, { __close = function()
    ml.no_grad(element.copy_, element, before)
  end })
  ml.no_grad(element.copy_, element, before + step)
  local values, outputs = {}, jacobians.outputs(case)
  for p, part in ipairs(parts) do
    local y = outputs[part.output]
    if not y or y.shape ~= part.shape then
      fail("%s: output %d had shape %s and then %s", case.where, part.output,
        tostring(part.shape), y and tostring(y.shape) or "none")
    end
    values[p] = part_of(y, part)
  end
  return values, restore
end

-- The derivative of all parts along `step`, by a difference over `width` to both sides.
local function difference(case, element, step, width, parts)
  local before = element:clone()
  local up = outputs_at(case, element, before, step, parts)
  local down = outputs_at(case, element, before, -step, parts)
  for p in ipairs(parts) do up[p] = (up[p] - down[p]) / (2 * width) end
  return up
end

local function empty_rows(parts)
  local rows = {}
  for p in ipairs(parts) do rows[p] = {} end
  return rows
end

-- Rows as a matrix; an input without elements has none.
local function matrix(rows, part, x)
  if #rows > 0 then return ml.stack(rows) end
  local dtype = x:is_complex() and ml.complex128 or ml.float64
  return ml.zeros({ 0, part.shape:numel() }, { dtype = dtype, device = "cpu" })
end

local function matrices(rows, parts, x)
  local out = {}
  for p, part in ipairs(parts) do out[p] = matrix(rows[p], part, x) end
  return out
end

--- The Jacobians by differences: `out[input][part]`, inputs counted among those checked.
---@param case table
---@param parts table[]
---@param eps number
---@return Tensor[][]
function jacobians.numerical(case, parts, eps)
  local out = {}
  for k, position in ipairs(case.checked) do
    local x, rows = case.inputs[position], empty_rows(parts)
    each_element(x, function(element)
      local along = difference(case, element, eps, eps, parts)
      local across = x:is_complex() and difference(case, element, I * eps, eps, parts)
      for p in ipairs(parts) do
        rows[p][#rows[p] + 1] = across and ml.complex(along[p], across[p]) or along[p]
      end
    end)
    out[k] = matrices(rows, parts, x)
  end
  return out
end

--- The derivatives of all parts along `direction` of an input, by a difference.
---@param case table
---@param position integer
---@param direction Tensor
---@param parts table[]
---@param eps number
---@return Tensor[]
function jacobians.numerical_along(case, position, direction, parts, eps)
  return difference(case, case.inputs[position].data, direction * eps, eps, parts)
end

local function checked_inputs(case)
  local out = {}
  for k, position in ipairs(case.checked) do out[k] = case.inputs[position] end
  return out
end

--- The gradients of outputs by the checked inputs, zeros where there is none. The graph stays.
---@param case table
---@param outputs Tensor[]
---@param given Tensor[] a gradient for each output
---@return Tensor[]
function jacobians.gradients(case, outputs, given)
  local inputs = checked_inputs(case)
  local found = table.pack(ml.grad(outputs, inputs,
    { grad_outputs = given, retain_graph = true, allow_unused = true }))
  for k, x in ipairs(inputs) do found[k] = found[k] or ml.zeros_like(x):detach() end
  return found
end

local function spread(a, b)
  if a:numel() == 0 then return 0 end
  local off = (exact(a) - exact(b)):abs()
  -- What is not finite differs from nothing where it is the same.
  off = off:masked_fill(off:isnan():logical_and(exact(a):isnan():logical_and(exact(b):isnan())
    :logical_or(a:detach():to { device = "cpu" }:eq(b:detach():to { device = "cpu" }))), 0)
  local most = off:max():item()
  return most == most and most or math.huge
end
jacobians.spread = spread

--- The Jacobians by the tape, and the largest difference between two runs of the same backward.
---@param case table
---@param outputs Tensor[]
---@param parts table[]
---@return Tensor[][]
---@return number
function jacobians.backward(case, outputs, parts)
  local out, off = {}, 0
  for k in ipairs(case.checked) do out[k] = {} end
  for p, part in ipairs(parts) do
    local y, rows = outputs[part.output], {}
    for k in ipairs(case.checked) do rows[k] = {} end
    for element = 1, y:numel() do
      local seed = ml.zeros({ y:numel() }, { dtype = y.dtype, device = y.device })
      seed[element] = part.unit
      seed = seed:reshape(y.shape)
      local first = jacobians.gradients(case, { y }, { seed })
      local second = jacobians.gradients(case, { y }, { seed })
      for k, g in ipairs(first) do
        off = math.max(off, spread(g, second[k]))
        rows[k][element] = exact(g):reshape(-1)
      end
    end
    for k, position in ipairs(case.checked) do
      local x = case.inputs[position]
      out[k][p] = #rows[k] > 0 and ml.stack(rows[k], 2)
        or ml.zeros({ x:numel(), 0 }, { dtype = ml.float64, device = "cpu" })
    end
  end
  return out, off
end

--- The derivatives of all parts along a tangent of one input, by forward mode.
---@param case table
---@param position integer
---@param tangent Tensor
---@param parts table[]
---@return Tensor[] values vectors in double precision
---@return string? wrong a tangent whose dtype or shape is not its output's
function jacobians.forward_along(case, position, tangent, parts)
  local values, wrong = {}, nil
  forward_ad.dual_level(function()
    local inputs = table.move(case.inputs, 1, case.count, 1, {})
    inputs[position] = forward_ad.make_dual(inputs[position], tangent)
    local outputs = jacobians.outputs(case, inputs)
    for p, part in ipairs(parts) do
      local y, t = forward_ad.unpack_dual(outputs[part.output])
      if t and t.dtype ~= y.dtype then
        wrong = ("output %d has dtype %s and its tangent %s"):format(part.output, y.dtype, t.dtype)
      end
      values[p] = part_of(t or ml.zeros_like(y), part)
    end
  end)
  return values, wrong
end

--- The Jacobians by forward mode.
---@param case table
---@param parts table[]
---@return Tensor[][]
---@return string? wrong
function jacobians.forward(case, parts)
  local out, wrong = {}, nil
  for k, position in ipairs(case.checked) do
    local x, rows = case.inputs[position], empty_rows(parts)
    local function along(element, unit)
      local tangent = ml.zeros({ x:numel() }, { dtype = x.dtype, device = x.device })
      tangent[element] = unit
      local values, bad = jacobians.forward_along(case, position, tangent:reshape(x.shape), parts)
      wrong = wrong or bad
      return values
    end
    for element = 1, x:numel() do
      local one = along(element, 1)
      local other = x:is_complex() and along(element, I)
      for p in ipairs(parts) do
        rows[p][element] = other and ml.complex(one[p], other[p]) or one[p]
      end
    end
    out[k] = matrices(rows, parts, x)
  end
  return out, wrong
end

return jacobians
