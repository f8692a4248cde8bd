-- stdlib/data/tokenizer/normalizers.lua: what a tokenizer changes in a text before it cuts it, by
-- the types of tokenizer.json. Each becomes a function from text to text.

local charsmap = require "moonlet.data.tokenizer.charsmap"
local parts = require "moonlet.data.tokenizer.parts"
local unicode = require "moonlet.data.unicode"
local field = parts.field

local makers = {}

-- A function of texts by one of code points; texts of ASCII stay as they are where `ascii` is true.
local function on_codes(change, ascii)
  return function(text)
    if ascii and not text:find "[\128-\255]" then return text end
    return unicode.text(change(unicode.codes(text)))
  end
end

local function without(is_left_out)
  return function(codes)
    local out = {}
    for _, code in ipairs(codes) do
      if not is_left_out(code) then out[#out + 1] = code end
    end
    return out
  end
end

for _, form in ipairs { "NFC", "NFD", "NFKC", "NFKD" } do
  makers[form] = function()
    return on_codes(function(codes) return unicode.normalize(codes, form) end, true)
  end
end

function makers.Lowercase() return on_codes(unicode.lower) end

function makers.StripAccents() return on_codes(without(unicode.is_mark), true) end

function makers.Strip(part)
  local left = field(part, "strip_left", "boolean", true)
  local right = field(part, "strip_right", "boolean", true)
  return on_codes(function(codes)
    local first, last = 1, #codes
    while left and first <= last and unicode.is_space(codes[first]) do first = first + 1 end
    while right and last >= first and unicode.is_space(codes[last]) do last = last - 1 end
    return table.move(codes, first, last, 1, {})
  end)
end

function makers.Prepend(part)
  local prefix = field(part, "prepend", "string")
  return function(text) return text == "" and text or prefix .. text end
end

function makers.Replace(part)
  local find, content = parts.pattern(part), field(part, "content", "string")
  return function(text)
    local spans, out, at = find(text), {}, 1
    if #spans == 0 then return text end
    for i = 1, #spans, 2 do
      out[#out + 1] = text:sub(at, spans[i] - 1)
      out[#out + 1] = content
      at = spans[i + 1] + 1
    end
    out[#out + 1] = text:sub(at)
    return table.concat(out)
  end
end

function makers.Precompiled(part) return charsmap(part) end

-- Google's rules for translations: controls go, what is like a space becomes one.
local NMT_SPACES = { [0x9] = true, [0xA] = true, [0xC] = true, [0xD] = true, [0x1680] = true,
  [0x2028] = true, [0x2029] = true, [0x2581] = true, [0xFEFF] = true, [0xFFFD] = true }

function makers.Nmt()
  return on_codes(function(codes)
    local out = {}
    for _, code in ipairs(codes) do
      local gone = code >= 1 and code <= 8 or code == 0xB or code >= 0xE and code <= 0x1F
        or code == 0x7F or code == 0x8F or code == 0x9F
      if NMT_SPACES[code] or code >= 0x200B and code <= 0x200F then code = 32 end
      if not gone then out[#out + 1] = code end
    end
    return out
  end)
end

-- BERT's spaces and controls: a tab and the ends of lines are spaces.
local function cleaned(codes)
  local out = {}
  for _, code in ipairs(codes) do
    local ends_line = code == 9 or code == 10 or code == 13
    local gone = not ends_line and (code == 0xFFFD or unicode.is_hidden(code))
    if not gone then out[#out + 1] = (ends_line or unicode.is_space(code)) and 32 or code end
  end
  return out
end

local function chinese_apart(codes)
  local out = {}
  for _, code in ipairs(codes) do
    if unicode.is_chinese(code) then
      table.move({ 32, code, 32 }, 1, 3, #out + 1, out)
    else
      out[#out + 1] = code
    end
  end
  return out
end

local strip_nonspacing = without(unicode.is_nonspacing)

function makers.BertNormalizer(part)
  local clean = field(part, "clean_text", "boolean", true)
  local chinese = field(part, "handle_chinese_chars", "boolean", true)
  local lower = field(part, "lowercase", "boolean", true)
  local strip = field(part, "strip_accents", "boolean", lower)
  return on_codes(function(codes)
    if clean then codes = cleaned(codes) end
    if chinese then codes = chinese_apart(codes) end
    if strip then codes = strip_nonspacing(unicode.normalize(codes, "NFD")) end
    return lower and unicode.lower(codes) or codes
  end)
end

function makers.ByteLevel()
  local bpe = require "moonlet.data.bpe"
  return bpe.show
end

function makers.Sequence(part, depth)
  local all = parts.make_all(makers, "normalizer", field(part, "normalizers", "table"), depth)
  return function(text)
    for _, change in ipairs(all) do text = change(text) end
    return text
  end
end

--- The function of a part "normalizer".
---@param part any
---@return fun(text: string): string
return function(part)
  if not parts.is_set(part) then return function(text) return text end end
  return parts.make(makers, "normalizer", part)
end
