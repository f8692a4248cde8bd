-- stdlib/data/tokenizer.lua: tokenizers of all kinds from a tokenizer.json, with Hugging Face's
-- results: what changes a text, what cuts it, the model, and what is put around it are each a file
-- of data/tokenizer/. What is asked for and is not known here is an error when the file is read.

local AddedTokens = require "moonlet.data.tokenizer.added_tokens"
local Source = require "moonlet.files.source"
local bpe = require "moonlet.data.bpe"
local class = require "moonlet.class"
local make_decoder = require "moonlet.data.tokenizer.decoders"
local make_model = require "moonlet.data.tokenizer.models"
local make_normalizer = require "moonlet.data.tokenizer.normalizers"
local make_post_processor = require "moonlet.data.tokenizer.post_processors"
local make_pre_tokenizer = require "moonlet.data.tokenizer.pre_tokenizers"
local ml = require "moonlet"
local options = require "moonlet.options"
local parts = require "moonlet.data.tokenizer.parts"
local signature = require "moonlet.signature"
local fail = options.fail

local tokenizer = {}

-- --- limits of length ---------------------------------------------------------------------------

local function choice(part, name, default, ...)
  local value = parts.is_set(part[name]) and part[name] or default
  for _, known in ipairs { ... } do
    if value == known then return value end
  end
  return parts.fail("its %s %s is not known here", name, tostring(value))
end

local function size(part, name, default)
  local value = parts.is_set(part[name]) and part[name] or default
  if math.type(value) ~= "integer" or value < 0 then parts.fail("its %s is no size", name) end
  return value
end

local function read_truncation(part)
  if not parts.is_set(part) then return nil end
  if type(part) ~= "table" then parts.fail "its truncation is no object" end
  return { most = size(part, "max_length"),
    direction = choice(part, "direction", "Right", "Left", "Right"),
    strategy = choice(part, "strategy", "LongestFirst", "LongestFirst", "OnlyFirst", "OnlySecond") }
end

local function read_padding(part)
  if not parts.is_set(part) then return nil end
  if type(part) ~= "table" then parts.fail "its padding is no object" end
  local fixed = type(part.strategy) == "table" and size(part.strategy, "Fixed")
  if not fixed then choice(part, "strategy", "BatchLongest", "BatchLongest") end
  return { length = fixed or 0, direction = choice(part, "direction", "Right", "Left", "Right"),
    multiple = size(part, "pad_to_multiple_of", 0), id = size(part, "pad_id", 0) + 1,
    type_id = size(part, "pad_type_id", 0) + 1 }
end

-- Keeps `count` ids.
local function keep(ids, count, direction)
  if #ids <= count then return ids end
  return table.move(ids, direction == "Left" and #ids - count + 1 or 1,
    direction == "Left" and #ids or count, 1, {})
end

-- How many ids of two texts are kept where the longer one is cut first.
local function shares(first, second, most)
  local less = math.min(first, second)
  local more = less > most and less or math.max(less, most - less)
  if less + more > most then
    less = most // 2
    more = less + most % 2
  end
  if first > second then return more, less end
  return less, more
end

local function truncated(limit, most, first, second)
  local excess = #first + (second and #second or 0) - most
  if excess <= 0 then return first, second end
  if limit.strategy == "LongestFirst" then
    if not second then return keep(first, most, limit.direction) end
    local one, two = shares(#first, #second, most)
    return keep(first, one, limit.direction), keep(second, two, limit.direction)
  end
  local target = limit.strategy == "OnlyFirst" and first or second
  if not target or #target <= excess then
    fail("encode: the text to be cut off has too few tokens (%s, max_length %d)", limit.strategy,
      limit.most)
  end
  local kept = keep(target, #target - excess, limit.direction)
  if target == first then return kept, second end
  return first, kept
end

-- --- the tokenizer ------------------------------------------------------------------------------

local read_new = signature "data.Tokenizer(dict file)"

--- Tokenizer of what a `tokenizer.json` holds: BPE, WordPiece, Unigram or whole words, with the
--- file's normalizer, pre-tokenizer, special tokens, truncation and padding. `data.read_tokenizer`
--- makes one from the file. Ids count **from 1**: they are those of the file plus 1. `#tokenizer`
--- is the largest.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:encode("a b c")
---   {2, 3, 1}
---   Tensor (3,) int64
---   name            shape  dtype
---   attention_mask  (3,)   int64
---   type_ids        (3,)   int64
---@param file table the contents of a `tokenizer.json`, as `json.decode` gives them
local Tokenizer = class("Tokenizer")
tokenizer.Tokenizer = Tokenizer

local function build(self, file)
  self.normalize, self.model = make_normalizer(file.normalizer), make_model(file.model)
  self.added = AddedTokens.new(file.added_tokens, self.model, self.normalize)
  self.cut, self.decode_tokens = make_pre_tokenizer(file.pre_tokenizer), make_decoder(file.decoder)
  self.process = make_post_processor(file.post_processor)
  self.truncation, self.padding = read_truncation(file.truncation), read_padding(file.padding)
  self.cache, self.cached, self.count = {}, 0, 0
  for _, tokens in ipairs { self.model.tokens, self.added.tokens } do
    for id in pairs(tokens) do self.count = math.max(self.count, id) end
  end
end

function Tokenizer:init(...)
  local ok, problem = pcall(build, self, (read_new(...)))
  if not ok then fail("Tokenizer: %s", (Source.reason(problem))) end
end

local function id_of(self, token) return self.model.ids[token] or self.added.ids[token] end

local function token_of(self, id) return self.model.tokens[id] or self.added.tokens[id] end

function Tokenizer.__len(self) return self.count end

local MOST_CACHED, LONGEST_CACHED = 50000, 64

local function encode_piece(self, piece, out)
  local found = self.cache[piece]
  if not found then
    found = {}
    self.model:encode(piece, found)
    if #piece <= LONGEST_CACHED and self.cached < MOST_CACHED then
      self.cache[piece], self.cached = found, self.cached + 1
    end
  end
  table.move(found, 1, #found, #out + 1, out)
end

local function encode_text(self, text, special)
  local out = {}
  self.added:cut(text, self.normalize, not special, function(part, first)
    for _, piece in ipairs(self.cut { part, first }) do
      if piece[1] ~= "" then encode_piece(self, piece[1], out) end
    end
  end, function(id) out[#out + 1] = id end)
  return out
end

-- The ids and type ids of one text or two, cut off and with what is put around them.
local function encode_whole(self, text, pair, special, adds)
  local first, second = encode_text(self, text, special), nil
  if pair then second = encode_text(self, pair, special) end
  if self.truncation then
    local added = #self.process(adds, {}, pair and {} or nil)
    local most = math.max(self.truncation.most - added, 0)
    first, second = truncated(self.truncation, most, first, second)
  end
  return self.process(adds, first, second)
end

-- Fills ids and types up to a length; the mask is 1 for what was there before.
local function padded(padding, ids, types, length)
  local mask, count = {}, #ids
  for i = 1, count do mask[i] = 1 end
  if not padding or length <= count then return ids, types, mask end
  local function fill(list, value)
    local left = padding.direction == "Left"
    local out = table.move(list, 1, count, left and length - count + 1 or 1, {})
    for i = left and 1 or count + 1, left and length - count or length do out[i] = value end
    return out
  end
  return fill(ids, padding.id), fill(types, padding.type_id), fill(mask, 0)
end

local function length_of(padding, longest)
  local length = padding.length > 0 and padding.length or longest
  local multiple = padding.multiple
  return multiple > 0 and (length + multiple - 1) // multiple * multiple or length
end

local function as_tensor(list)
  return #list > 0 and ml.tensor(list, { dtype = ml.int64 }) or ml.zeros { 0, dtype = ml.int64 }
end

-- What comes beside ids, and is no argument of what is called with them: t:decode(t:encode(text)).
local function encoding(types, mask)
  local out = { type_ids = types, attention_mask = mask }
  signature.asides[out] = true
  return out
end

local read_encode = signature("Tokenizer:encode(string text, bool special=true, "
  .. "bool add_special_tokens=true, string? pair=nil)")

--- Ids of the tokens of a text, from 1, and a table with `type_ids` and `attention_mask` of the
--- same length. Type 1 is that of the text and 2 that of `pair`, where the tokenizer tells them
--- apart; the mask is 1, and 0 for padding.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:encode("b a")
---   {3, 2}
---   Tensor (2,) int64
---   name            shape  dtype
---   attention_mask  (2,)   int64
---   type_ids        (2,)   int64
---@param text string the text
---@param special? boolean whether special tokens in the text are recognised
---@param add_special_tokens? boolean whether the tokens of the file's post-processor are put
---   around the text
---@param pair? string a second text
---@return Tensor ids
---@return table encoding
---@shape -> (tokens)
function Tokenizer:encode(...)
  local text, special, adds, pair = read_encode(...)
  local ids, types = encode_whole(self, text, pair, special, adds)
  local mask
  local length = self.padding and length_of(self.padding, #ids) or #ids
  ids, types, mask = padded(self.padding, ids, types, length)
  return as_tensor(ids), encoding(as_tensor(types), as_tensor(mask))
end

-- What texts of a batch are filled up with: the file's padding, or by a token.
local PAD_TOKENS = { "[PAD]", "<pad>", "<|pad|>" }

local function padding_for(self, pad_token)
  if not pad_token then
    if self.padding then return self.padding end
    for _, token in ipairs(PAD_TOKENS) do
      pad_token = pad_token or id_of(self, token) and token
    end
    if not pad_token then return nil end
  end
  local id = id_of(self, pad_token) or fail("encode_batch: there is no token '%s'", pad_token)
  return { length = 0, direction = "Right", multiple = 0, id = id, type_id = 1 }
end

local read_batch = signature("Tokenizer:encode_batch(string[] texts, bool special=true, "
  .. "bool add_special_tokens=true, string[]? pairs=nil, string? pad_token=nil)")

--- Ids of several texts, padded to the longest, and a table with `type_ids` and `attention_mask` of
--- that shape, as `encode` gives them.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:encode_batch({ "b", "a b" }, { pad_token = "?" })
---   {{3, 1},
---    {2, 3}}
---   Tensor (2, 2) int64
---   name            shape   dtype
---   attention_mask  (2, 2)  int64
---   type_ids        (2, 2)  int64
---@param texts string[] the texts
---@param special? boolean whether special tokens in the texts are recognised
---@param add_special_tokens? boolean whether the tokens of the file's post-processor are put
---   around each text
---@param pairs? string[] the second texts
---@param pad_token? string the token to pad with, in place of the file's padding
---@return Tensor ids
---@return table encoding
---@shape -> (texts, tokens)
function Tokenizer:encode_batch(...)
  local texts, special, adds, seconds, pad_token = read_batch(...)
  if #texts == 0 then fail "encode_batch: there are no texts" end
  if seconds and #seconds ~= #texts then
    fail("encode_batch: there are %d texts and %d pairs", #texts, #seconds)
  end
  local rows, longest, ragged = {}, 0, false
  for i, text in ipairs(texts) do
    rows[i] = table.pack(encode_whole(self, text, seconds and seconds[i], special, adds))
    ragged = ragged or i > 1 and #rows[i][1] ~= longest
    longest = math.max(longest, #rows[i][1])
  end
  local padding = padding_for(self, pad_token)
  if ragged and not padding then
    fail "encode_batch: the texts have unlike numbers of tokens; 'pad_token' is to fill them up"
  end
  local length = padding and length_of(padding, longest) or longest
  local ids, types, masks = {}, {}, {}
  for i, row in ipairs(rows) do
    local a, b, c = padded(padding, row[1], row[2], length)
    ids[i], types[i], masks[i] = as_tensor(a), as_tensor(b), as_tensor(c)
    if #a ~= length then
      fail("encode_batch: text %d has %d tokens, of %d of the file's padding", i, #a, length)
    end
  end
  return ml.stack(ids), encoding(ml.stack(types), ml.stack(masks))
end

local read_decode = signature(
  "Tokenizer:decode(Tensor|int[]|int ids, bool skip_special_tokens=true)")

--- Text of ids.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:decode { 2, 3 }
---   a b
---@param ids Tensor|integer[]|integer ids from 1, a 1-D tensor, an array or one id
---@param skip_special_tokens? boolean whether special tokens are left out
---@return string
function Tokenizer:decode(...)
  local ids, skip = read_decode(...)
  local out = {}
  for i, id in ipairs(bpe.id_list(ids)) do
    local token = token_of(self, id)
      or fail("decode: id %d, %d, is none of the %d tokens, counted from 1", i, id, self.count)
    if not (skip and self.added.special[id]) then out[#out + 1] = token end
  end
  return self.decode_tokens(out)
end

local read_id = signature "Tokenizer:id_of(string token)"

--- Id, from 1, of a token as the file writes it, or nil.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:id_of("b")
---   3
---@param token string the token
---@return integer?
function Tokenizer:id_of(...) return id_of(self, read_id(...)) end

local read_token = signature "Tokenizer:token_of(int id)"

--- Token of an id, from 1, as the file writes it, or nil.
--- > tokenizer = ml.data.Tokenizer { model = { type = "WordLevel", unk_token = "?",
---   vocab = { ["?"] = 0, a = 1, b = 2 } }, pre_tokenizer = { type = "Whitespace" } }
--- > tokenizer:token_of(3)
---   b
---@param id integer the id
---@return string?
function Tokenizer:token_of(...) return token_of(self, read_token(...)) end

return tokenizer
