-- stdlib/autograd/forward_ad.lua: ml.autograd.forward_ad: forward-mode differentiation: dual
-- tensors carry a tangent, and each op computes the directional derivative beside its result.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local forward_ad = {}

--- Runs `f`, or the rest of the block that holds the result with `<close>`, in a level of
--- forward-mode differentiation: tensors of `make_dual` carry tangents there, which each op passes
--- on. Levels may be nested.
--- > fwd = ml.autograd.forward_ad
--- > fwd.dual_level(function()
---     return fwd.unpack_dual(ml.sin(fwd.make_dual(ml.zeros(2), ml.ones(2)))) end)
---   {0., 0.}
---   Tensor (2,) float32
---   {1., 1.}
---   Tensor (2,) float32
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function forward_ad.dual_level(f, ...)
  return options.under("forward_ad.dual_level", ml._forward_level(), f, ...)
end

-- The levels of enter_dual_level, the innermost last.
local entered = {}

--- Enters a level of forward-mode differentiation, which `exit_dual_level` leaves: for the prompt.
--- `dual_level` leaves by itself.
--- > ml.autograd.forward_ad.enter_dual_level()
---   1
--- > ml.autograd.forward_ad.exit_dual_level()
---@return integer level how many are open
function forward_ad.enter_dual_level()
  entered[#entered + 1] = ml._forward_level()
  return #entered
end

local read_exit = signature "forward_ad.exit_dual_level(int>=1? level=nil)"

--- Leaves the level of forward-mode differentiation that was entered last.
--- > level = ml.autograd.forward_ad.enter_dual_level()
--- > ml.autograd.forward_ad.exit_dual_level(level)
--- > level
---   1
---@param options? {level?: integer}
---@param options.level? integer the level to leave, as `enter_dual_level` gave it, which must
---   be the innermost
function forward_ad.exit_dual_level(...)
  local level = read_exit(...)
  if #entered == 0 then fail "forward_ad.exit_dual_level: no level was entered" end
  if level and level ~= #entered then
    fail("forward_ad.exit_dual_level: level %d is to end, the last one is %d", level, #entered)
  end
  local _ <close> = table.remove(entered)
end

local read_dual = signature "forward_ad.make_dual(Tensor tensor, Tensor tangent)"

--- Makes a dual tensor of a value and a tangent, in the innermost level.
--- > fwd = ml.autograd.forward_ad
--- > fwd.dual_level(function()
---     local x = fwd.make_dual(ml.tensor(3.0), ml.tensor(1.0))
---     return fwd.unpack_dual(x * x) end)
---   9.  Tensor () float32	6.  Tensor () float32
---@param tensor moonlet.Tensor the value, a floating or complex tensor
---@param tangent moonlet.Tensor the tangent, of the same shape and dtype
---@return moonlet.Tensor dual
---@shape tensor (*), tangent (*) -> (*)
function forward_ad.make_dual(...)
  local tensor, tangent = read_dual(...)
  return ml._make_dual(tensor, tangent)
end

local read_unpack = signature "forward_ad.unpack_dual(Tensor tensor)"

--- Splits a dual tensor into its value and its tangent in the innermost level; the tangent is nil
--- where it has none, which stands for zero.
--- > fwd = ml.autograd.forward_ad
--- > fwd.dual_level(function() return fwd.unpack_dual(ml.ones(2)) end)
---   {1., 1.}
---   Tensor (2,) float32
---   nil
---@param tensor moonlet.Tensor a tensor
---@return moonlet.Tensor primal
---@return moonlet.Tensor? tangent
---@shape tensor (*) -> primal (*), tangent (*)
function forward_ad.unpack_dual(...)
  return ml._unpack_dual((read_unpack(...)))
end

return options.namespace("forward_ad", forward_ad)
