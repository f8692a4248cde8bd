-- tests/lua/op_samples.lua: turns the samples of op rows into arguments, and arguments and results
-- to and from plain tables for the reference files.

local ml = require "moonlet"
ml._late()  -- from here on ops are in their tables

local samples = {}

-- The same numbers for the same sample of the same op, whatever ran before.
local function seed_of(text)
  local hash = 5381
  for i = 1, #text do hash = (hash * 33 + text:byte(i)) % 2147483647 end
  return hash
end

-- The arguments of sample `i` of a case, freshly made: a packed table. Another `salt` draws others.
function samples.arguments(case, i, salt)
  local text = case.samples[i]
  ml.manual_seed(seed_of(case.name .. text) + (salt or 0))
  local env = setmetatable({ ml = ml, math = math }, {
    __index = function(_, name) return ml._internal[name] or ml[name] end,
  })
  local chunk = assert(load("return " .. text, "=" .. case.name .. " sample", "t", env))
  return table.pack(chunk())
end

-- The function of an op's plain ("") or in-place ("_") form, or nil when Lua has none: of the
-- module, a method or an internal one. An overload is called by the name of the first form; an op of
-- a module has its in-place form under its own name.
function samples.find(case, form)
  local name = form == "_" and case.inplace_call or case.call
  local module, rest = name:match "^(.*)%.(.*)$"
  if module then
    local space = ml
    for part in module:gmatch "[^.]+" do space = space[part] end
    return rawget(space, rest)
  end
  return rawget(ml, name) or ml._methods[name] or ml._internal[name]
end

-- Calls the op with packed arguments; random ops draw the same numbers each time.
function samples.call(case, args, form)
  if case.random then ml.manual_seed(1234) end
  return samples.find(case, form)(table.unpack(args, 1, args.n))
end

-- What an op without results leaves in the lists that it writes to, which get back what they held.
local function written(case, args)
  local targets, before, out = {}, {}, {}
  for i, name in ipairs(case.names) do
    for _, x in ipairs(case.writes[name] and args[i] or {}) do targets[#targets + 1] = x end
  end
  for k, x in ipairs(targets) do before[k] = x:clone() end
  samples.call(case, args)
  for k, x in ipairs(targets) do
    out[k] = x:clone()
    x:copy_(before[k])
  end
  return out
end

-- All results as a list of tensors and plain values.
function samples.results(case, args, form)
  if case.results == 0 then return written(case, args) end
  local packed = table.pack(samples.call(case, args, form))
  if packed.n == 1 and type(packed[1]) == "table" and not ml.is_tensor(packed[1]) then
    return packed[1]
  end
  packed.n = nil
  return packed
end

-- The same arguments with f applied to every tensor, also inside lists; f sees the argument's
-- declared type and name.
function samples.map(case, args, f)
  local out = { n = args.n }
  for i = 1, args.n do
    local value = args[i]
    local kind, name = case.args[i], case.names[i]
    if ml.is_tensor(value) then
      out[i] = f(value, kind, name)
    elseif type(value) == "table" and (kind:find "^Tensor%??%[%]$" or kind == "Indices") then
      out[i] = {}
      for key, item in pairs(value) do
        out[i][key] = ml.is_tensor(item) and f(item, kind, name) or item
      end
    else
      out[i] = value
    end
  end
  return out
end

-- A tensor as a table that JSON can hold; non-finite numbers become strings.
local function flat(tensor)
  local real = tensor
  local shape = {}
  for d = 1, tensor.ndim do shape[d] = tensor.shape[d] end
  local dtype = tostring(tensor.dtype)
  if dtype:find "^complex" then real = ml.view_as_real(tensor:contiguous()) end
  local data = real:to "cpu":reshape(-1):tolist()
  for i, v in ipairs(data) do
    if v ~= v then data[i] = "nan"
    elseif v == math.huge then data[i] = "inf"
    elseif v == -math.huge then data[i] = "-inf"
    elseif v == true then data[i] = 1
    elseif v == false then data[i] = 0 end
  end
  return { dtype = dtype, shape = shape, data = data }
end

local special = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

local function name_of_special(value)
  if value ~= value then return "nan" end
  if value == math.huge then return "inf" end
  return value == -math.huge and "-inf" or nil
end

-- Any argument or result as a plain table: {t = tensor}, {l = list}, {v = value}, {s = "inf"} for what
-- JSON has no number for, or {}.
function samples.encode(value)
  if value == nil then return { none = true } end
  if ml.is_tensor(value) then return { t = flat(value) } end
  if type(value) == "number" and name_of_special(value) then return { s = name_of_special(value) } end
  if type(value) ~= "table" then return { v = value } end
  local list, named = {}, nil
  for key, item in pairs(value) do
    if math.type(key) ~= "integer" then
      named = named or {}
      named[key] = samples.encode(item)
    end
  end
  for i = 1, #value do list[i] = samples.encode(value[i]) end
  return { l = list, k = named }
end

-- The tensor of a table made by `encode` (or by the reference script).
function samples.decode_tensor(t)
  local data = {}
  for i, v in ipairs(t.data) do data[i] = special[v] or v end
  local complex = t.dtype:find "^complex"
  local base = complex and (t.dtype == "complex64" and "float32" or "float64") or t.dtype
  local shape = table.move(t.shape, 1, #t.shape, 1, {})
  if complex then shape[#shape + 1] = 2 end
  local flat_tensor = #data == 0 and ml.zeros { 0 } or ml.tensor(data, { dtype = ml.float64 })
  if base:find "int" and #data > 0 then flat_tensor = ml.tensor(data, { dtype = base }) end
  local out = flat_tensor:to(base):reshape(shape)
  return complex and ml.view_as_complex(out) or out
end

function samples.decode(item)
  if item.none then return nil end
  if item.s then return special[item.s] end
  if item.t then return samples.decode_tensor(item.t) end
  if item.l then
    local out = {}
    for i, v in ipairs(item.l) do out[i] = samples.decode(v) end
    for key, v in pairs(item.k or {}) do out[key] = samples.decode(v) end
    return out
  end
  return item.v
end

return samples
