-- tensor/ops/gen/pointwise_list.lua: what the kernels of a family of pointwise ops are made of, the same
-- for every device.

local dtypes = require "tensor.ops.gen.dtypes"

local pointwise_list = {}

-- The families whose functors are in a file of their own, which no other family is compiled with.
local own_functors = { special = true }

--- The includes of a family's functors beside the common ones.
---@param family string
---@return string
function pointwise_list.includes(family)
  return own_functors[family] and ('\n#include "tensor/functors/functors_%s-inl.h"'):format(family) or ""
end

-- The letter of the loops that compute a kind of dtype: F(loat), I(nt), C(omplex).
local letters = { Bool = "I", Unsigned = "I", Signed = "I", Floating = "F", Complex = "C" }
local kind_of = {}
for _, dtype in ipairs(dtypes) do
  kind_of[dtype.name] = assert(letters[dtype.kind], "no loops for dtypes of kind " .. dtype.kind)
end

-- The loops a row needs, in the order FIC; S for floats of functors that take long.
local function loops(row)
  if row.slow then return "S" end
  if row.result == "complex" then return "C" end
  local has = {}
  for _, set in ipairs(row.dtypes) do
    for _, name in ipairs(dtypes.sets[set]) do has[kind_of[name]] = true end
  end
  return (has.F and "F" or "") .. (has.I and "I" or "") .. (has.C and "C" or "")
end

-- For each pointwise row: its name, its functor, how many tensors and numbers that takes, its loops,
-- whether its integers divide, whether it takes and gives floats, the input that is a mask (from 0;
-- -1 for none), whether the result is one; `slow` and `cpu_only` as in the row.
function pointwise_list.kernels(rows)
  local out = {}
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then
      local tensors, mask = 0, -1
      for _, arg in ipairs(row.args) do
        if arg.info.unpromoted then mask = tensors end
        if arg.info.tensor then tensors = tensors + 1 end
      end
      out[#out + 1] = {
        name = row.name, functor = row.functor or row.camel, tensors = tostring(tensors),
        numbers = tostring(#row.args - tensors), loops = loops(row),
        divides = tostring(row.divides == true), cpu_only = row.cpu_only,
        mask = tostring(mask), truth = tostring(row.result == "bool"), slow = row.slow,
        floating = not row.result and loops(row):find "F" ~= nil,
      }
    end
  end
  return out
end

return pointwise_list
