-- stdlib/nn/layer.lua: what the layers share: making classes whose constructor reads a signature,
-- and errors that name the layer.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

local layer = {}

--- A class of layers: `init(self, o)` gets the arguments of the constructor as a table by name,
--- read by `parameters`, in the notation of moonlet.signature.
---@param name string
---@param parameters string
---@param init fun(self: table, o: table)
---@return table class
---@return table reader
function layer.define(name, parameters, init)
  local cls = class(name, Module)
  local read = signature(("nn.%s(%s)"):format(name, parameters))
  function cls:init(...) init(self, read:table(...)) end
  return cls, read
end

local function finish(self, ok, first, ...)
  if ok then return first, ... end
  if type(first) ~= "string" then error(first, 0) end
  local where, message = first:match("^(.-:%d+: )(.*)$")
  error(("%s%s: %s"):format(where or "", self:describe(), message or first), 0)
end

--- Runs `f(...)`; an error gets the layer's description in front.
function layer.run(self, f, ...)
  return finish(self, pcall(f, ...))
end

--- A new parameter of uninitialised values with the options `dtype` and `device` of `o`.
---@param size integer[]
---@param o table
---@return Tensor
function layer.parameter(size, o)
  return parameter.new(ml.empty(size, { dtype = o.dtype, device = o.device }))
end

--- A convolution's padding as an array: numbers, or "valid", which is none, or "same", which keeps
--- the size and wants odd extents and stride 1.
---@param where string
---@param padding integer[]|string
---@param kernel_size integer[]
---@param stride integer[]
---@param dilation integer[]
---@return integer[]
function layer.padding(where, padding, kernel_size, stride, dilation)
  if type(padding) == "table" then return padding end
  local out = {}
  if padding ~= "valid" and padding ~= "same" then
    options.fail("%s: 'padding' must be numbers, \"same\" or \"valid\", got %q", where, padding)
  end
  for i = 1, #kernel_size do
    local reach = padding == "same" and dilation[i] * (kernel_size[i] - 1) or 0
    if reach % 2 ~= 0 or (padding == "same" and stride[i] ~= 1) then
      options.fail("%s: padding \"same\" wants odd kernels and stride 1", where)
    end
    out[i] = reach // 2
  end
  return out
end

--- `index` as a position from 1 among `count` rows, where negative ones count from the end; nil
--- stays nil.
---@param where string
---@param index? integer
---@param count integer
---@return integer?
function layer.row(where, index, count)
  if index == nil then return nil end
  local row = index < 0 and count + 1 + index or index
  if row < 1 or row > count then
    options.fail("%s: 'padding_idx' %d is out of range; there are %d rows, counted from 1", where,
      index, count)
  end
  return row
end

--- The options that every layer with parameters ends its declaration with.
layer.factory = ", string? device=nil, string? dtype=nil"

return layer
