-- stdlib/torch7/calls.lua: definitions of Torch7's functions. `torch.add(r, x, 2)`,
-- `torch.add(x, 2)` and `x:add(2)` are one definition: "r t=r n" says that a result, a tensor that
-- is the result where a method leaves it out, and a number are expected.

local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local forms = require "moonlet.torch7.forms"
local torch = require "moonlet.torch7.namespace"

local calls = {}

local is_tensor = forms.is_tensor

-- The class of a call without an object: that of the first or second argument, of a table's first,
-- a type's name at the end, or the default.
local function class_of_call(...)
  local first, second = ...
  local mt = is_tensor(first) or is_tensor(second)
    or type(first) == "table" and is_tensor(first[1])
  if mt then return mt, false end
  local count = select("#", ...)
  local last = count > 0 and select(count, ...)
  local named = type(last) == "string" and class.getmetatable(last)
  if named and named.__is_tensor then return named, true end
  return getmetatable(torch.Tensor), false
end

local function without_last(...)
  return table.unpack({ ... }, 1, select("#", ...) - 1)
end

-- Puts a function at `into[name]` that is made when it is first called.
local function put(into, name, make)
  local made
  local function first(...)
    if not made then
      made = make()
      if rawget(into, name) == first then rawset(into, name, made) end
    end
    return made(...)
  end
  into[name] = first
end

--- Defines a function of `torch` and a method of the classes of tensors. Each of the functions
--- behind `spec`, one for each form, is called with the metatable of its class and the arguments in
--- order. `kinds` may have `method_only` or `function_only`, `method`, other forms of the method,
--- `inplace`, whether a method's object is the result, and `own`, a faster method that calls the
--- general one where it does not apply.
---@param dtypes table? the dtypes of the classes as keys; all where it is nil
function calls.define(dtypes, name, spec, functions, kinds)
  kinds = kinds or {}
  if type(functions) == "function" then
    local f = functions
    functions = setmetatable({}, { __index = function() return f end })
  end
  core.each_class(function(mt)
    if not kinds.function_only then
      put(mt, name, function()
        local method = forms.factory(kinds.method or spec, kinds.inplace == true)(mt, functions,
          name)
        return kinds.own and kinds.own(mt, method) or method
      end)
    end
    if not kinds.method_only then
      put(mt.torch, name, function() return forms.factory(spec, false)(mt, functions, name) end)
    end
  end, dtypes)
  if kinds.method_only then return end
  torch[name] = torch[name] or function(...)
    local mt, has_type = class_of_call(...)
    local f = mt.torch[name]
    if not f then
      error(("%s does not implement the torch.%s() function"):format(mt.__typename, name), 2)
    end
    if has_type then return f(without_last(...)) end
    return f(...)
  end
end

return calls
