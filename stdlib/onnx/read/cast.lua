-- stdlib/onnx/read/cast.lua: ONNX's changes of type: to dtypes, to types that are kept in wider
-- ones, to and from strings, and of bits as they are.

local Strings = require "moonlet.onnx.strings"
local common = require "moonlet.onnx.read.common"
local dtypes = require "moonlet.onnx.dtypes"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local narrow = require "moonlet.onnx.narrow"
local fail = common.fail

local read = {}

-- The names that the oldest files have for types, and the numbers of types by their names here.
local OLD_NAMES = { FLOAT = 1, UINT8 = 2, INT8 = 3, UINT16 = 4, INT16 = 5, INT32 = 6, INT64 = 7,
  STRING = 8, BOOL = 9, FLOAT16 = 10, DOUBLE = 11, UINT32 = 12, UINT64 = 13, COMPLEX64 = 14,
  COMPLEX128 = 15, BFLOAT16 = 16 }

-- --- strings ----------------------------------------------------------------------------------

-- The shortest text that is the same number in a dtype, as NumPy writes it.
local function text_of(number, dtype)
  if math.type(number) == "integer" then return tostring(number) end
  if number ~= number then return "NaN" end
  if number == math.huge then return "INF" end
  if number == -math.huge then return "-INF" end
  for digits = 1, 17 do
    local text = ("%%.%dg"):format(digits):format(number)
    if ml.tensor(tonumber(text), { dtype = dtype }):item() == number then
      return text:find "[.e]" and text or text .. ".0"
    end
  end
end

local function to_strings(x)
  local list, shape = {}, {}
  for d, size in ipairs(x.shape) do shape[d] = size end
  for i, value in ipairs(x:flatten():tolist()) do
    list[i] = x.dtype == ml.bool and (value and "True" or "False") or text_of(value, x.dtype)
  end
  return Strings.new(list, shape)
end

local NAMED = { inf = math.huge, ["+inf"] = math.huge, ["-inf"] = -math.huge, nan = 0 / 0,
  infinity = math.huge, ["-infinity"] = -math.huge, ["+infinity"] = math.huge }

local function from_strings(strings, dtype)
  local list = {}
  for i, text in ipairs(strings.list) do
    local value = NAMED[text:lower()] or tonumber((text:gsub("^%s*%+", "")))
    if not value then fail("'%s' is no number", text:sub(1, 40)) end
    list[i] = dtypes.is_float(dtype) and value + 0.0 or math.tointeger(value) or value
  end
  local flat = #list > 0 and ml.tensor(list):to(dtype) or ml.empty({ 0 }, { dtype = dtype })
  return flat:reshape(strings.shape)
end

-- --- numbers ----------------------------------------------------------------------------------

local function cast(x, name, saturate, mode)
  if name == "string" then return Strings.is(x) and x or to_strings(x) end
  local carrier = kept.carrier(name)
  if Strings.is(x) then x = from_strings(x, carrier) end
  -- The bits of uint64 are those of int64; as floats they are beyond its numbers.
  if kept.type_of(x) == "uint64" and dtypes.is_float(carrier) then
    x = x:view "uint64":to(carrier)
  end
  if carrier ~= name then
    -- Of the same type nothing is rounded.
    if kept.type_of(x) == name then return x end
    return kept.note(narrow.cast(x, name, saturate, mode), name)
  end
  if name == "bool" then return x:ne(0) end
  -- A tensor of its own, without the type that it was kept for.
  local out = x:to(name)
  return kept.type_of(out) ~= out.dtype and out:view_as(out) or out
end

local function options_of(n) return n.attributes.saturate ~= 0, n.attributes.round_mode end

function read.Cast(n, x)
  local code = n.attributes.to or fail "it has no 'to'"
  if type(code) == "string" then
    code = OLD_NAMES[code] or fail("there is no type '%s'", code:sub(1, 40))
  end
  local _, name = dtypes.carrier(code, "the result")
  return cast(x, name, options_of(n))
end

function read.CastLike(n, x, like)
  local name = Strings.is(like) and "string" or tostring(kept.type_of(like))
  return cast(x, name, options_of(n))
end

-- --- bits -------------------------------------------------------------------------------------

-- What a type is stored as where its carrier is wider.
local STORED = { uint16 = "int16", uint32 = "int32", uint64 = "int64" }

function read.BitCast(n, x)
  local _, name = dtypes.carrier(n.attributes.to or fail "it has no 'to'", "the result")
  local from = tostring(kept.type_of(x))
  if kept.carrier(from) ~= from and not STORED[from] or name == "string" or Strings.is(x)
      or kept.carrier(name) ~= name and not STORED[name] then
    fail("bits of %s as %s are not read", Strings.is(x) and "strings" or from, name)
  end
  local bits = STORED[from] and x:to(STORED[from]) or x
  local target = STORED[name] or name
  if dtypes.widths[tostring(bits.dtype)] ~= dtypes.widths[target] then
    fail("%s and %s are not of one size", from, name)
  end
  bits = bits:contiguous()
  local shape = bits.shape
  local flat = bits:flatten():view(target)
  if STORED[name] then
    return kept.note(narrow.elements(flat:view "uint8", name, flat:numel()):reshape(shape), name)
  end
  return flat:reshape(shape)
end

return read
