-- stdlib/data/bpe_train.lua: a byte-level BPE vocabulary from texts: the pair of neighbours that is
-- met most often becomes a token, again and again. The one packaged trainer, SentencePiece's, makes
-- models of characters in a format of its own, not the merges over bytes that GPT-2 and its kin
-- read.

local Heap = require "moonlet.data.heap"
local bpe = require "moonlet.data.bpe"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local split_words = require "moonlet.data.split_words"
local fail = options.fail

local train = {}

-- How often each piece is met.
local function count_pieces(next_text, prefix)
  local counts, order = {}, {}
  for text in next_text do
    if type(text) ~= "string" then
      fail("train_tokenizer: texts are strings, got %s", signature.describe(text))
    end
    if prefix and text ~= "" and text:sub(1, 1) ~= " " then text = " " .. text end
    for piece in split_words(text) do
      if not counts[piece] then order[#order + 1] = piece end
      counts[piece] = (counts[piece] or 0) + 1
    end
  end
  return counts, order
end

-- The state of the training: words as arrays of ids, and of each pair, left << 32 | right, how
-- often it is met and in which words.
local State = {}
State.__index = State

function State:add(key, count, word)
  self.counts[key] = (self.counts[key] or 0) + count
  local words = self.words_of[key]
  if not words then
    words = {}
    self.words_of[key] = words
  end
  words[word] = true
  self.touched[key] = true
end

-- The most often met first; of these the one of the lowest ids.
local function before(a, b)
  if a.count ~= b.count then return a.count > b.count end
  return a.key < b.key
end

local function new_state(ids, pieces, counts)
  local self = setmetatable({ words = {}, times = {}, counts = {}, words_of = {}, touched = {},
    heap = Heap(before) }, State)
  for w, piece in ipairs(pieces) do
    local word = {}
    for character in bpe.show(piece):gmatch(utf8.charpattern) do
      word[#word + 1] = ids[character]
    end
    self.words[w], self.times[w] = word, counts[piece]
    for i = 1, #word - 1 do self:add(word[i] << 32 | word[i + 1], counts[piece], w) end
  end
  self:queue()
  return self
end

-- Puts the pairs whose count has changed into the heap.
function State:queue()
  for key in pairs(self.touched) do
    if self.counts[key] > 0 then self.heap:push { key = key, count = self.counts[key] } end
  end
  self.touched = {}
end

-- The pair that is met most often, at least `least` times.
function State:best(least)
  for top in self.heap.pop, self.heap do
    if top.count == self.counts[top.key] then return top.count >= least and top.key or nil end
    if self.counts[top.key] > 0 then
      self.heap:push { key = top.key, count = self.counts[top.key] }
    end
  end
end

-- A word with `id` in the place of each pair.
function State:merge_word(w, left, right, id)
  local word, out, i = self.words[w], {}, 1
  local times = self.times[w]
  for k = 1, #word - 1 do
    local key = word[k] << 32 | word[k + 1]
    self.counts[key] = self.counts[key] - times
  end
  while i <= #word do
    if word[i] == left and word[i + 1] == right then
      out[#out + 1], i = id, i + 2
    else
      out[#out + 1], i = word[i], i + 1
    end
  end
  self.words[w] = out
  for k = 1, #out - 1 do self:add(out[k] << 32 | out[k + 1], times, w) end
end

local function merge(self, key, id)
  local left, right = key >> 32, key & 0xffffffff
  local words = self.words_of[key]
  self.words_of[key] = nil
  for w in pairs(words) do self:merge_word(w, left, right, id) end
  self.counts[key], self.touched[key] = 0, nil
  self:queue()
end

-- The tokens that are there before any merge.
local function first_tokens(special)
  local tokens, vocab = {}, {}
  local function add(token)
    if vocab[token] then return end
    vocab[token] = #tokens
    tokens[#tokens + 1] = token
  end
  for _, token in ipairs(special) do add(token) end
  for _, character in ipairs(bpe.alphabet) do add(character) end
  return tokens, vocab
end

local function iterator_of(texts)
  if type(texts) == "function" then return texts end
  local i = 0
  return function()
    i = i + 1
    return texts[i]
  end
end

local read_train = signature("data.train_tokenizer(table|function texts, int>=1 vocab_size=30000, "
  .. "int>=0 min_frequency=2, string[]? special_tokens=nil, bool add_prefix_space=false)")

--- A byte-level BPE tokenizer from texts, an array of strings or a function that gives one after
--- the other. Its tokens are the special ones, the 256 bytes and then merges, as long as there are
--- fewer than `vocab_size` (30000) and a pair is met `min_frequency` (2) times. The result is that
--- of Hugging Face's `ByteLevelBPETokenizer`.
---@param texts string[]|fun(): string?
---@param vocab_size? integer (default 30000)
---@param min_frequency? integer (default 2)
---@param special_tokens? string[]
---@param add_prefix_space? boolean (default false)
---@return data.ByteLevelBPE
function train.train_tokenizer(...)
  local o = read_train:table(...)
  local special = o.special_tokens or {}
  local tokens, vocab = first_tokens(special)
  if o.vocab_size < #tokens then
    fail("train_tokenizer: 'vocab_size' must be at least %d, for the bytes and special tokens, "
      .. "got %d", #tokens, o.vocab_size)
  end
  local counts, pieces = count_pieces(iterator_of(o.texts), o.add_prefix_space)
  local state, merges = new_state(vocab, pieces, counts), {}
  while #tokens < o.vocab_size do
    local key = state:best(math.max(o.min_frequency, 1))
    if not key then break end
    local left, right = tokens[(key >> 32) + 1], tokens[(key & 0xffffffff) + 1]
    local token = left .. right
    merges[#merges + 1] = left .. " " .. right
    if not vocab[token] then
      vocab[token] = #tokens
      tokens[#tokens + 1] = token
    end
    merge(state, key, vocab[token])
  end
  return bpe.ByteLevelBPE { vocab = vocab, merges = merges, special_tokens = special,
    add_prefix_space = o.add_prefix_space }
end

return train
