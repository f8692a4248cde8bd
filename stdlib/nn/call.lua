-- stdlib/nn/call.lua: calling a module: its forward method, with the arguments by name in their
-- positions, and the hooks around it where there are any.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local options = require "moonlet.options"

-- Holds the hooks of all modules.
local everywhere = require("moonlet.nn.everywhere").hooks

-- A module that came from another interpreter has hooks before theirs are loaded here. These then
-- put their own function in the place of this one, and a captured call sees no `require`.
function Module._call_with_hooks(...) return require("moonlet.nn.hooks")._call(...) end

-- The names of the arguments that the object's forward takes: those of the class that defines it.
local function input_names(self)
  local cls = class.of(self)
  while cls and rawget(cls, "forward") == nil do cls = cls.super end
  local names = cls and rawget(cls, "_inputs")
  return type(names) == "function" and names() or names
end

-- The arguments with those in a table of names at the end in their places.
local function by_position(self, inputs)
  local names, last = input_names(self), inputs[inputs.n]
  if not names or type(next(last)) ~= "string" then return inputs end
  options.check(self:describe(), last, names)
  local out = { n = inputs.n - 1, table.unpack(inputs, 1, inputs.n - 1) }
  for i, name in ipairs(names) do
    if last[name] ~= nil then
      if i < inputs.n then options.fail("%s: '%s' is given twice", self:describe(), name) end
      out[i], out.n = last[name], math.max(out.n, i)
    end
  end
  return out
end

local function call_with_table(self, inputs)
  inputs = by_position(self, inputs)
  if self._has_hooks or everywhere._has_hooks then
    return self:_call_with_hooks(table.unpack(inputs, 1, inputs.n))
  end
  return self:forward(table.unpack(inputs, 1, inputs.n))
end

function Module.__call(self, ...)
  local count = select("#", ...)
  if count > 0 then
    local last = select(count, ...)
    if type(last) == "table" and getmetatable(last) == nil then
      return call_with_table(self, table.pack(...))
    end
  end
  if self._has_hooks or everywhere._has_hooks then return self:_call_with_hooks(...) end
  return self:forward(...)
end
