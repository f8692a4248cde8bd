-- stdlib/nn/layer.lua: what the layers share: making classes whose constructor reads a signature,
-- and errors that name the layer.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"

local layer = {}

--- A class of layers: `init(self, o)` gets the arguments as a table, read by `spec` as in
--- `options.signature`.
---@param name string
---@param spec table[]
---@param init fun(self: table, o: table)
---@param parent? table
---@return table
function layer.define(name, spec, init, parent)
  local cls = class(name, parent or Module)
  local read = options.signature(name, spec)
  function cls:init(...) init(self, read(...)) end
  return cls
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

--- The options that every layer with parameters ends its signature with.
function layer.with_factory(spec)
  spec[#spec + 1] = { "dtype", options.none }
  spec[#spec + 1] = { "device", options.none }
  return spec
end

return layer
