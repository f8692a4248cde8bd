-- tensor/ops/gen/emit_shape_kernels.lua: the kernel table of a device on which nothing is computed, so
-- that ops there only say what their results look like (tensor/program/shape_device.h).

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops/*.lua: kernels that compute nothing.
#include "tensor/program/shape_device.h"

$includes

namespace moonlet::program {

namespace {
void no_elements(const PointwisePlan&) {}

template <class F>
struct NoElements;
template <class... P>
struct NoElements<void (*)(P...)> {
  static void call(P...) {}
};
// The kernel makes the result itself.
template <class R, class... P>
struct NoElements<R (*)(P...)> {
  static R call(P...) { fail_on_values(); }
};

$parts
}  // namespace

const KernelTable& shape_kernels() {
  static constexpr KernelTable table = {
      $fields
      .pointwise_ops = {$lists},
  };
  return table;
}

}  // namespace moonlet::program
]]

local struct_template = [[
constexpr $struct $family = {
    $kernels
};]]

-- Appends the struct of a family and returns the name of its list of pointwise kernels.
local function add_family(out, rows, family)
  local struct, kernels, pointwise = cpptext.kernel_struct(family), {}, {}
  for _, row in ipairs(rows) do
    if row.family == family and row.kind == "pointwise" then
      pointwise[#pointwise + 1] = "no_elements"
    elseif row.family == family and cpptext.has_kernel(row) then
      kernels[#kernels + 1] = (".%s = NoElements<decltype(%s::%s)>::call,"):format(row.name, struct, row.name)
    end
  end
  out[#out + 1] = fill(struct_template, { struct = struct, family = family, kernels = kernels })
  if #pointwise == 0 then return "nullptr" end
  out[#out + 1] = ("constexpr PointwiseKernel %s_ops[] = {\n    %s};"):format(family,
    table.concat(pointwise, ", "))
  return family .. "_ops"
end

return function(rows)
  local includes, parts, fields, lists = {}, {}, {}, {}
  for i, family in ipairs(cpptext.families(rows)) do
    includes[i] = ('#include "tensor/kernels_%s.h"'):format(family)
    lists[i] = add_family(parts, rows, family)
    fields[i] = (".%s = &%s,"):format(family, family)
  end
  return fill(file, { includes = includes, parts = parts, fields = fields, lists = table.concat(lists, ", ") })
    .. "\n"
end
