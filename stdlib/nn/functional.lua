-- stdlib/nn/functional.lua: nn.functional: the ops under the names that model code knows them by.
-- Every op is here (`F.relu`, `F.cross_entropy`, `F.conv2d`); the table takes them from `ml`.

local ml = require "moonlet"

local functional = {}

return setmetatable(functional, {
  __index = function(self, name)
    local op = rawget(ml, name)
    if op == nil then
      error(("nn.functional: no function '%s'"):format(tostring(name)), 2)
    end
    rawset(self, name, op)
    return op
  end,
})
