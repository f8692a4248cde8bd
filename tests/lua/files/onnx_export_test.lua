-- tests/lua/files/onnx_export_test.lua: every op that scripts can call, as an ONNX graph: the first sample of
-- each row is written, read and compared, or refused under the name that scripts know.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local codec = require "moonlet.onnx_codec"
local harness = require "harness"
local ml = require "moonlet"
local messages = require("onnx_case").messages
local nn = ml.nn
local samples = require "op_samples"
local test, expect = harness.test, harness.expect

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))

-- What ONNX has no op for, nor a few that make it up.
local WITHOUT = {}
for name in ([[
  gcd lcm frexp nextafter lgamma digamma polygamma polygamma_of_order mvlgamma igamma igammac erfinv
  i0 ctc_loss fractional_max_pool2d fractional_max_pool3d lstm_packed gru_packed rnn_tanh_packed
  rnn_relu_packed as_strided_scatter view_as_dtype linalg_lu_factor_ex linalg_lu_factor linalg_lu
  lu_unpack linalg_lu_solve linalg_inv_ex inverse linalg_solve_ex linalg_solve
  linalg_solve_triangular linalg_pinv linalg_pinv_by pinverse linalg_lstsq linalg_cholesky_ex
  cholesky cholesky_solve cholesky_inverse linalg_ldl_factor_ex linalg_ldl_factor linalg_ldl_solve
  linalg_qr qr geqrf orgqr ormqr linalg_svd linalg_svdvals svd linalg_eigh linalg_eigvalsh
  linalg_eig linalg_eigvals linalg_matrix_sqrth linalg_polar matrix_exp linalg_cond
  linalg_cond_named linalg_matrix_rank linalg_matrix_rank_by linalg_tensorinv linalg_tensorsolve
]]):gmatch "%S+" do
  WITHOUT[name] = true
end

-- Elements that nobody set.
local UNSET = { empty = true, empty_like = true, empty_in_format = true, new_empty = true }

local function is_complex(tensor) return tostring(tensor.dtype):find "^complex" ~= nil end

-- Complex numbers go in and come out as pairs of real ones.
local function as_pairs(tensor) return is_complex(tensor) and ml.view_as_real(tensor) or tensor end

local Model = nn.class "Model"
function Model:init(case, arguments) self.case, self.arguments = case, arguments end
function Model:forward(...)
  local given, at = { ... }, 0
  local arguments = samples.map(self.case, self.arguments, function(tensor)
    at = at + 1
    return is_complex(tensor) and ml.view_as_complex(given[at]) or given[at]
  end)
  local out = {}
  for _, result in ipairs(samples.results(self.case, arguments)) do
    if ml.is_tensor(result) then out[#out + 1] = as_pairs(result) end
  end
  return table.unpack(out)
end

local function copies(tensors)
  local out = {}
  for i, tensor in ipairs(tensors) do out[i] = tensor:detach():clone() end
  return out
end

local function compare(path, inputs, want)
  local got = table.pack(ml.onnx.load(path)(table.unpack(copies(inputs))))
  expect.equal(got.n, want.n)
  for i = 1, want.n do
    expect.equal(tostring(got[i].shape), tostring(want[i].shape), "result " .. i)
    expect.equal(tostring(got[i].dtype), tostring(want[i].dtype), "result " .. i)
    if not ml.allclose(got[i]:double(), want[i]:double(), { rtol = 1e-4, atol = 1e-5, equal_nan = true })
    then
      error(("result %d is %s, %s is expected"):format(i, tostring(got[i]), tostring(want[i])), 0)
    end
  end
end

local function check(case, arguments, path)
  local inputs = {}
  samples.map(case, arguments, function(tensor)
    inputs[#inputs + 1] = as_pairs(tensor)
    return tensor
  end)
  local model = Model(case, arguments)
  local want = table.pack(ml.no_grad(function() return model(table.unpack(copies(inputs))) end))
  local ok, message = pcall(ml.onnx.export, model, copies(inputs), path)
  if ok then
    expect.falsy(WITHOUT[case.name], "no longer without a translation")
    if not UNSET[case.name] then compare(path, inputs, want) end
    return
  end
  expect.truthy(WITHOUT[case.name], message)
  local name = tostring(message):match "onnx%.export: ([%w_.]+) "
  if name ~= "rand" then expect.equal(name, case.call, message) end
end

local function gives_tensors(info)
  for _, result in ipairs(info.results) do
    if result.type:find "^Tensor" then return true end
  end
  return false
end

-- Steps of optimisers, kernels and ops of a derivative are no part of a model.
local function is_public(case)
  local ok, info = pcall(ml.ops.info, case.name)
  return ok and gives_tensors(info) and case.callable and case.plain and not case.random and not info.internal
    and not case.name:find "_grad" and not case.name:find "^special_" and #case.samples > 0
end

local function with_path(f)
  if codec.unavailable() then harness.skip(codec.unavailable()) end
  harness.with_temp_file(function(path)
    local ok, message = pcall(f, path .. ".onnx")
    os.remove(path .. ".onnx")
    if not ok then error(message, 0) end
  end)
end

for _, case in ipairs(cases) do
  if is_public(case) then
    test(case.name, function()
      with_path(function(path) check(case, samples.arguments(case, 1), path) end)
    end)
  end
end

test("a later set of ops is written where an op needs it", function()
  with_path(function(path)
    local Net = nn.class "Net"
    function Net:forward(t) return t & 3, t:float():amax(2), t:chunk(2, 2)[1] end
    local net = Net()
    ml.onnx.export(net, ml.randint(9, { 2, 4 }), path, { index_inputs = {} })
    expect.equal(messages(path).opset_import[1].version, 18)
    for _, node in ipairs(messages(path).graph.node) do
      if node.op_type == "ReduceMax" then
        expect.equal(#node.input, 2)
        expect.equal(#(node.attribute or {}), 1)
      end
    end
    local ok, message = pcall(ml.onnx.check_model, path)
    if not ok then expect.truthy(message:find "BitwiseAnd.*may be older than that") end
    ml.onnx.export(nn.Linear(4, 3), ml.randn(2, 4), path, { opset_version = 20 })
    local model = messages(path)
    expect.equal(model.opset_import[1].version, 20)
    expect.equal(model.ir_version, 9)
  end)
end)

harness.run()
