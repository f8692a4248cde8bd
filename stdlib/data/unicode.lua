-- stdlib/data/unicode.lua: what tokenizers ask of characters: their kinds, lower case, and the
-- normalization forms of Unicode Standard Annex 15. Texts are handled as arrays of code points; a
-- byte that is no UTF-8 stands there as the negative number -1 - byte, which is of no kind.

local ranges = require "moonlet.data.unicode_ranges"

local unicode = {}

-- --- texts and code points ----------------------------------------------------------------------

--- The code points of a text.
---@param text string
---@return integer[]
function unicode.codes(text)
  local out, at, size = {}, 1, #text
  while at <= size do
    local _, bad = utf8.len(text, at)
    local stop = bad or size + 1
    for _, code in utf8.codes(text:sub(at, stop - 1)) do out[#out + 1] = code end
    if bad then out[#out + 1] = -1 - text:byte(bad) end
    at = stop + 1
  end
  return out
end

--- The text of code points.
---@param codes integer[]
---@return string
function unicode.text(codes)
  local out = {}
  for i, code in ipairs(codes) do
    out[i] = code < 0 and string.char(-1 - code) or utf8.char(code)
  end
  return table.concat(out)
end

-- --- kinds --------------------------------------------------------------------------------------

-- Fills `list` with { first, last } of ranges as unicode_ranges.lua writes them.
local function add_ranges(list, text)
  local at = 0
  for distance, length in text:gmatch "(%w+),(%w+)" do
    local first = at + tonumber(distance, 36)
    at = first + tonumber(length, 36)
    list[#list + 1] = { first, at }
  end
  return list
end

-- A test of code points by sorted ranges, which `load` gives at first use, and below 128 by a
-- pattern. It remembers what it was asked.
local function tester(pattern, load)
  local known, list = {}, nil
  for code = 0, 127 do known[code] = string.char(code):find(pattern) ~= nil end
  return function(code)
    local answer = known[code]
    if answer ~= nil then return answer end
    list = list or load()
    local low, high = 1, #list + 1
    while high - low > 1 do
      local middle = (low + high) // 2
      if list[middle][1] <= code then low = middle else high = middle end
    end
    answer = list[low] ~= nil and list[low][1] <= code and code <= list[low][2]
    known[code] = answer
    return answer
  end
end

-- Of tables of ranges: names of unicode_marks.lua, or their texts.
local function of(...)
  local parts = { ... }
  return function()
    local marks, list = require "moonlet.data.unicode_marks", {}
    for _, part in ipairs(parts) do add_ranges(list, marks[part] or part) end
    table.sort(list, function(a, b) return a[1] < b[1] end)
    return list
  end
end

--- White_Space.
unicode.is_space = tester("[ \t-\r]", function() return ranges.spaces end)
--- The category N.
unicode.is_number = tester("%d", of(ranges.numbers))
--- The category Mn: accents that stand on the letter before.
unicode.is_nonspacing = tester("^$", of "nonspacing")
--- The category M.
unicode.is_mark = tester("^$", of("nonspacing", "spacing"))
--- The category P, and all signs of ASCII.
unicode.is_punctuation = tester("%p", of "punctuation")
--- The categories Cc, Cf and Co.
unicode.is_hidden = tester("%c", of "hidden")

local is_letter = tester("%a", of(ranges.letters))
local is_fraction = tester("^$", of "fractions")
local is_connector = tester("_", of "connectors")

-- Letters in circles and squares, which are signs by their category.
local ROUND_LETTERS = { { 0x24B6, 0x24E9 }, { 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 },
  { 0x1F170, 0x1F189 } }

--- What stands in a word: letters, marks, digits, connectors and joiners (Annex C of Unicode
--- Technical Standard 18).
function unicode.is_word(code)
  if is_letter(code) or is_connector(code) or unicode.is_mark(code) then return true end
  if unicode.is_number(code) then return not is_fraction(code) end
  if code == 0x200C or code == 0x200D then return true end
  for _, range in ipairs(ROUND_LETTERS) do
    if code >= range[1] and code <= range[2] then return true end
  end
  return false
end

--- Whether a code point is of the Chinese characters that BERT cuts apart.
function unicode.is_chinese(code)
  return code >= 0x4E00 and code <= 0x9FFF or code >= 0x3400 and code <= 0x4DBF
    or code >= 0x20000 and code <= 0x2A6DF or code >= 0x2A700 and code <= 0x2B81F
    or code >= 0x2B920 and code <= 0x2CEAF or code >= 0xF900 and code <= 0xFAFF
    or code >= 0x2F800 and code <= 0x2FA1F
end

-- --- lower case ---------------------------------------------------------------------------------

local lower

local function load_lower()
  lower = {}
  local at = 0
  for distance, count, step, change in require "moonlet.data.unicode_lower"
    :gmatch "(%w+),(%w+),(%d),(%-?%w+)" do
    at = at + tonumber(distance, 36)
    for i = 0, tonumber(count, 36) do
      local code = at + i * tonumber(step)
      lower[code] = code + tonumber(change, 36)
    end
  end
end

--- The lower case of code points. That of U+0130 is two.
---@param codes integer[]
---@return integer[]
function unicode.lower(codes)
  if not lower then load_lower() end
  local out = {}
  for _, code in ipairs(codes) do
    if code == 0x130 then
      out[#out + 1], out[#out + 2] = 0x69, 0x307
    else
      out[#out + 1] = code >= 65 and code <= 90 and code + 32 or lower[code] or code
    end
  end
  return out
end

-- --- normalization forms ------------------------------------------------------------------------

local canonical, compatible, classes, pairs_of

local function add_decompositions(into, text, composing)
  local at = 0
  for distance, mark, codes in text:gmatch "(%w+)([:!])([%w.]+)" do
    at = at + tonumber(distance, 36)
    local list = {}
    for code in codes:gmatch "%w+" do list[#list + 1] = tonumber(code, 36) end
    into[at] = list
    if composing and mark == ":" and #list == 2 then
      pairs_of[list[1]] = pairs_of[list[1]] or {}
      pairs_of[list[1]][list[2]] = at
    end
  end
end

local function load_forms()
  local data = require "moonlet.data.unicode_canonical"
  canonical, compatible, classes, pairs_of = {}, {}, {}, {}
  add_decompositions(canonical, data.decompositions, true)
  add_decompositions(compatible, require("moonlet.data.unicode_compatible").decompositions, false)
  local at = 0
  for distance, length, class in data.classes:gmatch "(%w+),(%w+),(%w+)" do
    local first = at + tonumber(distance, 36)
    at = first + tonumber(length, 36)
    for code = first, at do classes[code] = tonumber(class, 36) end
  end
end

-- Hangul: syllables of a leading consonant, a vowel and a trailing consonant or none.
local S, L, V, T = 0xAC00, 0x1100, 0x1161, 0x11A7
local L_COUNT, V_COUNT, T_COUNT = 19, 21, 28
local S_COUNT = L_COUNT * V_COUNT * T_COUNT

local function put_decomposed(code, compat, out)
  local parts = canonical[code] or compat and compatible[code]
  if parts then
    for _, part in ipairs(parts) do put_decomposed(part, compat, out) end
  elseif code >= S and code < S + S_COUNT then
    local position = code - S
    out[#out + 1] = L + position // (V_COUNT * T_COUNT)
    out[#out + 1] = V + position // T_COUNT % V_COUNT
    if position % T_COUNT > 0 then out[#out + 1] = T + position % T_COUNT end
  else
    out[#out + 1] = code
  end
end

-- Marks behind a letter in the order of their classes, those of one class as they were.
local function put_in_order(codes)
  local first
  local function sort_to(last)
    if not first or last == first then return end
    local run = {}
    for i = first, last do run[#run + 1] = { classes[codes[i]], i, codes[i] } end
    table.sort(run, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
    for i, item in ipairs(run) do codes[first + i - 1] = item[3] end
  end
  for i, code in ipairs(codes) do
    if classes[code] then
      first = first or i
    else
      sort_to(i - 1)
      first = nil
    end
  end
  sort_to(#codes)
end

local function composed(a, b)
  if a >= L and a < L + L_COUNT and b >= V and b < V + V_COUNT then
    return S + ((a - L) * V_COUNT + b - V) * T_COUNT
  elseif a >= S and a < S + S_COUNT and (a - S) % T_COUNT == 0 and b > T and b < T + T_COUNT then
    return a + b - T
  end
  return pairs_of[a] and pairs_of[a][b]
end

local function compose(codes)
  local out, starter, last = {}, nil, 0
  for _, code in ipairs(codes) do
    local class = classes[code] or 0
    local whole = starter and (last < class or last == 0 and #out == starter)
      and composed(out[starter], code)
    if whole then
      out[starter] = whole
    else
      out[#out + 1] = code
      if class == 0 then starter = #out end
      last = class
    end
  end
  return out
end

--- Code points in a normalization form: "NFC", "NFD", "NFKC" or "NFKD".
---@param codes integer[]
---@param form string
---@return integer[]
function unicode.normalize(codes, form)
  if not canonical then load_forms() end
  local out = {}
  for _, code in ipairs(codes) do put_decomposed(code, form:find "K" ~= nil, out) end
  put_in_order(out)
  return form:sub(-1) == "C" and compose(out) or out
end

return unicode
