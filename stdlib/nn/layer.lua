-- stdlib/nn/layer.lua: what the layers share: making classes whose constructor reads a signature,
-- and errors that name the layer.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

-- As it is now: a script may assign to the global.
local load = load

local layer = { Module = Module }

--- A class of layers: `init(self, o)` gets the arguments of the constructor as a table by name,
--- read by `parameters`, in the notation of moonlet.signature. A call may name the arguments of
--- `forward` by the class's `_inputs`: "input" unless the class sets others, or nothing where its
--- forward reads names itself.
---@param name string
---@param parameters string
---@param init fun(self: table, o: table)
---@param parent? table (default nn.Module)
---@return table class
---@return table reader
function layer.define(name, parameters, init, parent)
  local cls = class(name, parent or Module)
  local read = signature(("nn.%s(%s)"):format(name, parameters))
  function cls:init(...) init(self, read:table(...)) end
  cls._inputs = { "input" }
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

--- Refuses what is no tensor as a layer's input.
---@param self table
---@param x any
function layer.check_input(self, x)
  if not ml.is_tensor(x) then
    options.fail("%s: a tensor is expected, got %s", self:describe(), signature.describe(x))
  end
end

--- A new parameter of uninitialised values with the options `dtype` and `device` of `o`.
---@param size integer[]
---@param o table
---@return Tensor
function layer.parameter(size, o)
  return parameter.new(ml.empty(size, { dtype = o.dtype, device = o.device }))
end

-- A value as it stands between the brackets of a printed layer.
local function shown(value)
  if type(value) == "table" and not getmetatable(value) then
    local parts, equal = {}, #value > 0
    for i, one in ipairs(value) do
      parts[i] = shown(one)
      equal = equal and one == value[1]
    end
    if equal then return parts[1] end
    return "(" .. table.concat(parts, ", ") .. ")"
  end
  if type(value) == "function" then return "a function" end
  return math.type(value) == "float" and ("%g"):format(value) or tostring(value)
end

local function same(a, b)
  if type(a) ~= "table" then return a == b end
  for _, one in ipairs(a) do
    if one ~= b then return false end
  end
  return type(b) ~= "table"
end

-- What is printed of one argument of the constructor, or nil.
local function described(self, option)
  local name = option.name
  local value = rawget(self, name)
  if value == nil or ml.is_tensor(value) then return nil end
  if option.required then return shown(value) end
  local usual = option.make_default and option.make_default()
  if type(value) == "boolean" then
    return value ~= usual and (value and "" or "no ") .. name or nil
  end
  return not same(value, usual) and name .. " " .. shown(value) or nil
end

--- What a layer prints of the constructor's arguments: those that it must be given, then the others
--- that are not as usual, by name.
---@param self table
---@param read table the constructor's reader
---@return string
function layer.repr(self, read)
  local parts = {}
  for _, option in ipairs(read.parameters) do parts[#parts + 1] = described(self, option) end
  return table.concat(parts, ", ")
end

-- Where each argument of a function of nn.functional comes from: a field of the layer (its name) or
-- an argument of forward (its position).
local function sources(read, called, inputs)
  local fields, out, count = { training = true }, {}, 0
  for _, name in ipairs(read.names) do fields[name] = true end
  for i, name in ipairs(called.names) do
    if fields[name] then
      out[i] = name
    else
      count = count + 1
      out[i] = count <= inputs and count or false
    end
  end
  return out
end

local function refuse_more(self, inputs, ...)
  options.fail("%s: takes %d argument%s, got %d", self:describe(), inputs,
    inputs == 1 and "" or "s", inputs + select("#", ...))
end

-- The function that calls `f` so. It is made of a text, so that a call makes no tables.
local function compile(f, from, inputs)
  local given, passed = {}, {}
  for i = 1, inputs do given[i] = "input" .. i end
  for i, source in ipairs(from) do
    passed[i] = type(source) == "number" and given[source] or source and "self." .. source or "nil"
  end
  while passed[#passed] == "nil" do passed[#passed] = nil end
  local text = ([[local run, f, refuse = ...
    return function(self, %s, ...)
      if select("#", ...) > 0 then refuse(self, %d, ...) end
      return run(self, f, %s)
    end]]):format(table.concat(given, ", "), inputs, table.concat(passed, ", "))
  return assert(load(text, "=layer", "t", { select = select }))(layer.run, f, refuse_more)
end

--- A class of layers that call a function of nn.functional: arguments of that name are the
--- constructor's and fields of the layer, the others those of forward, `inputs` of them. A tensor
--- among the constructor's is a buffer.
---@param name string
---@param called string the function's name
---@param parameters string the constructor's, in the notation of moonlet.signature
---@param inputs? integer (default 1)
---@return table class
function layer.functional(name, called, parameters, inputs)
  inputs = inputs or 1
  local cls, read
  cls, read = layer.define(name, parameters, function(self, o)
    for _, option in ipairs(read.parameters) do
      local field = option.name
      if option.type == "Tensor?" then
        self:register_buffer(field, o[field])
      else
        rawset(self, field, o[field])
      end
    end
  end)
  local compiled
  local function from()
    local f = require("moonlet.nn.functional")[called]
    local reader = signature.all["nn.functional." .. called]
    return f, sources(read, reader, inputs), reader.names
  end
  function cls:forward(...)
    if not compiled then
      local f, given = from()
      compiled = compile(f, given, inputs)
    end
    return compiled(self, ...)
  end
  function cls._inputs()
    local _, given, names = from()
    local out = {}
    for i, source in ipairs(given) do
      if type(source) == "number" then out[source] = names[i] end
    end
    return out
  end
  function cls:extra_repr() return layer.repr(self, read) end
  return cls, read
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
