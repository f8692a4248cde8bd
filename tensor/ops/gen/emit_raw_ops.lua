-- tensor/ops/gen/emit_raw_ops.lua: the ops of a family without the tape as values at run time: a RawOp
-- for each row that is no composite, with boxed calls of its forms (tensor/core/raw_op.h).

local fill = require("tensor.ops.gen.template").fill
local raw_op = require "tensor.ops.gen.raw_op_text"

local file = [[
// Generated from tensor/ops/$family.lua: the ops of the family without the tape, as values at run time.
#include "tensor/core/kernel_call.h"
#include "tensor/core/raw_op.h"
#include "tensor/core/views.h"
#include "tensor/kernels_$family.h"
#include "tensor/raw_$family.h"

namespace moonlet {
namespace {

const RawOp kOps[] = {
    $ops
};
const RawOpFamily kFamily{kOps};

}  // namespace
}  // namespace moonlet
]]

return function(rows, family)
  local ops = {}
  for _, row in ipairs(rows) do
    if row.kind ~= "composite" and not row.left_out then ops[#ops + 1] = raw_op(row) end
  end
  if #ops == 0 then
    return ("// Generated from tensor/ops/%s.lua: the build has no op of the family but those made of others.\n"):format(
      family)
  end
  return fill(file, { family = family, ops = ops }) .. "\n"
end
