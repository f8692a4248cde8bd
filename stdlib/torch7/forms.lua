-- stdlib/torch7/forms.lua: the forms in which Torch7's functions are called, as texts such as
-- "r t=r n=1 t", and functions made of them that find the form of a call. One letter is an
-- argument; behind it "=1" is what stands for it where it is left out, "=r" the result, and "?"
-- nothing. Forms are separated by "|"; the first that fits is taken.

local class = require "moonlet.torch7.class"

local forms = {}

-- What an argument of each kind is called in errors, and the test of a value as Lua's text, in
-- which `mt` is the metatable of the call's tensors and %s the value.
local KINDS = {
  r = { "result", "getmetatable(%s) == mt" },
  t = { "tensor", "getmetatable(%s) == mt" },
  i = { "LongTensor", "getmetatable(%s) == mt.__family.int64" },
  p = { "LongTensor", "is_positions(%s, mt)" },
  I = { "IntTensor", "getmetatable(%s) == mt.__family.int32" },
  B = { "ByteTensor", "getmetatable(%s) == mt.__family.uint8" },
  T = { "tensor of any type", "is_tensor(%s)" },
  n = { "number", "type(%s) == 'number'" },
  b = { "boolean", "type(%s) == 'boolean'" },
  s = { "string", "type(%s) == 'string'" },
  a = { "table of tensors", "type(%s) == 'table' and %s[1] ~= nil" },
  g = { "Generator", "typename(%s) == 'torch.Generator'" },
  z = { "sizes" },
}

--- Whether a value is a tensor, as its metatable.
function forms.is_tensor(value)
  local mt = type(value) == "userdata" and getmetatable(value)
  return type(mt) == "table" and mt.__is_tensor and mt or nil
end

-- Whether a value holds positions for tensors of a class: a LongTensor, and on CUDA devices also a
-- tensor of the class, as cutorch takes them.
local function is_positions(value, mt)
  local own = getmetatable(value)
  return own == mt.__family.int64 or own == mt and mt.__options.device == "cuda"
end

-- "t=r" or "n=1" or "g?" as a record; `missing` is Lua's text of what stands for it where it is
-- left out.
local function argument(text, is_method)
  local kind, rest = text:sub(1, 1), text:sub(2)
  local out = { kind = kind, name = KINDS[kind][1] }
  local value = rest:match "^=(.*)$"
  if rest == "?" or kind == "r" and not is_method then
    out.missing = "nil"
  elseif value == "r" then
    out.missing = is_method and "a1" or nil
  elseif value then
    out.missing = (tonumber(value) or value == "true" or value == "false") and value
      or ("%q"):format(value)
  end
  return out
end

local function parse(spec, is_method)
  local list = {}
  for text in spec:gmatch "[^|]+" do
    local form = {}
    for word in text:gmatch "%S+" do form[#form + 1] = argument(word, is_method) end
    list[#list + 1] = form
  end
  return list
end

-- Adds the lines for all ways to leave arguments of a form out from its k-th on, those with more
-- arguments first. `tests` and `values` are what the arguments before are tested for and passed as.
local function add_ways(form, which, k, count, tests, values, lines)
  local spec = form[k]
  if not spec then
    lines[#lines + 1] = ("if n == %d%s then return f%d(mt, %s) end"):format(count,
      table.concat(tests), which, table.concat(values, ", "))
    return
  end
  local name = "a" .. count + 1
  if spec.kind == "z" then
    lines[#lines + 1] = ("if n > %d%s then"):format(count, table.concat(tests))
    lines[#lines + 1] = ("  local sizes = read_sizes(select(%d, ...))"):format(count + 1)
    values[k] = "sizes"
    lines[#lines + 1] = ("  if sizes then return f%d(mt, %s) end"):format(which,
      table.concat(values, ", "))
    lines[#lines + 1] = "end"
    values[k] = nil
    return
  end
  tests[#tests + 1] = " and " .. KINDS[spec.kind][2]:gsub("%%s", name)
  values[k] = name
  add_ways(form, which, k + 1, count + 1, tests, values, lines)
  tests[#tests], values[k] = nil, nil
  if spec.missing then
    values[k] = spec.missing
    add_ways(form, which, k + 1, count, tests, values, lines)
    values[k] = nil
  end
end

local CHUNK = [[
local getmetatable, type, select, typename, is_tensor, is_positions, read_sizes, refuse = ...
return function(mt, f, name)
  local %s
  return function(...)
    local n = select("#", ...)
    local %s = ...
    %s
    return refuse(name, ...)
  end
end]]

local function source(list)
  local lines, longest, behind, from = {}, 1, {}, {}
  for which, form in ipairs(list) do
    behind[which], from[which] = "f" .. which, ("f[%d]"):format(which)
    longest = math.max(longest, #form)
    add_ways(form, which, 1, 0, {}, {}, lines)
  end
  local names = {}
  for i = 1, longest do names[i] = "a" .. i end
  return CHUNK:format(table.concat(behind, ", ") .. " = " .. table.concat(from, ", "),
    table.concat(names, ", "), table.concat(lines, "\n    "))
end

-- The sizes that arguments are: numbers, or a LongStorage; nil where they are something else.
local function read_sizes(first, ...)
  if select("#", ...) == 0 and class.typename(first) == "torch.LongStorage" then
    return first:totable()
  end
  local sizes = { first, ... }
  for i = 1, select("#", ...) + 1 do
    if type(sizes[i]) ~= "number" then return nil end
  end
  return sizes
end

local function usage(form)
  local words = {}
  for i, spec in ipairs(form) do
    words[i] = spec.missing and "[" .. spec.name .. "]" or spec.name
  end
  return table.concat(words, " ")
end

local function described(...)
  local names = {}
  for i = 1, select("#", ...) do
    names[i] = class.type((select(i, ...))):gsub("^torch%.", "")
  end
  return #names == 0 and "none" or table.concat(names, " ")
end

-- The error of a call that fits no form of the list.
local function refusal(list)
  return function(name, ...)
    local expected = {}
    for i, form in ipairs(list) do expected[i] = usage(form) end
    error(("torch.%s: expected arguments %s, got %s"):format(name, table.concat(expected, " | "),
      described(...)), 0)
  end
end

-- By spec, of functions and of methods, as many functions are called alike.
local factories = { [true] = {}, [false] = {} }

--- A function that makes the functions of a spec: make(mt, f, name) gives one whose call goes to
--- the function f[k] of the k-th form as f[k](mt, arguments in the order of the form).
---@param spec string forms as above
---@param is_method boolean whether the result is always there, as the object of the call
function forms.factory(spec, is_method)
  local made = factories[is_method][spec]
  if not made then
    local list = parse(spec, is_method)
    made = assert(load(source(list), "=(torch7 " .. spec .. ")", "t"))(getmetatable, type, select,
      class.typename, forms.is_tensor, is_positions, read_sizes, refusal(list))
    factories[is_method][spec] = made
  end
  return made
end

return forms
