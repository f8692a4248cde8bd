-- stdlib/data/tokenizer/unigram.lua: the likeliest cut of a piece into tokens, each with a
-- logarithm of its probability (Kudo 2018, "Subword Regularization"), found by Viterbi's algorithm.

local parts = require "moonlet.data.tokenizer.parts"
local field, fail = parts.field, parts.fail

-- An unknown character is less likely than any token by this.
local UNKNOWN_PENALTY = 10.0

-- Tokens with their scores; of each first character the bytes that its tokens have, from the fewest
-- on.
local function read_vocab(self, list)
  self.ids, self.tokens, self.scores, self.lengths = {}, {}, {}, {}
  local least = math.huge
  for i, entry in ipairs(list) do
    local token, score = nil, nil
    if type(entry) == "table" then token, score = entry[1], entry[2] end
    if type(token) ~= "string" or type(score) ~= "number" or score ~= score then
      fail("token %d of its vocabulary is no text with a number", i - 1)
    end
    self.tokens[i] = token
    self.ids[token], self.scores[token] = i, score
    least = math.min(least, score)
    local head = token:match(utf8.charpattern)
    if head then
      local lengths = self.lengths[head] or { known = {} }
      self.lengths[head] = lengths
      if not lengths.known[#token] then
        lengths.known[#token] = true
        lengths[#lengths + 1] = #token
      end
    end
  end
  for _, lengths in pairs(self.lengths) do table.sort(lengths) end
  self.unknown_score = least - UNKNOWN_PENALTY
end

-- The tokens of the best cut, where runs of unknown characters are one.
local function backtrack(text, starts, is_unknown)
  local out, stop, unknown_end = {}, #text + 1, nil
  while stop > 1 do
    local start = starts[stop]
    if is_unknown[stop] then
      unknown_end = unknown_end or stop
    else
      if unknown_end then out[#out + 1] = text:sub(stop, unknown_end - 1) end
      unknown_end = nil
      out[#out + 1] = text:sub(start, stop - 1)
    end
    stop = start
  end
  if unknown_end then out[#out + 1] = text:sub(1, unknown_end - 1) end
  for i = 1, #out // 2 do out[i], out[#out + 1 - i] = out[#out + 1 - i], out[i] end
  return out
end

local function best_cut(self, text)
  -- By the byte behind each end: the score of the best cut up to there, where its last token
  -- begins.
  local scores, starts, is_unknown = { [1] = 0.0 }, {}, {}
  local at, size = 1, #text
  while at <= size do
    local head = parts.character(text, at)
    local here, single = scores[at], false
    for _, length in ipairs(self.lengths[head] or {}) do
      if length > size - at + 1 then break end
      local score = self.scores[text:sub(at, at + length - 1)]
      local stop = at + length
      if score then
        if not starts[stop] or here + score > scores[stop] then
          scores[stop], starts[stop], is_unknown[stop] = here + score, at, false
        end
        single = single or length == #head
      end
    end
    local stop = at + #head
    if not single and (not starts[stop] or here + self.unknown_score > scores[stop]) then
      scores[stop], starts[stop], is_unknown[stop] = here + self.unknown_score, at, true
    end
    at = stop
  end
  return backtrack(text, starts, is_unknown)
end

local function put_unknown(self, token, out)
  local bytes = self.byte_fallback and {}
  for byte in (bytes and token or ""):gmatch "." do
    local id = self.ids[("<0x%02X>"):format(byte:byte())]
    if not id then
      bytes = false
      break
    end
    bytes[#bytes + 1] = id
  end
  if bytes then return table.move(bytes, 1, #bytes, #out + 1, out) end
  out[#out + 1] = self.unknown
    or fail "encode: a character is unknown, and the tokenizer has no token for that"
end

local function encode(self, text, out)
  for _, token in ipairs(best_cut(self, text)) do
    local id = self.ids[token]
    if id then out[#out + 1] = id else put_unknown(self, token, out) end
  end
end

--- A model of the type "Unigram": `ids`, `tokens` and `encode`.
---@param part table
---@return table
return function(part)
  local self = { encode = encode }
  read_vocab(self, field(part, "vocab", "table"))
  if #self.tokens == 0 then fail "its vocabulary is empty" end
  self.byte_fallback = field(part, "byte_fallback", "boolean", false)
  if parts.is_set(part.unk_id) then
    local id = field(part, "unk_id", "number")
    if math.type(id) ~= "integer" or id < 0 or id >= #self.tokens then
      fail("its unk_id %s is none of its %d tokens", tostring(id), #self.tokens)
    end
    self.unknown = id + 1
  end
  return self
end
