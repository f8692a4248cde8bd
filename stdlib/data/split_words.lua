-- stdlib/data/split_words.lua: GPT-2's cut of a text into words, numbers, signs and white space
-- (Radford et al. 2019), before bytes are merged in each.

local ranges = require "moonlet.data.unicode_ranges"

local LETTER, NUMBER, SPACE, OTHER = 1, 2, 3, 4

-- Of each byte below 128 its kind.
local ascii = {}
for byte = 0, 127 do
  local c = string.char(byte)
  ascii[byte] = c:find "[A-Za-z]" and LETTER or c:find "[0-9]" and NUMBER
    or (byte == 32 or byte >= 9 and byte <= 13) and SPACE or OTHER
end

-- The first code points of the ranges in their order, with their ends and kinds; made at first use.
local firsts, lasts, kinds

local function add_encoded(list, text, kind)
  local at = 0
  for distance, length in text:gmatch "(%w+),(%w+)" do
    local first = at + tonumber(distance, 36)
    at = first + tonumber(length, 36)
    list[#list + 1] = { first, at, kind }
  end
end

local function load_ranges()
  local list = {}
  add_encoded(list, ranges.letters, LETTER)
  add_encoded(list, ranges.numbers, NUMBER)
  for _, range in ipairs(ranges.spaces) do list[#list + 1] = { range[1], range[2], SPACE } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  firsts, lasts, kinds = {}, {}, {}
  for i, range in ipairs(list) do firsts[i], lasts[i], kinds[i] = table.unpack(range) end
end

local known = {}

local function kind_of(code)
  local kind = known[code]
  if kind then return kind end
  if not firsts then load_ranges() end
  local low, high = 1, #firsts + 1
  while high - low > 1 do
    local middle = (low + high) // 2
    if firsts[middle] <= code then low = middle else high = middle end
  end
  kind = firsts[low] <= code and code <= lasts[low] and kinds[low] or OTHER
  known[code] = kind
  return kind
end

-- The kind of the character at byte `at` and where the next one begins. A byte that is no UTF-8 is
-- a sign of its own.
local function character(text, at)
  local byte = text:byte(at)
  if byte < 128 then return ascii[byte], at + 1 end
  local size = byte >= 0xF0 and 4 or byte >= 0xE0 and 3 or 2
  if byte < 0xC2 or byte > 0xF4 or not utf8.len(text, at, at) then return OTHER, at + 1 end
  return kind_of(utf8.codepoint(text, at)), at + size
end

-- Where the characters of `kind` from byte `at` on end, and where the last of them begins.
local function run_of(text, at, kind)
  local last = at
  while at <= #text do
    local found, after = character(text, at)
    if found ~= kind then break end
    last, at = at, after
  end
  return at, last
end

local CONTRACTIONS = { "s", "t", "re", "ve", "m", "ll", "d" }

local function contraction(text, at)
  for _, letters in ipairs(CONTRACTIONS) do
    if text:sub(at + 1, at + #letters) == letters then return at + #letters + 1 end
  end
end

-- Where the piece that begins at byte `at` ends.
local function piece_end(text, at)
  local byte = text:byte(at)
  local after = byte == 39 and contraction(text, at)
  if after then return after end
  local kind = character(text, at)
  if byte == 32 and at < #text then
    local next_kind = character(text, at + 1)
    if next_kind ~= SPACE then return (run_of(text, at + 1, next_kind)) end
  end
  local stop, last = run_of(text, at, kind)
  -- The last white space before a word is left to the word.
  if kind == SPACE and stop <= #text and last > at then return last end
  return stop
end

--- The pieces of a text, in their order, which make it up again.
---@param text string
---@return fun(): string?
return function(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local first = at
    at = piece_end(text, at)
    return text:sub(first, at - 1)
  end
end
