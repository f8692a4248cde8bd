-- tensor/ops/gen/emit_run_ops.lua: `emit_run_ops:FILE`: the ops that a file lists, one a line, as `program:ops()`
-- gives them: a kernel table of these, and a RawOp for each, in the place of those of all ops. What code of
-- tensor/ calls itself is there too.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill
local raw_op = require "tensor.ops.gen.raw_op_text"
local run_list = require "tensor.ops.gen.run_list"

local file = [[
// Generated from $list: the ops of programs that this library runs.
#include "tensor/core/kernel_call.h"
#include "tensor/core/raw_op.h"
#include "tensor/core/views.h"
$includes

namespace moonlet {

namespace {
template <class F>
struct Missing;
template <class R, class... P>
struct Missing<R (*)(P...)> {
  static R call(P...) { fail("an op is needed that this library was built without (option ops)"); }
};
void missing_pointwise(const PointwisePlan&) {
  fail("an op is needed that this library was built without (option ops)");
}

$parts

const RawOp kOps[] = {
    $ops
};
const RawOpFamily kFamily{kOps};
}  // namespace

extern const KernelTable cpu_kernels;
const KernelTable cpu_kernels = {
    $fields
    .pointwise_ops = {$lists},
};

}  // namespace moonlet
]]

local function add_family(out, rows, family, wanted)
  local struct, kernels, pointwise = cpptext.kernel_struct(family), {}, {}
  for _, row in ipairs(rows) do
    if row.family == family and row.kind == "pointwise" then
      pointwise[#pointwise + 1] = wanted[row.name] and "cpu::" .. row.name or "missing_pointwise"
    elseif row.family == family and cpptext.has_kernel(row) then
      kernels[#kernels + 1] = (".%s = %s,"):format(row.name, wanted[row.name] and "cpu::" .. row.name
        or ("Missing<decltype(%s::%s)>::call"):format(struct, row.name))
    end
  end
  out[#out + 1] = ("const %s %s = {\n    %s\n};"):format(struct, family, table.concat(kernels, "\n    "))
  if #pointwise == 0 then return "nullptr" end
  out[#out + 1] = ("const PointwiseKernel %s_ops[] = {\n    %s};"):format(family,
    table.concat(pointwise, ",\n    "))
  return family .. "_ops"
end

return function(_, path, rows, root)
  local wanted = run_list.wanted(path, rows, root)
  local includes, parts, fields, lists, ops = {}, {}, {}, {}, {}
  for _, row in ipairs(rows) do
    if wanted[row.name] and row.kind ~= "composite" then ops[#ops + 1] = raw_op(row) end
  end
  for i, family in ipairs(cpptext.families(rows)) do
    includes[#includes + 1] = ('#include "tensor/kernels_%s.h"\n#include "tensor/raw_%s.h"'):format(family, family)
    lists[i] = add_family(parts, rows, family, wanted)
    fields[i] = (".%s = &%s,"):format(family, family)
  end
  return fill(file, { list = path, includes = includes, parts = parts, ops = ops, fields = fields,
    lists = table.concat(lists, ", ") }) .. "\n"
end
