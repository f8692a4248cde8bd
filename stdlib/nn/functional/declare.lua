-- stdlib/nn/functional/declare.lua: how functions of nn.functional are made of ops: the declaration
-- of their arguments and the call.

local ml = require "moonlet"
local signature = require "moonlet.signature"

local declare = {}

--- The reader of the arguments declared for that function of nn.functional.
function declare.reader(text) return signature("nn.functional." .. text) end

--- The op of that name, whose arguments come in the declared order. Where there are none by name it
--- reads them itself, which is faster.
function declare.op(text)
  local read, call = declare.reader(text), ml[text:match "^[%w_]+"]
  return function(...)
    if select("#", ...) > 0 and type((select(-1, ...))) ~= "table" then return call(...) end
    return call(read(...))
  end
end

--- An op whose last declared argument, `inplace`, asks for its in-place form.
function declare.activation(text)
  local name = text:match "^[%w_]+"
  local read, call, change = declare.reader(text), ml[name], ml._methods[name .. "_"]
  return function(...)
    if select("#", ...) == 1 and ml.is_tensor((...)) then return call(...) end
    local values, count = { read(...) }, #read.names - 1
    if values[count + 1] then return change(table.unpack(values, 1, count)) end
    return call(table.unpack(values, 1, count))
  end
end

--- The in-place form that PyTorch has a name for.
function declare.in_place(text)
  local name = text:match "^[%w_]+"
  local read, change = declare.reader(text), ml._methods[name]
  return function(...) return change(read(...)) end
end

return declare
