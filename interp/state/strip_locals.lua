-- interp/state/strip_locals.lua: drops the names of local variables from a chunk as string.dump
-- writes it in Lua 5.4 (ldump.c), and keeps what positions in messages need: sources and lines.

local unpack = string.unpack

-- Where what begins at `at` ends. An integer has 7 bits in each byte, of which the last has the
-- eighth set.
local function past_integer(bytes, at)
  while bytes:byte(at) < 0x80 do at = at + 1 end
  return at + 1
end
local function integer(bytes, at)
  local value = 0
  repeat
    local byte = bytes:byte(at)
    value, at = value << 7 | byte & 0x7f, at + 1
  until byte >= 0x80
  return value, at
end
-- A length of 0 is that of no string; others count one byte more.
local function past_string(bytes, at)
  local length, from = integer(bytes, at)
  return from + math.max(length - 1, 0)
end
local function past_list(bytes, at, past_item)
  local count
  count, at = integer(bytes, at)
  for _ = 1, count do at = past_item(bytes, at) end
  return at
end
local function past_bytes(size)
  return function(_, at) return at + size end
end

local NIL, FALSE, TRUE, INTEGER, NUMBER = 0x00, 0x01, 0x11, 0x03, 0x13
local sizes = { [NIL] = 0, [FALSE] = 0, [TRUE] = 0, [INTEGER] = 8, [NUMBER] = 8 }
local function past_constant(bytes, at)
  local size = sizes[bytes:byte(at)]
  return size and at + 1 + size or past_string(bytes, at + 1)
end
local function past_local(bytes, at)
  return past_integer(bytes, past_integer(bytes, past_string(bytes, at)))
end

local past_function

local function past_code(bytes, at)
  at = past_string(bytes, at)
  at = past_integer(bytes, past_integer(bytes, at)) + 3  -- lines; parameters, vararg, stack
  at = past_list(bytes, at, past_bytes(4))
  at = past_list(bytes, at, past_constant)
  return past_list(bytes, at, past_bytes(3))  -- upvalues
end
local function past_line(bytes, at) return past_integer(bytes, past_integer(bytes, at)) end
local function past_lines(bytes, at)
  at = past_list(bytes, at, past_bytes(1))
  return past_list(bytes, at, past_line)
end

local NO_LOCALS = "\x80"

-- Adds what is kept of the function at `at` to `kept`.
function past_function(bytes, at, kept)
  local from = at
  at = past_code(bytes, at)
  local count
  count, at = integer(bytes, at)
  kept[#kept + 1] = bytes:sub(from, at - 1)
  for _ = 1, count do at = past_function(bytes, at, kept) end
  from, at = at, past_lines(bytes, at)
  kept[#kept + 1] = bytes:sub(from, at - 1) .. NO_LOCALS
  from = past_list(bytes, at, past_local)
  at = past_list(bytes, from, past_string)  -- names of upvalues
  kept[#kept + 1] = bytes:sub(from, at - 1)
  return at
end

-- The signature, version and format, the numbers that show the sizes of types, and how many
-- upvalues the chunk has.
local HEADER = 4 + 1 + 1 + 6 + 3 + string.packsize "j" + string.packsize "n" + 1

return function(bytes)
  assert(unpack("B", bytes, 5) == 0x54, "not a chunk of Lua 5.4")
  local kept = { bytes:sub(1, HEADER) }
  local at = past_function(bytes, HEADER + 1, kept)
  assert(at == #bytes + 1, "a chunk of another format")
  return table.concat(kept)
end
