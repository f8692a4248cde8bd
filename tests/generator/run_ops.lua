-- tests/generator/run_ops.lua: what the option `ops` makes of a list: RawOps, kernels, tape and bindings of
-- the ops listed, RawOps and kernels of those that sources themselves call, and of others only what says that
-- they are left out; a name that is no op is refused.
-- usage: lua run_ops.lua ROOT FAMILY,FAMILY,...

local root = arg[1]
package.path = root .. "/?.lua;" .. package.path
local parse = require "tensor.ops.gen.parse"
local run_list = require "tensor.ops.gen.run_list"

local families = {}
for family in arg[2]:gmatch "[^,]+" do families[#families + 1] = family end
local rows = parse.rows(root, families)

local path = os.tmpname()
local function mark(list)
  local file = assert(io.open(path, "w"))
  file:write(list)
  file:close()
  return pcall(run_list.mark, path, rows, root)
end

-- What an emitter writes, of one family or all.
local function emitted(emitter, family)
  local emit = require("tensor.ops.gen." .. emitter)
  return emit(family == "cpu" and rows or parse.family(rows, family), family, rows, root)
end

local failures = 0
local function expect(condition, what)
  if condition then return end
  failures = failures + 1
  print("FAIL " .. what)
end
local function has(text, piece) return text:find(piece, 1, true) ~= nil end

local function is_listed(name)
  for _, row in ipairs(rows) do
    if row.name == name then return not row.left_out end
  end
end

local ok, reason = mark "special.exp2\nmul_\nlinalg.cross"
expect(ok and is_listed "exp2" and is_listed "mul" and is_listed "linalg_cross" and not is_listed "exp",
  "names that scripts call ops by: " .. tostring(reason))
ok, reason = mark "softmax\ntanh  # a comment\n\nexpand\nadd_scaled\ndropout\n"
expect(ok, tostring(reason))
local raw = {}
for i, family in ipairs(families) do raw[i] = emitted("emit_raw_ops", family) end
raw = table.concat(raw)
for _, name in ipairs { "softmax", "tanh", "expand", "copy", "strided_view" } do
  expect(has(raw, ('.name = "%s"'):format(name)), name .. " has no RawOp")
end
for _, name in ipairs { "cumsum", "exp", "log_softmax", "unfold" } do
  expect(not has(raw, ('.name = "%s"'):format(name)), name .. " has a RawOp")
end

local kernels = emitted("emit_kernel_table", "cpu")
expect(has(kernels, ".softmax = cpu::softmax,"), "softmax has no kernel")
expect(has(kernels, ".log_softmax = Missing<"), "log_softmax has a kernel")
expect(has(kernels, "cpu::tanh") and not has(kernels, "cpu::exp,"), "kernels of pointwise ops")
expect(has(emitted("emit_pointwise_cpu", "math"), "X(tanh,") and
  not has(emitted("emit_pointwise_cpu", "math"), "X(exp,"), "loops of pointwise ops")
expect(not has(emitted("emit_pointwise_cpu", "loss"), "#include"), "loops of a family without ops")

local tape = emitted("emit_tape", "softmax")
expect(has(tape, "raw::softmax") and not has(tape, "raw::log_softmax"), "public ops")
expect(has(tape, 'op_left_out("log_softmax")'), "log_softmax is not told to be left out")
expect(has(emitted("emit_tape", "nn"), "dropout_composite"), "a composite that is listed")
local info = emitted("emit_info", "softmax")
expect(has(info, '"softmax"') and not has(info, '"log_softmax"'), "ops as values")
expect(not has(emitted("emit_info", "fft"), "#include"), "values of a family without ops")
local bindings = emitted("emit_bindings", "softmax")
expect(has(bindings, '{"softmax", op_guard<') and has(bindings, '{"log_softmax", nullptr, '), "bindings")
-- `a:add(b)` and `a:add(b, alpha)` are one function in Lua, and -x is none of them.
expect(has(emitted("emit_bindings", "arithmetic"), '{"add", op_guard<'), "the other form of an overload")
expect(has(emitted("emit_bindings", "arithmetic"), '{"neg", nullptr, true, true, false, "__unm"}'), "neg")

expect(not mark "softmaxx", "softmaxx is taken")
ok, reason = mark "softmax\nsoftmaxx"
expect(not ok and has(reason, "there is no op 'softmaxx'"), tostring(reason))
os.remove(path)
print(failures == 0 and "all as expected" or failures .. " failures")
os.exit(failures == 0 and 0 or 1)
