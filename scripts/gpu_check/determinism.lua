-- scripts/gpu_check/determinism.lua: the same work twice gives the same bits.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"

ml.backends.cudnn.deterministic = true
local rows = common.emulated and 300 or 100000
local cases = {
  sum = function(x) return x:sum() end,
  ["sum of rows"] = function(x) return x:sum(1) end,
  softmax = function(x) return x:softmax(2) end,
  product = function(x) return x:t():matmul(x) end,
  index_add = function(x, at) return ml.zeros_like(x):index_add(1, at, x) end,
  ["gradient of an embedding"] = function(x, at)
    local w = x:clone():requires_grad_()
    ml.embedding(w, at):square():sum():backward()
    return w.grad
  end,
  ["gradient of a convolution"] = function(x)
    local images = x[{ { 1, 256 } }]:reshape(4, 4, 32, -1):detach()
    local w = ml.ones({ 8, 4, 3, 3 }, { device = "cuda", requires_grad = true })
    ml.conv2d(images, w):square():mean():backward()
    return w.grad
  end,
}

ml.manual_seed(1)
local x = ml.randn(rows, 64):to "cuda"
local at = ml.randint(1, 50, { rows }):to "cuda"
local failed = {}
for name, f in pairs(cases) do
  local same = f(x, at):eq(f(x, at)):all():item()
  common.result(name, same and "same" or "differs")
  if not same then failed[#failed + 1] = name end
end
common.check(#failed == 0, "not the same twice: %s", table.concat(failed, ", "))
