-- stdlib/nn/parameter.lua: parameters: tensors that modules hold and optimisers change. A tensor
-- is a parameter because it was made one, not because it requires a gradient; and so is a buffer.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local parameter = {}

-- What a tensor was made: "parameter", "buffer" or, for one that its state dict lacks, "transient".
local marks = setmetatable({}, { __mode = "k" })
-- The tensors whose shape is not known yet.
local shapeless = setmetatable({}, { __mode = "k" })

--- Whether a value was made a parameter by `nn.Parameter`.
--- > ml.nn.is_parameter(ml.nn.Linear(2, 3).weight)
---   true
---@param value any any value
---@return boolean
function parameter.is_parameter(value)
  return value ~= nil and marks[value] == "parameter"
end

--- Whether `value` was made by `nn.Buffer`, and whether it is persistent.
---@param value any
---@return boolean is_buffer
---@return boolean persistent
function parameter.is_buffer(value)
  local mark = value ~= nil and marks[value]
  return mark == "buffer" or mark == "transient", mark == "buffer"
end

signature.add_type("Parameter", "an nn.Parameter", function(value)
  return parameter.is_parameter(value) and value or nil
end)

local function marked(data, mark)
  local result = data:detach()
  marks[result] = mark
  return result
end

local read = signature "nn.Parameter(Tensor data, bool requires_grad=true)"

--- Makes a tensor a parameter: one that modules find and optimisers train. It is on the memory of
--- `data`, outside of its graph.
--- > ml.nn.Parameter(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32 requires_grad
---@param data Tensor the tensor
---@param requires_grad? boolean whether gradients are computed for it; false freezes it
---@return Tensor parameter
---@shape data (*) -> (*)
function parameter.new(...)
  local data, requires_grad = read(...)
  return marked(data, "parameter"):requires_grad_(requires_grad)
end

local read_buffer = signature "nn.Buffer(Tensor data, bool persistent=true)"

--- Makes a tensor a buffer of the module to which it is assigned: state that is saved but not
--- trained.
--- > ml.nn.Buffer(ml.zeros(2))
---   {0., 0.}
---   Tensor (2,) float32
---@param data Tensor the tensor, on whose memory the buffer is
---@param persistent? boolean whether it is in the state dict
---@return Tensor buffer
---@shape data (*) -> (*)
function parameter.buffer(...)
  local data, persistent = read_buffer(...)
  return marked(data, persistent and "buffer" or "transient")
end

--- `copy` as what `original` was made: a parameter, a buffer, of unknown shape, or none of these.
---@param original Tensor
---@param copy Tensor
---@return Tensor copy
function parameter.like(original, copy)
  marks[copy], shapeless[copy] = marks[original], shapeless[original]
  return copy
end

local read_uninitialized_parameter = signature("nn.UninitializedParameter("
  .. "bool requires_grad=true, string? device=nil, string? dtype=nil)")

local function without_shape(result)
  shapeless[result] = true
  return result
end

--- Parameter whose shape is not known yet, as lazy layers have until their first call. Until then
--- it has no elements.
--- > ml.nn.is_lazy(ml.nn.UninitializedParameter())
---   true
---@param requires_grad? boolean whether gradients are computed for it
---@param device where its elements will be: the default device unless given
---@param dtype the dtype of its elements: the default dtype unless given
---@return Tensor parameter
---@shape -> (0), until a layer gives it its shape
function parameter.uninitialized_parameter(...)
  local requires_grad, device, dtype = read_uninitialized_parameter(...)
  return without_shape(parameter.new(ml.empty({ 0 }, { device = device, dtype = dtype }),
    requires_grad))
end

local read_uninitialized_buffer = signature("nn.UninitializedBuffer(bool persistent=true, "
  .. "string? device=nil, string? dtype=nil)")

--- Buffer whose shape is not known yet, as lazy layers have until their first call.
--- > ml.nn.is_lazy(ml.nn.UninitializedBuffer())
---   true
---@param persistent? boolean whether it is in the state dict
---@param device where its elements will be: the default device unless given
---@param dtype the dtype of its elements: the default dtype unless given
---@return Tensor buffer
---@shape -> (0), until a layer gives it its shape
function parameter.uninitialized_buffer(...)
  local persistent, device, dtype = read_uninitialized_buffer(...)
  return without_shape(parameter.buffer(ml.empty({ 0 }, { device = device, dtype = dtype }),
    persistent))
end

--- Whether a value is a parameter or buffer whose shape is not known yet.
--- > ml.nn.is_lazy(ml.nn.LazyLinear(3).weight)
---   true
---@param value any any value
---@return boolean
function parameter.is_uninitialized(value) return value ~= nil and shapeless[value] == true end

--- Gives a tensor of unknown shape that shape; its elements are not set. It stays the same Lua
--- value, so that an optimiser that holds it sees them.
---@param tensor Tensor
---@param size integer[]
---@return Tensor tensor
function parameter.materialize(tensor, size)
  if not shapeless[tensor] then options.fail("materialize: the tensor has a shape already") end
  local whole = ml.empty(size, { dtype = tensor.dtype, device = tensor.device })
  whole:requires_grad_(tensor.requires_grad)
  shapeless[tensor] = nil
  ml._rebind(tensor, whole)
  return tensor
end

--- Forgets the gradients of an array of parameters, so that their memory is free for the next ones,
--- or fills them with zeros outside their graph; sparse ones then have no rows.
---@param list Tensor[]
---@param set_to_none boolean
function parameter.clear_gradients(list, set_to_none)
  for _, p in ipairs(list) do
    if set_to_none then
      p.grad = nil
    else
      local gradient = p.grad
      if gradient and gradient.is_sparse then
        gradient:zero_()
      elseif gradient then
        p.grad = gradient:detach():fill_(0)
      end
    end
  end
  if set_to_none then ml._gradients_dropped() end
end

return parameter
