-- stdlib/data/tokenizer/pre_tokenizers.lua: how a tokenizer cuts a text into pieces, none of whose
-- tokens reaches into another, by the types of tokenizer.json. Each becomes a function from a piece
-- to pieces: a piece is `{ text, first }`, `first` where the whole text begins with it.

local bpe = require "moonlet.data.bpe"
local parts = require "moonlet.data.tokenizer.parts"
local split_words = require "moonlet.data.split_words"
local unicode = require "moonlet.data.unicode"
local field, fail = parts.field, parts.fail

local makers = {}

-- --- cuts ---------------------------------------------------------------------------------------

-- A cut of a text: { first, last, matches } one after the other, which make it up. These of spans:
local function segments_of_spans(text, spans, invert)
  local out, at = {}, 1
  for i = 1, #spans, 2 do
    if spans[i] > at then out[#out + 1] = { at, spans[i] - 1, invert } end
    out[#out + 1] = { spans[i], spans[i + 1], not invert }
    at = spans[i + 1] + 1
  end
  if at <= #text then out[#out + 1] = { at, #text, invert } end
  return out
end

-- And these of characters that match, each alone.
local function segments_of_characters(text, matches)
  local out, at = {}, 1
  for _, code in ipairs(unicode.codes(text)) do
    local last = at + (code < 0 and 1 or #utf8.char(code)) - 1
    local found, before = matches(code), out[#out]
    if not found and before and not before[3] then
      before[2] = last
    else
      out[#out + 1] = { at, last, found }
    end
    at = last + 1
  end
  return out
end

-- What becomes of the segments that match.
local BEHAVIORS = {
  Isolated = function(segments) return segments end,
  Removed = function(segments)
    local out = {}
    for _, segment in ipairs(segments) do
      if not segment[3] then out[#out + 1] = segment end
    end
    return out
  end,
  Contiguous = function(segments)
    local out, before = {}, false
    for _, segment in ipairs(segments) do
      if segment[3] == before and #out > 0 then
        out[#out][2] = segment[2]
      else
        out[#out + 1] = { segment[1], segment[2] }
      end
      before = segment[3]
    end
    return out
  end,
  MergedWithPrevious = function(segments)
    local out, before = {}, false
    for _, segment in ipairs(segments) do
      if segment[3] and not before and #out > 0 then
        out[#out][2] = segment[2]
      else
        out[#out + 1] = { segment[1], segment[2] }
      end
      before = segment[3]
    end
    return out
  end,
  MergedWithNext = function(segments)
    local out, before, joined = {}, false, nil
    for i = #segments, 1, -1 do
      local segment = segments[i]
      if segment[3] and not before and joined then
        joined[1] = segment[1]
      else
        joined = { segment[1], segment[2] }
        out[#out + 1] = joined
      end
      before = segment[3]
    end
    for i = 1, #out // 2 do out[i], out[#out + 1 - i] = out[#out + 1 - i], out[i] end
    return out
  end,
}

local function behavior_of(part, default)
  local name = field(part, "behavior", "string", default)
  return BEHAVIORS[name]
    or fail("its %s has the behavior %s, which is not known here", part.type, name)
end

local function pieces_of(piece, segments)
  local out = {}
  for i, segment in ipairs(segments) do
    out[i] = { piece[1]:sub(segment[1], segment[2]), piece[2] and segment[1] == 1 }
  end
  return out
end

local function by_characters(matches, behavior)
  return function(piece)
    return pieces_of(piece, behavior(segments_of_characters(piece[1], matches)))
  end
end

-- --- types --------------------------------------------------------------------------------------

function makers.Split(part)
  local find, invert = parts.pattern(part), field(part, "invert", "boolean", false)
  local behavior = behavior_of(part)
  return function(piece)
    return pieces_of(piece, behavior(segments_of_spans(piece[1], find(piece[1]), invert)))
  end
end

function makers.ByteLevel(part)
  local prefix = field(part, "add_prefix_space", "boolean", true)
  local cut = field(part, "use_regex", "boolean", true)
  return function(piece)
    local text, out = piece[1], {}
    if prefix and text:sub(1, 1) ~= " " then text = " " .. text end
    if not cut then return { { bpe.show(text), piece[2] } } end
    for word in split_words(text) do out[#out + 1] = { bpe.show(word), piece[2] and #out == 0 } end
    return out
  end
end

-- SentencePiece's way: spaces become a sign that stays with the word behind it.
function makers.Metaspace(part)
  local sign = field(part, "replacement", "string", "\u{2581}")
  local scheme = field(part, "prepend_scheme", "string",
    field(part, "add_prefix_space", "boolean", true) and "always" or "never")
  local cut = field(part, "split", "boolean", true)
  if scheme ~= "always" and scheme ~= "first" and scheme ~= "never" then
    fail("its Metaspace has the prepend_scheme %s, which is not known here", scheme)
  elseif utf8.len(sign) ~= 1 then
    fail "the replacement of its Metaspace is no character"
  end
  local wanted = utf8.codepoint(sign)
  local by_sign = by_characters(function(code) return code == wanted end, BEHAVIORS.MergedWithNext)
  return function(piece)
    local text = piece[1]:gsub(" ", (sign:gsub("%%", "%%%%")))
    local prepends = scheme == "always" or scheme == "first" and piece[2]
    if prepends and text:sub(1, #sign) ~= sign then text = sign .. text end
    local changed = { text, piece[2] }
    return cut and by_sign(changed) or { changed }
  end
end

function makers.BertPreTokenizer()
  local by_space = by_characters(unicode.is_space, BEHAVIORS.Removed)
  local by_sign = by_characters(unicode.is_punctuation, BEHAVIORS.Isolated)
  return function(piece)
    local out = {}
    for _, word in ipairs(by_space(piece)) do
      local cut = by_sign(word)
      table.move(cut, 1, #cut, #out + 1, out)
    end
    return out
  end
end

-- Words and runs of signs; what is neither is left out.
function makers.Whitespace()
  return function(piece)
    local out, at, kind_before = {}, 1, nil
    for _, code in ipairs(unicode.codes(piece[1])) do
      local last = at + (code < 0 and 1 or #utf8.char(code)) - 1
      local kind = unicode.is_word(code) and "word" or not unicode.is_space(code) and "sign" or nil
      if kind and kind == kind_before then
        out[#out][2] = last
      elseif kind then
        out[#out + 1] = { at, last }
      end
      at, kind_before = last + 1, kind
    end
    return pieces_of(piece, out)
  end
end

function makers.WhitespaceSplit() return by_characters(unicode.is_space, BEHAVIORS.Removed) end

function makers.CharDelimiterSplit(part)
  local delimiter = field(part, "delimiter", "string")
  if utf8.len(delimiter) ~= 1 then
    fail "the delimiter of its CharDelimiterSplit is no character"
  end
  local wanted = utf8.codepoint(delimiter)
  return by_characters(function(code) return code == wanted end, BEHAVIORS.Removed)
end

function makers.Punctuation(part)
  return by_characters(unicode.is_punctuation, behavior_of(part, "Isolated"))
end

function makers.Digits(part)
  local each = field(part, "individual_digits", "boolean", false)
  return by_characters(unicode.is_number, each and BEHAVIORS.Isolated or BEHAVIORS.Contiguous)
end

function makers.Sequence(part, depth)
  local all = parts.make_all(makers, "pre_tokenizer", field(part, "pretokenizers", "table"), depth)
  return function(piece)
    local pieces = { piece }
    for _, cut in ipairs(all) do
      local out = {}
      for _, one in ipairs(pieces) do
        for _, new in ipairs(cut(one)) do
          if new[1] ~= "" then out[#out + 1] = new end
        end
      end
      pieces = out
    end
    return pieces
  end
end

--- The function of a part "pre_tokenizer".
---@param part any
---@return fun(piece: table): table[]
return function(part)
  if not parts.is_set(part) then return function(piece) return { piece } end end
  return parts.make(makers, "pre_tokenizer", part)
end
