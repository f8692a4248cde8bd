-- stdlib/data/tokenizer/models.lua: how a piece of a text becomes tokens, by the types of
-- tokenizer.json: byte-pair encoding (Sennrich et al. 2016), WordPiece (Schuster and Nakajima
-- 2012), whole words, and unigram.lua. A model has `ids` by token and `tokens` by id, from 1, and
-- `encode(model, piece, out)`, which adds ids to an array.

local bpe = require "moonlet.data.bpe"
local parts = require "moonlet.data.tokenizer.parts"
local unigram = require "moonlet.data.tokenizer.unigram"
local field, fail = parts.field, parts.fail

local makers = {}

-- Files hold ids of 32 bits.
local MOST_ID = (1 << 31) - 1

-- The vocabulary of a part as `ids` and `tokens`.
local function with_vocab(part)
  local self = { ids = {}, tokens = {} }
  for token, id in pairs(field(part, "vocab", "table")) do
    if type(token) ~= "string" or math.type(id) ~= "integer" or id < 0 or id > MOST_ID then
      fail "its vocabulary is damaged: ids from 0 on by token are expected"
    elseif self.tokens[id + 1] then
      fail("the tokens '%s' and '%s' have one id, %d", self.tokens[id + 1], token, id)
    end
    self.ids[token], self.tokens[id + 1] = id + 1, token
  end
  return self
end

local function unknown_of(self, part, needed)
  local token = field(part, "unk_token", "string", not needed and "" or nil)
  if token == "" then return nil end
  return self.ids[token] or fail("its unk_token '%s' is not in its vocabulary", token)
end

-- --- byte-pair encoding -------------------------------------------------------------------------

local function read_merges(self, merges, prefix)
  self.pairs = {}
  for rank, merge in ipairs(merges) do
    local left, right = bpe.parts_of(merge)
    if not left then fail("merge %d of its model is no pair of tokens", rank) end
    for _, token in ipairs { left, right, left .. right:sub(prefix + 1) } do
      if not self.ids[token] then fail("'%s' of merge %d is not in the vocabulary", token, rank) end
    end
    self.pairs[left] = self.pairs[left] or {}
    self.pairs[left][right] = self.pairs[left][right] or rank
  end
end

-- The tokens of the bytes of a character, or nil where one is missing.
local function bytes_of(self, character)
  local out = {}
  for byte in character:gmatch "." do
    out[#out + 1] = ("<0x%02X>"):format(byte:byte())
    if not self.ids[out[#out]] then return nil end
  end
  return out
end

-- The characters of a piece as symbols, the unknown ones as such tokens.
local function symbols_of(self, piece)
  local out, waiting = {}, false
  local at = 1
  while at <= #piece do
    local character = parts.character(piece, at)
    local symbol = (at > 1 and self.prefix or "") .. character
    at = at + #character
    if at > #piece then symbol = symbol .. self.suffix end
    local bytes = not self.ids[symbol] and self.byte_fallback and bytes_of(self, symbol)
    if self.ids[symbol] then
      if waiting then out[#out + 1] = self.unknown_token end
      waiting = false
      out[#out + 1] = symbol
    elseif bytes then
      table.move(bytes, 1, #bytes, #out + 1, out)
    elseif self.unknown_token then
      if waiting and not self.fuse_unknown then out[#out + 1] = self.unknown_token end
      waiting = true
    end
  end
  if waiting then out[#out + 1] = self.unknown_token end
  return out
end

local function encode_bpe(self, piece, out)
  if self.ignore_merges and self.ids[piece] then
    out[#out + 1] = self.ids[piece]
    return
  end
  for _, symbol in ipairs(bpe.merge(symbols_of(self, piece), self.pairs, #self.prefix)) do
    if symbol then out[#out + 1] = self.ids[symbol] end
  end
end

function makers.BPE(part)
  local self = with_vocab(part)
  self.encode = encode_bpe
  self.prefix = field(part, "continuing_subword_prefix", "string", "")
  self.suffix = field(part, "end_of_word_suffix", "string", "")
  self.fuse_unknown = field(part, "fuse_unk", "boolean", false)
  self.byte_fallback = field(part, "byte_fallback", "boolean", false)
  self.ignore_merges = field(part, "ignore_merges", "boolean", false)
  local unknown = unknown_of(self, part)
  self.unknown_token = unknown and self.tokens[unknown]
  if parts.is_set(part.dropout) and part.dropout ~= 0 then
    fail "its model drops merges at random (dropout), which is not known here"
  end
  read_merges(self, field(part, "merges", "table"), #self.prefix)
  return self
end

-- --- words --------------------------------------------------------------------------------------

-- The longest token at each position; a word with a position that has none is unknown.
local function encode_word_piece(self, piece, out)
  local count = utf8.len(piece) or #piece
  local at, found = 1, {}
  while at <= #piece and count <= self.most_characters do
    local last, id = math.min(#piece, at + self.longest - 1), nil
    while last >= at and not id do
      local token = piece:sub(at, last)
      id = self.ids[at > 1 and self.prefix .. token or token]
      if not id then last = last - 1 end
    end
    if not id then break end
    found[#found + 1] = id
    at = last + 1
  end
  if at > #piece then
    table.move(found, 1, #found, #out + 1, out)
  else
    out[#out + 1] = self.unknown
  end
end

function makers.WordPiece(part)
  local self = with_vocab(part)
  self.encode, self.unknown = encode_word_piece, unknown_of(self, part, true)
  self.prefix = field(part, "continuing_subword_prefix", "string", "##")
  self.most_characters = field(part, "max_input_chars_per_word", "number", 100)
  self.longest = 0
  for token in pairs(self.ids) do self.longest = math.max(self.longest, #token) end
  return self
end

function makers.WordLevel(part)
  local self = with_vocab(part)
  self.unknown = unknown_of(self, part)
  function self.encode(model, piece, out)
    out[#out + 1] = model.ids[piece] or model.unknown
  end
  return self
end

function makers.Unigram(part) return unigram(part) end

--- The model of a part "model". Old files say no type: with merges they are BPE, with an array of
--- tokens Unigram, with a prefix WordPiece, else WordLevel.
---@param part any
---@return table
return function(part)
  if type(part) ~= "table" then fail "it has no model" end
  if not parts.is_set(part.type) then
    part.type = part.merges and "BPE" or type(part.vocab) == "table" and part.vocab[1] and "Unigram"
      or part.continuing_subword_prefix and "WordPiece" or "WordLevel"
  end
  return parts.make(makers, "model", part)
end
