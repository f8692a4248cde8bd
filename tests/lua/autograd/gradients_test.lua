-- tests/lua/autograd/gradients_test.lua: every result of an op sample carries a gradient exactly where
-- PyTorch's does (tests/reference/values/gradients.json), so that no row drops one silently.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local harness = require "harness"
local samples = require "op_samples"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return json.decode(text)
end

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES"))
local wanted = {}
for _, entry in ipairs(read(assert(os.getenv "MOONLET_SOURCE") .. "/tests/reference/values/gradients.json")) do
  wanted[entry.name .. "\0" .. entry.sample] = entry.gives
end

-- "10": which results of a sample require grad when argument k alone does.
local function carried(case, i, k)
  local args = samples.arguments(case, i)
  args[k] = args[k]:detach():clone():requires_grad_(true)
  local out = {}
  for j, y in ipairs(samples.results(case, args)) do
    out[j] = ml.is_tensor(y) and (y.requires_grad and "1" or "0") or "-"
  end
  return table.concat(out)
end

-- Arguments without a gradient here, where PyTorch records one of zeros or one that raises.
local NONE = {}
for _, name in ipairs { "leaky_relu_grad_x", "hardtanh_grad_x", "hardsigmoid_grad_x", "threshold_grad_x",
  "hardshrink_grad_x" } do
  NONE[name] = { [2] = "a step's gradient is 0" }
end
for _, name in ipairs { "cdist_grad_x1", "pdist_grad_x" } do
  NONE[name] = { "never recorded", "never recorded", "never recorded", "never recorded" }
end
NONE.heaviside = { "PyTorch's raises", "PyTorch's raises" }
for _, name in ipairs { "linalg_ldl_factor", "linalg_ldl_factor_ex", "geqrf" } do
  NONE[name] = { "PyTorch's raises" }
end
NONE.linalg_ldl_solve = { "PyTorch's raises", [3] = "PyTorch's raises" }
NONE.histogram_position = { "a step's gradient is 0" }
NONE.unique = { "PyTorch's raises" }
NONE["addr(randn(4), randn(3), randn(4), 0)"] = { "the argument is not read" }

local function without_gradient(case, text, k)
  local why = NONE[case.name] or NONE[("%s(%s)"):format(case.name, text)]
  return why and why[k]
end

-- Samples whose second result, residuals, has no elements, which PyTorch records none the less.
local NO_RESIDUALS = { ["randn(4, 2), randn(4, 3)"] = "1000", ["randn(2, 4), randn(2, 1)"] = "1000" }

local checked = 0
for _, case in ipairs(cases) do
  for i, text in ipairs(case.samples) do
    local gives = wanted[case.name .. "\0" .. text]
    if gives then
      checked = checked + 1
      harness.test(("gradients of %s(%s)"):format(case.name, text), function()
        for k, want in pairs(gives) do
          local at = math.tointeger(tonumber(k))
          if without_gradient(case, text, at) then want = want:gsub("1", "0") end
          if case.name == "linalg_lstsq" then want = NO_RESIDUALS[text] or want end
          harness.expect.equal(carried(case, i, at), want, "argument " .. k)
        end
      end)
    end
  end
end

harness.test("most samples are known", function() harness.expect.truthy(checked > 1200, checked) end)
harness.run()
