-- stdlib/autograd/forward_ad.lua: ml.autograd.forward_ad: tensors with tangents, whose ops give
-- directional derivatives beside their results.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local forward_ad = {}

--- Runs `f`, or the rest of the block that holds the result with `<close>`, in a level of forward
--- mode: tensors of `make_dual` carry tangents there, and each op passes them on. Levels may be
--- inside one another. As `torch.autograd.forward_ad.dual_level`.
--- > fwd = ml.autograd.forward_ad
--- > return fwd.dual_level(function()
---     return fwd.unpack_dual(ml.sin(fwd.make_dual(ml.zeros(2), ml.ones(2)))) end)
---@param f? function
---@param ... any what f gets
---@return any ... its results, or the value to hold
function forward_ad.dual_level(f, ...)
  return options.under("forward_ad.dual_level", ml._forward_level(), f, ...)
end

-- The levels of enter_dual_level, the innermost last.
local entered = {}

--- Begins a level, which `exit_dual_level` ends: for a prompt; `dual_level` ends by itself.
---@return integer level how many are open
function forward_ad.enter_dual_level()
  entered[#entered + 1] = ml._forward_level()
  return #entered
end

local read_exit = signature "forward_ad.exit_dual_level(int>=1? level=nil)"

--- Ends the level that was begun last; `level` is what `enter_dual_level` gave.
---@param options? {level?: integer}
function forward_ad.exit_dual_level(...)
  local level = read_exit(...)
  if #entered == 0 then fail "forward_ad.exit_dual_level: no level was entered" end
  if level and level ~= #entered then
    fail("forward_ad.exit_dual_level: level %d is to end, the last one is %d", level, #entered)
  end
  local _ <close> = table.remove(entered)
end

local read_dual = signature "forward_ad.make_dual(Tensor tensor, Tensor tangent)"

--- `tensor` with a tangent of its shape and dtype, in the innermost level.
---@param tensor moonlet.Tensor
---@param tangent moonlet.Tensor
---@return moonlet.Tensor dual
function forward_ad.make_dual(...)
  local tensor, tangent = read_dual(...)
  return ml._make_dual(tensor, tangent)
end

local read_unpack = signature "forward_ad.unpack_dual(Tensor tensor)"

--- A tensor without its tangent, and the tangent of the innermost level, or nil where it has none:
--- then it is zero.
---@param tensor moonlet.Tensor
---@return moonlet.Tensor primal
---@return moonlet.Tensor? tangent
function forward_ad.unpack_dual(...)
  return ml._unpack_dual((read_unpack(...)))
end

return options.namespace("forward_ad", forward_ad)
