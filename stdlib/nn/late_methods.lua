-- stdlib/nn/late_methods.lua: methods of nn.Module that come from their module at the first call:
-- most scripts call few of them.

local Module = require "moonlet.nn.module"

-- What a script has put in the place of a method stays there.
local function fetch(module, stubs)
  local before, methods = {}, {}
  for name in pairs(stubs) do before[name] = rawget(Module, name) end
  require("moonlet.nn." .. module)
  for name, stub in pairs(stubs) do
    methods[name] = rawget(Module, name)
    if before[name] ~= stub then Module[name] = before[name] end
  end
  return methods
end

--- Gives nn.Module methods that `moonlet.nn.MODULE` defines.
---@param module string
---@param names string[] all methods that it defines
return function(module, names)
  local stubs, methods = {}, nil
  for _, name in ipairs(names) do
    stubs[name] = function(...)
      methods = methods or fetch(module, stubs)
      return methods[name](...)
    end
    Module[name] = stubs[name]
  end
end
