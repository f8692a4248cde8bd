-- stdlib/onnx/values.lua: the inputs and outputs that an ONNX graph declares, and values as scripts
-- give and get them: tensors, strings as nested tables, sequences as lists, an optional value that
-- is none as nil.

local Strings = require "moonlet.onnx.strings"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local options = require "moonlet.options"
local shown = require("moonlet.onnx.attributes").shown
local describe = require("moonlet.signature").describe

local values = {}

local function fail(format, ...) error(format:format(...), 0) end

--- What an optional value that is none is while a graph runs.
values.NONE = setmetatable({}, { __name = "none" })

-- --- declarations -----------------------------------------------------------------------------

local function read_type(type, what, out, depth)
  if depth > 8 then fail("%s: its type nests too deeply", what) end
  if not type or not next(type) then return out end
  local tensor, sequence, optional = type.tensor_type, type.sequence_type, type.optional_type
  if tensor then
    out.kind = "tensor"
    if (tensor.elem_type or 0) ~= 0 then
      out.dtype, out.stored = dtypes.carrier(tensor.elem_type, what)
    end
    if tensor.shape then
      out.dims = {}
      -- No number, 0 and less, and names are sizes that the graph leaves open.
      for d, dim in ipairs(tensor.shape.dim or {}) do
        out.dims[d] = dim.dim_value and dim.dim_value > 0 and dim.dim_value or false
      end
    end
  elseif sequence then
    out.kind = "sequence"
    out.element = read_type(sequence.elem_type, what, {}, depth + 1)
    out.problem = out.element.problem
  elseif optional then
    read_type(optional.elem_type, what, out, depth + 1)
    out.optional = true
  else
    out.problem = what .. " is no tensor, sequence or optional value, and others are not read"
  end
  return out
end

--- The values that a graph declares: each { name, kind, dtype, stored, dims }: dims has a number
--- for each size that is known and false for others.
---@param list table[]
---@param what string "input" or "output"
---@param leave_out? table<string, any> names
---@param where? string for messages
---@return table[]
function values.list(list, what, leave_out, where)
  local out, seen = {}, {}
  where = where or ""
  for _, proto in ipairs(list or {}) do
    local name = proto.name or ""
    if name == "" then fail("%san %s has no name", where, what) end
    if seen[name] and leave_out then
      fail("%sthe %s '%s' stands twice", where, what, shown(name))
    end
    seen[name] = true
    if not leave_out or not leave_out[name] then
      out[#out + 1] = read_type(proto.type, ("%sthe %s '%s'"):format(where, what, shown(name)),
        { name = name }, 1)
    end
  end
  return out
end

-- --- what is given ----------------------------------------------------------------------------

local function check_tensor(value, given, what)
  if value.dtype == "string" then
    local strings = Strings.of(given)
    if not strings then
      options.fail("%s must be strings, got %s", what, describe(given))
    end
    given = strings
  elseif not ml.is_tensor(given) then
    options.fail("%s must be a tensor, got %s", what, describe(given))
  elseif value.stored and value.stored ~= value.dtype then
    given = require("moonlet.onnx.kept").widened(given, value.stored)
  end
  if value.dtype and ml.is_tensor(given) and tostring(given.dtype) ~= value.dtype then
    options.fail("%s is of dtype %s%s, got %s", what, value.dtype,
      value.stored and value.stored ~= value.dtype and ", for " .. value.stored or "",
      tostring(given.dtype))
  elseif ml.is_tensor(given) and value.stored and value.stored ~= value.dtype then
    require("moonlet.onnx.kept").note(given, value.stored)
  end
  if not value.dims then return given end
  local matches = given.ndim == #value.dims
  local wanted = {}
  for d, size in ipairs(value.dims) do
    wanted[d] = size and tostring(size) or "any"
    matches = matches and (not size or given.shape[d] == size)
  end
  if not matches then
    local got = Strings.is(given) and "(" .. table.concat(given.shape, ", ") .. ")"
      or tostring(given.shape)
    options.fail("%s has the shape (%s), got %s", what, table.concat(wanted, ", "), got)
  end
  return given
end

--- Fails for a declared value of a kind that is not read.
---@param list table[]
function values.check_kinds(list)
  for _, value in ipairs(list) do
    if value.problem then fail("%s", value.problem) end
  end
end

--- A given value as a run has it; errors are at the script's line.
---@param value table what the graph declares
---@param given any
---@param what string for messages
---@return any
function values.inner(value, given, what)
  if given == nil and value.optional then return values.NONE end
  if value.kind ~= "sequence" then return check_tensor(value, given, what) end
  if type(given) ~= "table" or getmetatable(given) ~= nil then
    options.fail("%s must be a list, got %s", what, describe(given))
  end
  local out = {}
  for i, item in ipairs(given) do
    out[i] = values.inner(value.element, item, ("%s, element %d"):format(what, i))
  end
  return out
end

--- A value of a run as scripts get it.
function values.outer(value)
  if value == values.NONE then return nil end
  if Strings.is(value) then return value:nested() end
  if ml.is_tensor(value) then return value end
  local out = {}
  for i, item in ipairs(value) do out[i] = values.outer(item) end
  return out
end

--- Whether a value of a run is a sequence.
function values.is_sequence(value)
  return type(value) == "table" and value ~= values.NONE and not Strings.is(value)
end

return values
