-- tests/fuzz/torch_calls.lua: calls every op with its samples' arguments changed (other dtypes, other
-- shapes, other numbers) and writes each call and its outcome as a line of JSON, for torch_calls.py,
-- which makes the same call with PyTorch and tells where the two differ.
-- usage: MOONLET_OP_CASES=... moonlet tests/fuzz/torch_calls.lua OUT.jsonl [FILTER]: a family or part
-- of a name

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../lua/?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local op_variants = require "op_variants"
local samples = require "op_samples"

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES"))
local DTYPES = { "bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64" }
local MOST = 4096 -- elements of a result that is compared

local function is_position(kind) return kind:find "^Positions" ~= nil or kind:find "^Ind" ~= nil end

-- Each of these takes a tensor and gives a list of others that may stand in its place.
local function with_dtypes(t)
  local out = {}
  for _, dtype in ipairs(DTYPES) do
    if dtype ~= t.dtype and not t.dtype:find "^complex" then out[#out + 1] = t:to(dtype) end
  end
  return out
end

local function with_shapes(t)
  local out = { t:unsqueeze(1), t:reshape(-1), t:reshape(-1):narrow(1, 1, 0) }
  if t:numel() > 0 then out[#out + 1] = t:reshape(-1)[1] end
  for d = 1, t.ndim do
    out[#out + 1] = t:narrow(d, 1, 0)
    out[#out + 1] = t:narrow(d, 1, math.min(1, t.shape[d]))
    out[#out + 1] = ml.cat({ t, t:narrow(d, 1, math.min(1, t.shape[d])) }, d)
  end
  if t.ndim >= 2 then out[#out + 1] = t:transpose(-1, -2) end
  return out
end

local function number_variants(value)
  if math.type(value) ~= "integer" then return { -1.0, 0.0, 2.5, 3, ml.nan, ml.inf } end
  return { -3, -1, 0, 1, 2, 3, 9, 2.5 }
end

local function tensor_variants(t, kind)
  local out = with_shapes(t)
  if not is_position(kind) then table.move(with_dtypes(t), 1, #DTYPES, #out + 1, out) end
  return out
end

local function variants(value, kind)
  if ml.is_tensor(value) then return tensor_variants(value, kind) end
  if math.type(value) then return number_variants(value) end
  if type(value) == "boolean" then return { not value } end
  if type(value) ~= "table" then return {} end
  if ml.is_tensor(value[1]) then
    return op_variants.of_tensors(value, function(t) return tensor_variants(t, kind) end)
  end
  return math.type(value[1]) and op_variants.of_list(value, { -3, -1, 1 }) or {}
end

-- All floating tensors of a call in another dtype.
local function whole_calls(case, args)
  local out = {}
  for _, dtype in ipairs(DTYPES) do
    out[#out + 1] = samples.map(case, args, function(t, kind)
      return t.dtype == "float32" and not is_position(kind) and t:to(dtype) or t
    end)
  end
  return out
end

local function encoded(args)
  local out = {}
  for k = 1, args.n do out[k] = samples.encode(args[k]) end
  return out
end

local function results_of(case, args)
  local ok, got = pcall(samples.results, case, args)
  if not ok then return { error = tostring(got) } end
  local results = {}
  for k, y in ipairs(got) do
    if ml.is_tensor(y) and y:numel() > MOST then return { error = "out of memory" } end
    results[k] = samples.encode(y)
  end
  return { results = results }
end

local file = assert(io.open(arg[1], "w"))
local calls = 0
local function write(case, args, change)
  local inputs = encoded(args) -- before the call, which may fail midway
  local line = results_of(case, args)
  line.name, line.torch, line.types, line.names = case.name, case.torch, case.args, case.names
  line.inputs, line.change = inputs, change
  file:write(json.encode(line), "\n")
  calls = calls + 1
end

local filter = arg[2] or ""
for _, case in ipairs(cases) do
  if case.plain and not case.random and not case.check.value
    and (filter == case.family or case.name:find(filter, 1, true)) then
    for i in ipairs(case.samples) do
      local args = samples.arguments(case, i)
      for _, other in ipairs(whole_calls(case, args)) do write(case, other, "dtypes") end
      for k = 1, args.n do
        for _, value in ipairs(variants(args[k], case.args[k] or "")) do
          write(case, op_variants.replaced(args, k, value), case.names[k] or tostring(k))
        end
      end
    end
  end
end
file:close()
print(calls .. " calls")
