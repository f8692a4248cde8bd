-- tests/generator/run_ops.lua: what the option `ops` makes of a list: RawOps and kernels of the ops listed
-- and of those that tensor/ itself calls, and nothing of others; a name that is no op is refused.
-- usage: lua run_ops.lua ROOT FAMILY,FAMILY,...

local root = arg[1]
package.path = root .. "/?.lua;" .. package.path
local emit = require "tensor.ops.gen.emit_run_ops"
local parse = require "tensor.ops.gen.parse"

local families = {}
for family in arg[2]:gmatch "[^,]+" do families[#families + 1] = family end
local rows = parse.rows(root, families)

local path = os.tmpname()
local function emitted(list)
  local file = assert(io.open(path, "w"))
  file:write(list)
  file:close()
  return pcall(emit, {}, path, rows, root)
end

local failures = 0
local function expect(condition, what)
  if condition then return end
  failures = failures + 1
  print("FAIL " .. what)
end

local ok, text = emitted "softmax\ntanh  # a comment\n\nexpand\n"
expect(ok, tostring(text))
for _, name in ipairs { "softmax", "tanh", "expand", "copy", "strided_view" } do
  expect(text:find(('.name = "%s"'):format(name), 1, true), name .. " has no RawOp")
end
for _, name in ipairs { "cumsum", "exp", "log_softmax", "unfold" } do
  expect(not text:find(('.name = "%s"'):format(name), 1, true), name .. " has a RawOp")
end
expect(text:find(".softmax = cpu::softmax,", 1, true), "softmax has no kernel")
expect(text:find(".log_softmax = Missing<", 1, true), "log_softmax has a kernel")
expect(text:find("cpu::tanh", 1, true) and not text:find("cpu::exp,", 1, true), "kernels of pointwise ops")

for _, name in ipairs { "softmaxx", "dropout" } do
  local fine, reason = emitted(name)
  expect(not fine and reason:find(("no op '%s' for programs"):format(name), 1, true), name .. " is taken")
end
os.remove(path)
print(failures == 0 and "all as expected" or failures .. " failures")
os.exit(failures == 0 and 0 or 1)
