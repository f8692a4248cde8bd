-- tests/lua/extension/native_ops_test.lua: ops of an extension through the checks that every row of
-- the op table goes through. Run by tests/extensions/host.cpp, which has loaded it.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "op_checks"
local under_test = require "test_device"

-- What emit_cases.lua writes of a row, of an op that was declared in C++.
local function case_of(name)
  local info = ml.ops.info(name)
  local case = { name = name, call = info.declared.call, inplace_call = info.declared.call .. "_",
    family = info.family, kind = info.kind, dtypes = info.dtypes, args = {}, names = {},
    grads = info.declared.gradients, constant = {}, samples = info.declared.samples, writes = {},
    inplace = info.declared.inplace, out = true, nodiff = {}, differentiable = info.differentiable,
    result = "same", results = #info.results, check = {},
    cpu_only = name ~= "mylib::snake" and "the extension has no kernel for another device" or nil }
  for i, argument in ipairs(info.arguments) do
    case.args[i], case.names[i] = argument.type, argument.name
  end
  return case
end

local function applies(case, check)
  if check == "grad" or check == "gradgrad" then return case.differentiable end
  if check == "no_grad" then return not case.differentiable end
  if check == "inplace" then return case.inplace end
  if check == "broadcast" then return case.kind == "pointwise" and #case.args > 1 end
  return true
end

local ops = {}
for _, name in ipairs(ml.ops.list()) do
  local info = ml.ops.info(name)
  if info.declared and info.form == "plain" then ops[#ops + 1] = name end
end

harness.test("the extension's ops are found", function() harness.expect.equal(#ops, 13) end)

local order = { "grad", "gradgrad", "no_grad", "noncontiguous", "dtypes", "empty", "inplace", "out", "broadcast" }
for _, name in ipairs(ops) do
  local case = case_of(name)
  harness.test(name .. " has a sample", function() harness.expect.truthy(#case.samples > 0) end)
  for i, text in ipairs(case.samples) do
    for _, check in ipairs(order) do
      if applies(case, check) then
        harness.test(("%s(%s): %s"):format(name, text, check), function()
          local reason = checks[check](case, i)
          if reason then harness.skip(reason) end
        end)
      end
    end
  end
end

-- The launch function of the extension computes float32 alone, contiguous or not.
harness.test("a pointwise op on another device", function()
  if not under_test.is_available() then harness.skip "no CUDA device" end
  local x = ml.randn(3, 4)
  local there = x:to "cuda"
  local layouts = { function(t) return t end, function(t) return t:t() end,
    function(t) return t[{ {}, { 1, 4, 2 } }] end }
  for _, layout in ipairs(layouts) do
    local y = ml.ops.mylib.snake(layout(there), 2.0)
    harness.expect.equal(y.device, "cuda:0")
    checks.compare("on cuda", y, ml.ops.mylib.snake(layout(x), 2.0), 1e-6)
  end
  harness.expect.error(function() return ml.ops.mylib.blend(there, there) end, "mylib::blend: there is no CUDA kernel")
  harness.expect.error(function() return ml.ops.mylib.affine(there, there) end, "mylib::affine: there is no CUDA kernel")
  local leaf = x:to("cuda"):requires_grad_(true)
  checks.compare("gradient on cuda", ml.grad(ml.ops.mylib.snake(leaf):sum(), leaf), 1 + (2 * x):sin(), 1e-5)
end)

harness.run()
