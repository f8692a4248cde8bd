-- tests/lua/ops/internal_ops_test.lua: the ops that are the library's own stay out of what scripts see,
-- are ops as any other besides, and the gradients among them have one scheme of names.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local index = require "moonlet.help.index"
local repl = require "moonlet.repl"
local test, expect = harness.test, harness.expect

-- The rows of internal ops, each once, with the names of their forms.
local rows, names = {}, {}
for _, name in ipairs(ml.ops.list()) do
  local op = ml.ops.info(name)
  if op.internal then
    names[#names + 1] = name
    if not rows[op.row] then rows[op.row] = op end
  end
end

test("gradients, their ops' own forms and the steps of optimisers are internal", function()
  expect.truthy(#names >= 30, #names)
  for _, row in ipairs { "softmax_grad_x", "relu_grad_x", "native_conv_grad_weight",
      "layer_norm_grad_x", "embedding_grad_weight", "max_pool2d_grad_x_grad_grad", "slice_grad_x",
      "native_layer_norm", "native_batch_norm", "native_nll_loss", "native_attention", "sgd_step",
      "adam_step", "adam_capturable_step" } do
    expect.truthy(rows[row], row)
  end
  for _, name in ipairs { "softmax", "add_", "gelu_tanh", "index_put_" } do
    expect.equal(ml.ops.info(name).internal, false, name)
  end
end)

test("internal ops are no fields of ml, no methods and no names of functional", function()
  local x = ml.ones(2)
  for _, name in ipairs(names) do
    expect.equal(rawget(ml, name), nil, name)
    expect.equal(ml._methods[name], nil, name)
    expect.equal(rawget(ml.nn.functional, name), nil, name)
    expect.error(function() return ml[name] end, "moonlet has no field '" .. name .. "'")
    expect.error(function() return x[name] end, name)
  end
end)

-- The entries behind the index are those that the pages of the reference are written from.
test("internal ops are in no help, stub or completion", function()
  local file = assert(io.open(assert(os.getenv "MOONLET_BUILD") .. "/interp/op_stubs.lua"))
  local stubs = file:read "a"
  file:close()
  expect.truthy(stubs:find("function ml.softmax(", 1, true))
  expect.truthy(stubs:find("function Tensor:softmax(", 1, true))
  for _, name in ipairs(names) do
    expect.equal(index.by_name[name], nil, name)
    expect.equal(index.by_name["Tensor." .. name], nil, name)
    for _, before in ipairs { "function ml.", "function Tensor:" } do
      expect.truthy(not stubs:find(before .. name .. "(", 1, true), name .. " in the stubs")
    end
    for _, before in ipairs { "ml.", "ml.zeros(1):" } do
      local _, offered = repl.complete(before .. name, "")
      expect.equal(#offered, 0, before .. name)
    end
  end
end)

test("internal ops can be called, recorded and intercepted", function()
  local grad = ml.randn(3, 4):requires_grad_(true)
  local result = ml.randn(3, 4):softmax(2)
  local seen = {}
  local function handler(op, arguments, call)
    seen[op.name] = true
    return call(table.unpack(arguments, 1, #op.arguments))
  end
  local got = ml.override(handler, ml._internal.softmax_grad_x, grad, result, 2)
  expect.truthy(seen.softmax_grad_x)
  expect.near((got - result * (grad - (grad * result):sum(2, true))):abs():max():item(), 0)
  expect.truthy(got.requires_grad)
  expect.error(function() ml._internal.softmax_grad_x(grad, result) end, "softmax_grad_x: ")
  for _, name in ipairs(names) do
    local callable = ml.ops.info(name).form ~= "out"
    expect.equal(ml._internal[name] ~= nil, callable, name)
  end
end)

test("a gradient op is named OP_grad_ARG, and takes grad first", function()
  local found = 0
  for _, name in ipairs(ml.ops.list()) do
    local op = ml.ops.info(name)
    local of, argument = op.row:match "^(.+)_grad_(.+)$"
    expect.truthy(of or not op.row:find "_backward" and not op.row:find "_grad$", op.row)
    if of and op.form == "plain" then
      found = found + 1
      local has_argument = false
      for _, position in ipairs(ml.ops.info(of).arguments) do
        has_argument = has_argument or position.name == argument
      end
      expect.truthy(has_argument, ("%s: %s has no argument %s"):format(op.row, of, argument))
      expect.equal(op.arguments[1].name, "grad", op.row)
      expect.truthy(op.internal, op.row)
    end
  end
  expect.truthy(found >= 20, found)
end)

harness.run()
