-- tensor/ops/gen/emit_op_hash.lua: a fingerprint of all rows. Two builds with the same one agree on
-- the layout of the kernel tables and on how each kernel is called.

local fill = require("tensor.ops.gen.template").fill

-- FNV-1a of 64 bits.
local function hash(text)
  local out = 0xcbf29ce484222325
  for i = 1, #text do out = (out ~ text:byte(i)) * 0x100000001b3 end
  return out
end

local file = [[
// tensor/op_table_hash.h: generated from tensor/ops/*.lua: a fingerprint of all rows.
#pragma once

#include <cstdint>

namespace moonlet {

inline constexpr uint64_t kOpTableHash = $hash;

}  // namespace moonlet
]]

return function(rows)
  local lines = {}
  for i, row in ipairs(rows) do
    lines[i] = ("%s: %s %s"):format(row.family, row.kind, row.signature:gsub("%s+", " "))
  end
  return fill(file, { hash = ("0x%016xu"):format(hash(table.concat(lines, "\n"))) }) .. "\n"
end
