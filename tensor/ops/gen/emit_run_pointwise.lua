-- tensor/ops/gen/emit_run_pointwise.lua: `emit_run_pointwise:FAMILY/FILE`: the CPU's pointwise kernels of a family
-- as far as a file lists their ops, in the place of those of all.

local emit = require "tensor.ops.gen.emit_pointwise_cpu"
local parse = require "tensor.ops.gen.parse"
local run_list = require "tensor.ops.gen.run_list"

return function(_, argument, rows, root)
  local family, path = argument:match "^([%w_]+)(/.*)$"
  local wanted, own = run_list.wanted(path, rows, root), {}
  for _, row in ipairs(parse.family(rows, family)) do
    if row.kind == "pointwise" and wanted[row.name] then own[#own + 1] = row end
  end
  if #own == 0 then
    return "// Generated: no op of programs is a pointwise one of the family " .. family .. ".\n"
  end
  return emit(own, family)
end
