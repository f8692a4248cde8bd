-- stdlib/nn.lua: ml.nn: modules, layers, losses, initialisers and helpers for neural networks.

local class = require "moonlet.class"
local Module = require "moonlet.nn.module"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
require "moonlet.nn.hooks"
require "moonlet.nn.state"
require "moonlet.nn.show"

local nn = { Module = Module, Parameter = parameter.new, is_parameter = parameter.is_parameter }

for _, part in ipairs { "linear", "conv", "norm", "activation", "loss", "containers" } do
  for name, cls in pairs(require("moonlet.nn." .. part)) do nn[name] = cls end
end

nn.init = require "moonlet.nn.init"
nn.functional = require "moonlet.nn.functional"
nn.utils = require "moonlet.nn.utils"

--- A class of modules: `local Net = nn.class("Net")`, then `function Net:init(...)` and
--- `function Net:forward(x)`.
---@param name string
---@param parent? table (default nn.Module)
---@return table
function nn.class(name, parent)
  return class(name, parent or Module)
end

return options.namespace("nn", nn)
