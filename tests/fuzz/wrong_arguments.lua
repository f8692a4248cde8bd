-- tests/fuzz/wrong_arguments.lua: plans of calls whose arguments are spoiled. A plan is a list of
-- makers, one for each argument, that build it on a device; so the same call can be made on each.

local ml = require "moonlet"
local samples = require "op_samples"

local wrong = {}

local DTYPES = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
  "float64", "complex64", "complex128" }
-- Small enough that a shape of them fits, or far too large.
local INTEGERS = { 0, 1, -1, 2, 3, 4, -2, 5, 7, 40, -100, 1 << 40, 1 << 62, math.maxinteger,
  math.mininteger }
local NUMBERS = { 0, 0.0, -0.0, 1, -1, 0.5, 2.5, -3.5, 1e300, -1e300, 0 / 0, math.huge, -math.huge,
  1 << 40, math.maxinteger, math.mininteger, true, false, ml.complex(1, -2) }
local STRINGS = { "", "sum", "none", "mean", "floor", "reflect", "cuda:0", "float32", "\0", ("x"):rep(300) }

local random = math.random
local function pick(list) return list[random(1, #list)] end

local function other(device) return device == "cpu" and "cuda" or "cpu" end

-- A copy on the device; a copy on the CPU too, because calls may write to it.
local function there(t, device) return device == "cpu" and t:detach():clone() or t:detach():to(device) end

-- Spoiled tensors: each takes a tensor and gives a maker, or nil where it does not apply.
local tensors = {}

function tensors.dtype(t)
  local dtype = pick(DTYPES)
  local ok, spoiled = pcall(function() return t:to(dtype) end)
  return ok and function(device) return there(spoiled, device) end, dtype
end

function tensors.more_dims(t)
  local d = random(1, t.ndim + 1)
  return function(device) return there(t, device):unsqueeze(d) end, d
end

function tensors.fewer_dims(t)
  if t.ndim == 0 or t:numel() == 0 then return end
  return function(device) return there(t, device):select(1, 1) end
end

function tensors.flat(t)
  return function(device) return there(t, device):reshape(-1) end
end

function tensors.smaller(t)
  if t.ndim == 0 then return end
  local d = random(1, t.ndim)
  local n = random(0, math.max(0, t.shape[d] - 1))
  return function(device) return there(t, device):narrow(d, 1, n) end, ("dim %d to %d"):format(d, n)
end

function tensors.larger(t)
  if t.ndim == 0 then return end
  local d = random(1, t.ndim)
  return function(device)
    local x = there(t, device)
    return ml.cat({ x, x }, d)
  end, d
end

function tensors.expanded(t)
  if t:numel() == 0 then return end
  return function(device)
    local sizes = { 3 }
    for d = 1, t.ndim do sizes[d + 1] = t.shape[d] end
    return there(t, device):expand(sizes)
  end
end

function tensors.one_position(t)
  if t:numel() < 2 then return end
  local strides, sizes = {}, {}
  for d = 1, t.ndim do strides[d], sizes[d] = 0, t.shape[d] end
  return function(device) return there(t, device):as_strided(sizes, strides) end
end

-- Neighbours share positions: rows of a matrix that start one element apart.
function tensors.overlapping(t)
  if t.ndim < 2 or t.shape[1] < 2 or t.shape[2] < 2 or t:numel() == 0 then return end
  local strides, sizes = {}, {}
  for d = 1, t.ndim do strides[d], sizes[d] = 1, t.shape[d] end
  return function(device) return there(t, device):contiguous():as_strided(sizes, strides) end
end

function tensors.strided(t)
  if t.ndim < 2 then return end
  return function(device) return there(t, device):transpose(1, 2):contiguous():transpose(1, 2) end
end

function tensors.freed(t)
  return function(device)
    local x = there(t, device)
    x:free()
    return x
  end
end

function tensors.other_device(t)
  if not ml.cuda.is_available() then return nil end
  return function(device) return there(t, other(device)) end
end

function tensors.filled(t)
  local value = pick(t.dtype:find "int" and { 0, 1, -1, 2, 3, 4, 5, 100, -100, 127 }
    or t.dtype == "bool" and { true, false } or { 0, -1, 0.5, 1e30, 0 / 0, math.huge, -math.huge })
  return function(device) return there(ml.full(t.shape, value, { dtype = t.dtype }), device) end, value
end

-- One bad position among good ones.
function tensors.one_bad(t)
  if t.dtype ~= "int64" or t:numel() == 0 then return end
  local at, value = random(1, t:numel()), pick(INTEGERS)
  return function(device)
    local x = t:detach():clone()
    x:view(-1)[at] = value
    return there(x, device)
  end, value
end

function tensors.leaf(t)
  if not t.dtype:find "float" then return end
  return function(device) return there(t, device):requires_grad_(true) end
end

local fresh = {
  function() return ml.zeros(0) end, function() return ml.zeros(3, 0) end,
  function() return ml.tensor(3) end, function() return ml.tensor(-2.5) end,
  function() return ml.randn(2, 3) end, function() return ml.randn { 3, 4, dtype = ml.float64 } end,
  function() return ml.ones { 2, 3, dtype = ml.complex64 } end,
  function() return ml.tensor { true, false } end, function() return ml.randn(3, 4):gt(0) end,
  function() return ml.tensor { 1, 2, 3 } end, function() return ml.tensor { 0, -1, 99 } end,
  function() return ml.tensor { math.maxinteger, math.mininteger } end,
  function() return ml.full({ 3, 4 }, ml.nan) end, function() return ml.randn(1, 2, 3, 4) end,
  function() return ml.ones(1, 1, 1, 1, 1) end, function() return ml.ones { 3, dtype = ml.uint8 } end,
}

function tensors.another()
  local i = random(1, #fresh)
  local t = fresh[i]()
  return function(device) return there(t, device) end, i
end

--- The ways to spoil a tensor that make its elements share positions.
wrong.overlaps = { expanded = true, one_position = true, overlapping = true }

local names = {}
for name in pairs(tensors) do names[#names + 1] = name end
table.sort(names)

local function spoil_tensor(t)
  while true do
    local name = pick(names)
    local make, detail = tensors[name](t)
    if make then return make, detail and name .. " " .. tostring(detail) or name, name end
  end
end

local function constant(value)
  return function() return value end, type(value) == "table" and "{...}" or tostring(value)
end

-- A value of a kind that may not be meant.
local function odd(device_value)
  local values = { device_value, "sum", "cuda:0", ml.float64, true, {}, { "x" }, { dim = 1 }, 0.5, 0 / 0,
    print, io.stdout, coroutine.create(print) }
  local value = values[random(1, 13)]
  return constant(value)
end

local function spoil_list(list)
  local spoiled = { table.unpack(list) }
  local kind = random(1, 5)
  if kind == 1 then return constant {} end
  if kind == 2 or #spoiled == 0 then
    for _ = 1, random(1, 9) do spoiled[#spoiled + 1] = pick(INTEGERS) end
  elseif kind == 3 then
    spoiled[#spoiled] = nil
  else
    spoiled[random(1, #spoiled)] = kind == 4 and pick(INTEGERS) or pick { "x", 1.5, 0 / 0, true, {} }
  end
  local parts = {}
  for i, v in ipairs(spoiled) do parts[i] = tostring(v) end
  return function() return { table.unpack(spoiled) } end, "{" .. table.concat(parts, ", ") .. "}"
end

-- Whether a table lists tensors, the first of which may be left out by `false`.
local function holds_tensors(list) return ml.is_tensor(list[1]) or ml.is_tensor(list[2]) end

-- A list of tensors, one of them spoiled.
local function spoil_tensors(list)
  local at = random(1, #list)
  if not ml.is_tensor(list[at]) then at = 2 end
  local make, text, name = spoil_tensor(list[at])
  if random(1, 8) == 1 then make, text, name = constant(pick { 7, "x", false }) end
  return function(device)
    local out = {}
    for i, t in ipairs(list) do
      if i == at then out[i] = make(device) else out[i] = ml.is_tensor(t) and there(t, device) or t end
    end
    return out
  end, ("item %d %s"):format(at, text), name
end

-- The maker of an argument as the sample has it.
local function plain(value)
  if ml.is_tensor(value) then return function(device) return there(value, device) end end
  if type(value) == "table" and holds_tensors(value) then
    return function(device)
      local out = {}
      for i, t in ipairs(value) do out[i] = ml.is_tensor(t) and there(t, device) or t end
      return out
    end
  end
  return function() return type(value) == "table" and table.move(value, 1, #value, 1, {}) or value end
end

local function spoil(value)
  if random(1, 8) == 1 then return odd(nil) end
  if ml.is_tensor(value) then return spoil_tensor(value) end
  if type(value) == "table" then
    if holds_tensors(value) then return spoil_tensors(value) end
    return spoil_list(value)
  end
  if math.type(value) == "integer" then return constant(pick(INTEGERS)) end
  if type(value) == "number" or type(value) == "boolean" then return constant(pick(NUMBERS)) end
  if type(value) == "string" then return constant(pick(STRINGS)) end
  return constant(pick { 1, 0, -1, 2.5, "x", true, 1 << 40 })
end

local function describe(value)
  if ml.is_tensor(value) then return ("%s (%s)"):format(value.dtype, table.concat(value.shape, ", ")) end
  return type(value) == "table" and "{...}" or tostring(value)
end

--- The arguments of a sample, one to three of them spoiled.
---@return table plan makers (`n` of them), `text`, and `refuse`: why it must be an error, if it must
function wrong.plan(case, form)
  local args = { n = 0 }
  if #case.samples > 0 then args = samples.arguments(case, random(1, #case.samples)) end
  local plan, texts, spoils = { n = math.max(args.n, random(0, #case.args)) }, {}, {}
  for i = 1, plan.n do plan[i], texts[i] = plain(args[i]), describe(args[i]) end
  for _ = 1, pick { 1, 1, 1, 2, 3 } do
    local at = random(1, math.max(1, #case.args))
    for i = plan.n + 1, at do plan[i], texts[i] = constant(nil) end
    plan.n = math.max(plan.n, at)
    local name
    plan[at], texts[at], name = spoil(args[at])
    spoils[at] = name
  end
  if random(1, 15) == 1 then plan.n = random(0, plan.n + 1) end
  for at, name in pairs(spoils) do
    if name == "freed" and at <= math.min(plan.n, #case.args) then plan.refuse = "a freed tensor is accepted" end
  end
  if form == "_" and not case.restrides and plan.n > 0 and wrong.overlaps[spoils[1]] then
    plan.refuse = "memory that overlaps itself is written"
  end
  for i = 1, plan.n do plan[i] = plan[i] or constant(nil) end
  plan.text = table.concat(texts, " | ", 1, math.min(plan.n, #texts))
  return plan
end

--- The arguments of a sample, argument `at` lying in the memory of the first, `shift` elements on;
--- nil when no argument can.
function wrong.aliased(case)
  if #case.samples == 0 then return end
  local args = samples.arguments(case, random(1, #case.samples))
  local first, at = args[1], nil
  for i = 2, args.n do
    if ml.is_tensor(args[i]) and ml.is_tensor(first) and args[i].dtype == first.dtype then at = i end
  end
  if not at or first:numel() == 0 or args[at]:numel() == 0 then return end
  local shift = random(0, math.min(3, first:numel() - 1))
  local plan = { n = args.n, text = ("argument %d lies %d elements into the first"):format(at, shift) }
  for i = 1, args.n do plan[i] = plain(args[i]) end
  function plan.build(device)
    local values = { n = args.n }
    local buffer = ml.zeros { first:numel() + args[at]:numel() + 3, dtype = first.dtype, device = device }
    local function lay(t, from)
      local view = buffer:narrow(1, from + 1, t:numel()):view(t.shape)
      view:copy_(there(t, device))
      return view
    end
    for i = 1, args.n do values[i] = plan[i](device) end
    values[at] = lay(args[at], shift)
    values[1] = lay(first, 0)
    return values
  end
  return plan
end

--- The values of a plan on a device, as packed arguments.
function wrong.build(plan, device)
  if plan.build then return plan.build(device) end
  local values = { n = plan.n }
  for i = 1, plan.n do values[i] = plan[i](device) end
  return values
end

--- A maker of the tensor for an `out` form: the one that fits `result`, or a spoiled one;
--- what it is, and whether it overlaps itself.
function wrong.out(result)
  if random(1, 4) == 1 then return function(device) return there(result, device) end, "out" end
  if random(1, 8) == 1 then
    local make, text = odd(nil)
    return make, "out = " .. text
  end
  local make, text, name = spoil_tensor(result)
  return make, "out " .. text, wrong.overlaps[name]
end

return wrong
