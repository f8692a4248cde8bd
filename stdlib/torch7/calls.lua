-- stdlib/torch7/calls.lua: the forms in which Torch7's functions are called. `torch.add(r, x, 2)`,
-- `torch.add(x, 2)` and `x:add(2)` are one definition: "r t=r n" says that a result, a tensor that
-- is the result where a method leaves it out, and a number are expected.

local class = require "moonlet.torch7.class"
local torch = require "moonlet.torch7.namespace"

local calls = {}

-- What an argument of each kind is called in errors, and whether a value is one. `mt` is the
-- metatable of the call's tensors.
local KINDS = {
  r = { "result", function(v, mt) return getmetatable(v) == mt end },
  t = { "tensor", function(v, mt) return getmetatable(v) == mt end },
  i = { "LongTensor", function(v, mt) return getmetatable(v) == mt.__family.int64 end },
  I = { "IntTensor", function(v, mt) return getmetatable(v) == mt.__family.int32 end },
  B = { "ByteTensor", function(v, mt) return getmetatable(v) == mt.__family.uint8 end },
  T = { "tensor of any type", function(v)
    local mt = getmetatable(v)
    return type(v) == "userdata" and type(mt) == "table" and mt.__is_tensor
  end },
  n = { "number", function(v) return type(v) == "number" end },
  b = { "boolean", function(v) return type(v) == "boolean" end },
  s = { "string", function(v) return type(v) == "string" end },
  a = { "table of tensors", function(v) return type(v) == "table" and v[1] ~= nil end },
  g = { "Generator", function(v) return class.typename(v) == "torch.Generator" end },
}

local ABSENT = {}  -- the default of an argument that is nil where it is left out

-- "t=r" or "n=1" or "g?" as a record.
local function argument(text, is_method)
  local kind, rest = text:sub(1, 1), text:sub(2)
  local out = { kind = kind, sizes = kind == "z" }
  if not out.sizes then out.name, out.fits = KINDS[kind][1], KINDS[kind][2] end
  if rest == "?" then
    out.default = ABSENT
  elseif rest == "=r" then
    out.from_result = is_method or nil
  elseif rest ~= "" then
    local value = rest:match "^=(.*)$"
    out.default = tonumber(value) or value
    if value == "true" or value == "false" then out.default = value == "true" end
  end
  if kind == "r" and not is_method then out.default = ABSENT end
  return out
end

local function form_of(text, is_method)
  local out = {}
  for word in text:gmatch "%S+" do
    out[#out + 1] = argument(word, is_method)
    out.has_sizes = out.has_sizes or out[#out].sizes
  end
  out.result_may_miss = out[1].kind == "r" and out[1].default == ABSENT
  return out
end

-- Whether the arguments from `at` on are sizes: numbers, or a LongStorage.
local function read_sizes(args, at)
  if at == args.n and class.typename(args[at]) == "torch.LongStorage" then
    return args[at]:totable()
  end
  if at > args.n then return nil end
  for i = at, args.n do
    if type(args[i]) ~= "number" then return nil end
  end
  return { table.unpack(args, at, args.n) }
end

local match

-- The rest of a form without argument `k`, where it may be left out.
local function without(form, k, args, at, mt, out)
  local spec = form[k]
  if spec.from_result then
    out[k] = out[1]
  elseif spec.default == ABSENT then
    out[k] = nil
  elseif spec.default ~= nil then
    out[k] = spec.default
  else
    return false
  end
  return match(form, k + 1, args, at, mt, out)
end

-- Fills `out` with the arguments of a form, those left out being tried last. False where they fit
-- no way.
function match(form, k, args, at, mt, out)
  local spec = form[k]
  if not spec then return at > args.n end
  if spec.sizes then
    out[k] = read_sizes(args, at)
    return out[k] ~= nil
  end
  local value = args[at]
  if at <= args.n and value ~= nil and spec.fits(value, mt) then
    out[k] = value
    if match(form, k + 1, args, at + 1, mt, out) then return true end
  end
  return without(form, k, args, at, mt, out)
end

local function described(args)
  local names = {}
  for i = 1, args.n do names[i] = class.type(args[i]):gsub("^torch%.", "") end
  return table.concat(names, " ")
end

local function usage(form)
  local words = {}
  for i, spec in ipairs(form) do
    local name = spec.sizes and "sizes" or spec.name
    local optional = spec.default ~= nil or spec.from_result
    words[i] = optional and "[" .. name .. "]" or name
  end
  return table.concat(words, " ")
end

local function refuse(name, forms, args)
  local expected = {}
  for i, form in ipairs(forms) do expected[i] = usage(form) end
  error(("torch.%s: expected arguments %s, got %s"):format(name, table.concat(expected, " | "),
    args.n == 0 and "none" or described(args)), 0)
end

-- Whether so many arguments are all those of a form from its argument `from` on, one for each.
local function fits_whole(form, from, count, mt, a, b, c, d)
  if #form + 1 - from ~= count or count > 4 or form.has_sizes then return false end
  local k1, k2, k3, k4 = form[from], form[from + 1], form[from + 2], form[from + 3]
  return (not k1 or a ~= nil and k1.fits(a, mt)) and (not k2 or b ~= nil and k2.fits(b, mt))
    and (not k3 or c ~= nil and k3.fits(c, mt)) and (not k4 or d ~= nil and k4.fits(d, mt))
end

-- Runs the first form that fits. The most common calls, with all arguments of the first form or
-- all but a result, are found without tables.
local function run(name, forms, f, mt, ...)
  local count = select("#", ...)
  local first = forms[1]
  if fits_whole(first, 1, count, mt, ...) then return f[1](mt, ...) end
  if first.result_may_miss and fits_whole(first, 2, count, mt, ...) then
    return f[1](mt, nil, ...)
  end
  local args = table.pack(...)
  for _, form in ipairs(forms) do
    local out = {}
    if match(form, 1, args, 1, mt, out) then
      return f[form.which](mt, table.unpack(out, 1, #form))
    end
  end
  refuse(name, forms, args)
end

local function is_tensor(value)
  local mt = type(value) == "userdata" and getmetatable(value)
  return type(mt) == "table" and mt.__is_tensor and mt or nil
end
calls.metatable_of = is_tensor

-- The class of a call without an object: that of the first or second argument, of a table's first,
-- a type's name at the end, or the default.
local function class_of_call(...)
  local count = select("#", ...)
  local first, second = ...
  local mt = is_tensor(first) or is_tensor(second)
    or type(first) == "table" and is_tensor(first[1])
  if mt then return mt, count end
  local last = count > 0 and select(count, ...)
  local named = type(last) == "string" and class.getmetatable(last)
  if named and named.__is_tensor then return named, count - 1 end
  return getmetatable(torch.Tensor), count
end

local function compile(spec, is_method)
  local forms = {}
  for text in spec:gmatch "[^|]+" do
    local form = form_of(text, is_method)
    form.which = #forms + 1
    forms[#forms + 1] = form
  end
  return forms
end

--- Defines a function of `torch` and a method of the metatables. Each of the functions behind
--- `spec`, one for each form, is called with the metatable of its class and the arguments in order.
--- `kinds` may have `method_only` or `function_only`, `method`, other forms of the method, and
--- `own`, a faster method that calls the general one where it does not apply.
function calls.define(metatables, name, spec, functions, kinds)
  kinds = kinds or {}
  if type(functions) == "function" then
    local f = functions
    functions = setmetatable({}, { __index = function() return f end })
  end
  local as_method = compile(kinds.method or spec, kinds.inplace)
  local as_function = compile(spec, false)
  for _, mt in pairs(metatables) do
    local function method(...) return run(name, as_method, functions, mt, ...) end
    if not kinds.function_only then mt[name] = kinds.own and kinds.own(mt, method) or method end
    if not kinds.method_only then
      mt.torch[name] = function(...) return run(name, as_function, functions, mt, ...) end
    end
  end
  if kinds.method_only then return end
  torch[name] = torch[name] or function(...)
    local mt, count = class_of_call(...)
    local f = rawget(mt.torch, name)
    if not f then
      error(("%s does not implement the torch.%s() function"):format(mt.__typename, name), 2)
    end
    if count == select("#", ...) then return f(...) end
    return f(table.unpack({ ... }, 1, count))
  end
end

return calls
