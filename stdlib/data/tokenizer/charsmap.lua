-- stdlib/data/tokenizer/charsmap.lua: the map of characters that SentencePiece writes into its
-- models (Precompiled): a double-array trie (Aoe 1989; Darts) and the texts that it leads to, in
-- base64.

local parts = require "moonlet.data.tokenizer.parts"
local unicode = require "moonlet.data.unicode"
local fail = parts.fail

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local value_of = {}
for i = 1, #DIGITS do value_of[DIGITS:byte(i)] = i - 1 end

local function three_bytes(four)
  local a, b, c, d = four:byte(1, 4)
  local bits = value_of[a] << 18 | value_of[b] << 12 | (c and value_of[c] or 0) << 6
    | (d and value_of[d] or 0)
  return string.char(bits >> 16, bits >> 8 & 255, bits & 255):sub(1, #four - 1)
end

-- The bytes of a text in base64.
local function from_base64(text)
  text = text:gsub("[\r\n=]", "")
  if text:find "[^%w+/]" then fail "its map of characters is no base64" end
  if #text % 4 == 1 then fail "its map of characters is cut off" end
  return (text:gsub("..?.?.?", three_bytes))
end

-- The text that the shortest key at the start of a part leads to, or nil.
local function lookup(map, part)
  local position = 0
  -- The trie begins behind its size.
  local function unit_at(i)
    return i < map.count and ("<I4"):unpack(map.bytes, 5 + 4 * i) or nil
  end
  local unit = unit_at(0)
  for i = 1, #part do
    if not unit then return nil end
    local byte = part:byte(i)
    position = position ~ (unit >> 10 << ((unit & 0x200) >> 6)) ~ byte
    unit = unit_at(position)
    if not unit or unit & 0x800000ff ~= byte then return nil end
    if unit & 0x100 ~= 0 then
      local leaf = unit_at(position ~ (unit >> 10 << ((unit & 0x200) >> 6)))
      if not leaf then return nil end
      local first = 5 + 4 * map.count + (leaf & 0x7fffffff)
      return map.bytes:match("^[^\0]*", first)
    end
  end
  return nil
end

-- What stays with the character before it: marks, joiners, the marks of half-width kana.
local function extends(code)
  return unicode.is_mark(code) or code == 0x200C or code == 0x200D or code == 0xFF9E
    or code == 0xFF9F or code == 0xE33 or code == 0xEB3 or code >= 0x1F3FB and code <= 0x1F3FF
end

-- A character with its marks is looked up as one where it is short, and else each alone.
local LONGEST = 6

local function put_mapped(map, codes, first, last, out)
  if last > first then
    local whole = unicode.text(table.move(codes, first, last, 1, {}))
    local found = #whole < LONGEST and lookup(map, whole)
    if found then
      out[#out + 1] = found
      return
    end
  end
  for i = first, last do
    local character = unicode.text { codes[i] }
    out[#out + 1] = lookup(map, character) or character
  end
end

--- A function that maps the characters of a text, of a part "Precompiled".
---@param part table
---@return fun(text: string): string
return function(part)
  local bytes = from_base64(parts.field(part, "precompiled_charsmap", "string"))
  if #bytes < 4 then fail "its map of characters is cut off" end
  local size = ("<I4"):unpack(bytes)
  if size > #bytes - 4 or size % 4 ~= 0 then fail "its map of characters is cut off" end
  local map = { bytes = bytes, count = size // 4 }
  return function(text)
    local codes, out, at = unicode.codes(text), {}, 1
    while at <= #codes do
      local last = at
      if not unicode.is_hidden(codes[at]) then
        while codes[last + 1] and extends(codes[last + 1]) do last = last + 1 end
      elseif codes[at] == 13 and codes[at + 1] == 10 then
        last = at + 1
      end
      put_mapped(map, codes, at, last, out)
      at = last + 1
    end
    return table.concat(out)
  end
end
