-- stdlib/modes.lua: ml.autocast and ml.override: what stands between a script's calls and the ops,
-- for one function or for the rest of a block.

local ml = require "moonlet"
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable

local modes = {}

local under = require("moonlet.options").under

local read_autocast = signature(
  'modes.autocast(string device="cpu", string? dtype=nil, bool enabled=true)', "autocast")

local function cast_under(given, ...)
  return under("autocast", ml._autocast(given.device, given.dtype, given.enabled), ...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, in automatic mixed
--- precision: each op computes in the floating dtype that suits it. Products and convolutions run
--- in `dtype`, losses in float32, on the CPU also Fourier transforms, factorizations and 3-d
--- pooling, on CUDA sums, exponentials and norms; what joins tensors (on CUDA: what multiplies
--- several) takes the widest of theirs. float64 stays, and so do in-place and out= forms. A
--- parameter is cast once. Gradients have the dtype of their leaf. `ml.ops.info(name).autocast`
--- holds an op's policies by device.
--- > ml.autocast({ dtype = ml.bfloat16 }, function() return ml.mm(ml.eye(3), ml.eye(3)).dtype end)
---   bfloat16
---@param options? {device?: string, dtype?: moonlet.dtype, enabled?: boolean}
---@param options.device? string the type of device whose ops are cast (default "cpu")
---@param options.dtype? moonlet.dtype bfloat16 on the CPU and float16 on CUDA devices unless given
---@param options.enabled? boolean false turns autocast off inside (default true)
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
---@source Micikevicius and others, "Mixed precision training", 2018
---@see is_autocast_enabled
function modes.autocast(options, f, ...)
  if is_callable(options) then
    fail "autocast: use autocast({device=, dtype=, enabled=}, f, ...), got function"
  end
  return cast_under(read_autocast:before_function(options, f, ...))
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with `handler` in place
--- of each op, also of those inside other ops and in backward: `handler(op, arguments, call)` gives
--- the op's results. `op` describes it as `ml.ops.info` does. `arguments` are those of the
--- function, by position or name, dimensions from 1, defaults filled in; they may be changed.
--- `call(arguments)`, or `call(a, b, ...)`, goes on and returns the op's results. Ops that the
--- handler calls do not come to it.
--- > show = function(op, arguments, call) print(op.name) return call(arguments) end
--- > ml.override(show, function() return ml.ones(2) + 1 end)
---   ones
---   full
---   fill_
---   add
---   {2., 2.}
---   Tensor (2,) float32
---@param handler fun(op: moonlet.Op, arguments: table, call: fun(...): ...): ... gives the
---   results of an op
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function modes.override(handler, f, ...)
  return under("override", ml._override(handler), f, ...)
end

return namespace("modes", modes)
