-- stdlib/onnx/read/sequence.lua: ONNX's sequences, which are lists, and optional values.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local values = require "moonlet.onnx.values"
local fail = common.fail

local read = {}

local function check(sequence)
  if not values.is_sequence(sequence) then fail "its input 1 must be a sequence" end
end

-- A place from 1 of one from 0, or from the end.
local function place_of(position, count, most)
  local at = math.tointeger(common.number(position, "the position"))
  if not at or at < -count or at > most then
    fail("the position %s is not one of %d elements", tostring(at), count)
  end
  return at < 0 and at + count + 1 or at + 1
end

function read.SequenceEmpty() return {} end
function read.SequenceConstruct(_, ...) return { ... } end

function read.SequenceLength(_, sequence)
  check(sequence)
  return ml.tensor(#sequence, { dtype = ml.int64 })
end

function read.SequenceAt(_, sequence, position)
  check(sequence)
  return sequence[place_of(position, #sequence, #sequence - 1)]
end

function read.SequenceInsert(n, sequence, value, position)
  check(sequence)
  common.check_room(n, #sequence + 1, 1024)
  local out = table.move(sequence, 1, #sequence, 1, {})
  table.insert(out, position and place_of(position, #out, #out) or #out + 1, value)
  return out
end

function read.SequenceErase(_, sequence, position)
  check(sequence)
  local out = table.move(sequence, 1, #sequence, 1, {})
  if #out == 0 then fail "nothing can be erased of an empty sequence" end
  table.remove(out, position and place_of(position, #out, #out - 1) or #out)
  return out
end

function read.SplitToSequence(n, x, split)
  local dim = common.dim(n.attributes.axis or 0, x.ndim)
  local size, lengths = x.shape[dim], {}
  if split and split.ndim > 0 then
    lengths = common.integers(split, "split")
  else
    local part = split and common.number(split, "split") or 1
    if part < 1 then fail("parts of %s", tostring(part)) end
    common.check_room(n, size // part, 1024)
    for at = 0, size - 1, part do lengths[#lengths + 1] = math.min(part, size - at) end
  end
  local total = 0
  for _, length in ipairs(lengths) do
    if length < 0 then fail("a part of %d", length) end
    total = total + length
  end
  if total ~= size then fail("parts of %d in all for %d elements", total, size) end
  local out, at = {}, 1
  for i, length in ipairs(lengths) do
    out[i] = x:narrow(dim, at, length)
    if not split and n.attributes.keepdims == 0 then out[i] = out[i]:select(dim, 1) end
    at = at + length
  end
  return out
end

function read.ConcatFromSequence(n, sequence)
  check(sequence)
  if #sequence == 0 then fail "nothing is there to put together" end
  for i, item in ipairs(sequence) do
    if not ml.is_tensor(item) then fail("element %d of the sequence is no tensor", i) end
  end
  local axis = n.attributes.axis or fail "it has no axis"
  if n.attributes.new_axis == 1 then
    return ml.stack(sequence, common.dim(axis, sequence[1].ndim + 1))
  end
  return ml.cat(sequence, common.dim(axis, sequence[1].ndim))
end

-- --- optional values --------------------------------------------------------------------------

function read.Optional(_, value)
  if value == nil then return values.NONE end
  return value
end

function read.OptionalHasElement(_, value)
  return ml.tensor(value ~= nil and value ~= values.NONE)
end

function read.OptionalGetElement(_, value)
  if value == nil or value == values.NONE then fail "its input has no element" end
  return value
end

return read
