-- stdlib/data/bpe.lua: byte-level byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019),
-- the tokenizer of GPT-2 and its kin, from and to the files of other programs.

local Heap = require "moonlet.data.heap"
local class = require "moonlet.class"
local io = require "moonlet.io"
local json = require "moonlet.json"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local split_words = require "moonlet.data.split_words"
local system = require "moonlet.system"
local fail = options.fail

local bpe = {}

-- --- bytes as characters ------------------------------------------------------------------------

-- In the files each byte stands as a character that can be seen: most as themselves, the others as
-- those from 256 on. `bpe.alphabet` has these characters in the order of their code points.
local to_character, to_byte = {}, {}
bpe.alphabet = {}

local function make_alphabet()
  local codes, next_code = {}, 256
  for byte = 0, 255 do
    local shown = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
    local code = shown and byte or next_code
    if not shown then next_code = next_code + 1 end
    to_character[string.char(byte)] = utf8.char(code)
    to_byte[utf8.char(code)] = string.char(byte)
    codes[#codes + 1] = code
  end
  table.sort(codes)
  for i, code in ipairs(codes) do bpe.alphabet[i] = utf8.char(code) end
end
make_alphabet()

--- Bytes as the characters of the files.
---@param bytes string
---@return string
function bpe.show(bytes) return (bytes:gsub(".", to_character)) end

--- The bytes of a token; one that is not written so stands for itself.
---@param token string
---@return string
function bpe.bytes_of(token)
  local out = {}
  for character in token:gmatch(utf8.charpattern) do
    local byte = to_byte[character]
    if not byte then return token end
    out[#out + 1] = byte
  end
  return table.concat(out)
end

-- --- the tokenizer ------------------------------------------------------------------------------

local read_new = signature("data.ByteLevelBPE(dict vocab, table merges, "
  .. "string[]? special_tokens=nil, bool add_prefix_space=false)")

--- Byte-level byte-pair-encoding (BPE) tokenizer, as of GPT-2. `data.read_tokenizer` makes one from
--- files and `data.train_tokenizer` from texts. Ids that it gives and takes count **from 1**, as
--- all that index tensors hold: they are those of the files plus 1. `#tokenizer` is the number of
--- tokens.
--- > tokenizer = ml.data.ByteLevelBPE({ a = 0, b = 1, ab = 2 }, { "a b" })
--- > tokenizer:encode("abba")
---   {3, 2, 1}
---   Tensor (3,) int64
---@param vocab table the id of each token as in `vocab.json`, **from 0**
---@param merges table the lines of `merges.txt` in their order, such as "a b"
---@param special_tokens? string[] tokens that are never cut; those not in `vocab` get the next ids
---@param add_prefix_space? boolean whether a space is put before a text that begins with none
---@source Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword
---   units", 2016
local ByteLevelBPE = class("ByteLevelBPE")
bpe.ByteLevelBPE = ByteLevelBPE

-- Files of other programs hold ids of 32 bits.
local function is_id(id) return math.type(id) == "integer" and id >= 0 and id < 1 << 31 end

local function check_vocab(vocab)
  local tokens, count = {}, 0
  for token, id in pairs(vocab) do
    if type(token) ~= "string" or not is_id(id) then
      fail("ByteLevelBPE: 'vocab' must have integers from 0 on by token, got %s for %s",
        signature.describe(id), signature.describe(token))
    elseif tokens[id + 1] then
      fail("ByteLevelBPE: the tokens '%s' and '%s' have one id, %d", tokens[id + 1], token, id)
    end
    tokens[id + 1] = token
    count = math.max(count, id + 1)
  end
  return tokens, count
end

--- The two parts of a merge as files have it, "a b" or { "a", "b" }; nil where it is no pair.
---@param merge any
---@return string? left
---@return string right
function bpe.parts_of(merge)
  local left, right
  if type(merge) == "table" then
    left, right = merge[1], merge[2]
  elseif type(merge) == "string" then
    left, right = merge:match "^([^ ]+) ([^ ]+)$"
  end
  if type(left) == "string" and type(right) == "string" then return left, right end
end

--- The ids to decode as a list: those of a tensor of one dimension, of a list, or one.
---@param ids Tensor|integer[]|integer
---@return integer[]
function bpe.id_list(ids)
  if not ml.is_tensor(ids) then return type(ids) == "table" and ids or { ids } end
  if ids.ndim > 1 or ids:is_floating_point() then
    fail("decode: 'ids' must be a 1-D tensor of integers, got %s of shape %s", ids.dtype,
      tostring(ids.shape))
  end
  return ids:reshape { -1 }:totable()
end

-- The ranks of the pairs by left and right part, with what they make.
local function read_merges(self, merges)
  self.pairs = {}
  for rank, merge in ipairs(merges) do
    local left, right = bpe.parts_of(merge)
    if not left then fail("ByteLevelBPE: merge %d is no pair of tokens", rank) end
    for _, token in ipairs { left, right, left .. right } do
      if not self.ids[token] then
        fail("ByteLevelBPE: '%s' of merge %d is not in the vocabulary", token, rank)
      end
    end
    local of_left = self.pairs[left] or {}
    self.pairs[left] = of_left
    of_left[right] = of_left[right] or rank
    self.merges[rank] = { left, right }
  end
end

-- Makes a token special, at `id` where it is new; others have theirs.
local function add_special(self, token, id)
  if token == "" then fail "ByteLevelBPE: a special token is empty" end
  if not self.ids[token] then
    id = id or self.count + 1
    if self.tokens[id] then
      fail("ByteLevelBPE: '%s' and '%s' have one id, %d", self.tokens[id], token, id - 1)
    end
    self.ids[token], self.tokens[id], self.count = id, token, math.max(self.count, id)
  elseif id and self.ids[token] ~= id then
    fail("ByteLevelBPE: '%s' has the ids %d and %d", token, self.ids[token] - 1, id - 1)
  end
  if self.special[self.ids[token]] then return end
  self.special[self.ids[token]] = true
  self.specials[#self.specials + 1] = token
end

function ByteLevelBPE:init(...)
  local vocab, merges, special, prefix = read_new(...)
  self.ids, self.merges, self.special, self.specials = {}, {}, {}, {}
  self.add_prefix_space, self.cache, self.cached = prefix, {}, 0
  self.tokens, self.count = check_vocab(vocab)
  for token, id in pairs(vocab) do self.ids[token] = id + 1 end
  for _, token in ipairs(special or {}) do add_special(self, token) end
  read_merges(self, merges)
end

function ByteLevelBPE.__len(self) return self.count end

-- --- encoding -----------------------------------------------------------------------------------

local function before(a, b) return a < b end

--- The symbols that are left when no pair of neighbours is a merge: of those that are, the one of
--- the lowest rank comes first, and of these the leftmost. `pairs` has the ranks by left and right
--- symbol; a right one loses its first `prefix` bytes where it is joined. The array is changed, and
--- has `false` where a symbol went into the one before.
---@param symbols (string|false)[]
---@param pairs table
---@param prefix? integer (default 0)
---@return (string|false)[]
function bpe.merge(symbols, pairs, prefix)
  -- A heap has rank and position as one integer.
  local following, previous, heap = {}, {}, Heap(before)
  local function rank_at(at)
    local after = following[at]
    local of_left = after and symbols[at] and pairs[symbols[at]]
    return of_left and of_left[symbols[after]]
  end
  local function offer(at)
    local rank = at and rank_at(at)
    if rank then heap:push(rank << 32 | at) end
  end
  for i = 1, #symbols do following[i], previous[i] = symbols[i + 1] and i + 1, i > 1 and i - 1 end
  for i = 1, #symbols do offer(i) end
  for key in heap.pop, heap do
    local at = key & 0xffffffff
    if rank_at(at) == key >> 32 then
      local after = following[at]
      symbols[at] = symbols[at] .. symbols[after]:sub((prefix or 0) + 1)
      symbols[after] = false
      following[at] = following[after]
      if following[at] then previous[following[at]] = at end
      offer(previous[at])
      offer(at)
    end
  end
  return symbols
end

local function merge_piece(self, piece)
  local symbols = {}
  for character in piece:gmatch(utf8.charpattern) do symbols[#symbols + 1] = character end
  return bpe.merge(symbols, self.pairs)
end

local MOST_CACHED, LONGEST_CACHED = 50000, 64

local function ids_of_piece(self, piece)
  local found = self.cache[piece]
  if found then return found end
  local shown, out = bpe.show(piece), {}
  local whole = self.ignore_merges and self.ids[shown]
  for _, token in ipairs(whole and { shown } or merge_piece(self, shown)) do
    if token then
      out[#out + 1] = self.ids[token]
        or fail("encode: the vocabulary has no token for '%s'", token)
    end
  end
  if #piece <= LONGEST_CACHED and self.cached < MOST_CACHED then
    self.cache[piece], self.cached = out, self.cached + 1
  end
  return out
end

local function encode_plain(self, text, out)
  if self.add_prefix_space and text ~= "" and text:sub(1, 1) ~= " " then text = " " .. text end
  for piece in split_words(text) do
    for _, id in ipairs(ids_of_piece(self, piece)) do out[#out + 1] = id end
  end
end

-- The first special token from byte `at` on, the longest of those there, and where it is.
-- `positions` keeps where each was found.
local function next_special(self, text, at, positions)
  local best, position
  for _, token in ipairs(self.specials) do
    local found = positions[token]
    if found == nil or found and found < at then
      found = text:find(token, at, true) or false
      positions[token] = found
    end
    if found and (not position or found < position or found == position and #token > #best) then
      best, position = token, found
    end
  end
  return best, position
end

local read_encode = signature "ByteLevelBPE:encode(string text, bool special=true)"

--- Ids of the tokens of a text, from 1.
--- > ml.data.ByteLevelBPE({ a = 0, b = 1, ab = 2 }, { "a b" }):encode("aab")
---   {1, 3}
---   Tensor (2,) int64
---@param text string the text
---@param special? boolean whether special tokens in the text are recognised; false treats them
---   as any text
---@return Tensor
---@shape -> (tokens)
function ByteLevelBPE:encode(...)
  local text, special = read_encode(...)
  local out, at, positions = {}, 1, {}
  while special do
    local token, position = next_special(self, text, at, positions)
    if not token then break end
    encode_plain(self, text:sub(at, position - 1), out)
    out[#out + 1] = self.ids[token]
    at = position + #token
  end
  encode_plain(self, text:sub(at), out)
  return #out > 0 and ml.tensor(out, { dtype = ml.int64 }) or ml.zeros { 0, dtype = ml.int64 }
end

local read_decode = signature(
  "ByteLevelBPE:decode(Tensor|int[]|int ids, bool skip_special_tokens=true)")

--- Text of ids: the bytes of the tokens, which need not be whole UTF-8 characters.
--- > ml.data.ByteLevelBPE({ a = 0, b = 1, ab = 2 }, { "a b" }):decode { 3, 2 }
---   abb
---@param ids Tensor|integer[]|integer ids from 1, a 1-D tensor, an array or one id
---@param skip_special_tokens? boolean whether special tokens are left out
---@return string
function ByteLevelBPE:decode(...)
  local ids, skip = read_decode(...)
  local out = {}
  for i, id in ipairs(bpe.id_list(ids)) do
    local token = self.tokens[id]
    if not token then
      fail("decode: id %d, %d, is none of the %d tokens, counted from 1", i, id, self.count)
    elseif not self.special[id] then
      out[#out + 1] = bpe.bytes_of(token)
    elseif not skip then
      out[#out + 1] = token
    end
  end
  return table.concat(out)
end

local read_id = signature "ByteLevelBPE:id_of(string token)"

--- Id, from 1, of a token as the files write it ("Ġthe"), or nil.
--- > ml.data.ByteLevelBPE({ a = 0, b = 1, ab = 2 }, { "a b" }):id_of("ab")
---   3
---@param token string the token
---@return integer?
function ByteLevelBPE:id_of(...) return self.ids[read_id(...)] end

local read_token = signature "ByteLevelBPE:token_of(int id)"

--- Token of an id, from 1, as the files write it, or nil.
--- > ml.data.ByteLevelBPE({ a = 0, b = 1, ab = 2 }, { "a b" }):token_of(3)
---   ab
---@param id integer the id
---@return string?
function ByteLevelBPE:token_of(...) return self.tokens[read_token(...)] end

-- --- files --------------------------------------------------------------------------------------

local BYTE_LEVEL = { type = "ByteLevel", trim_offsets = true, use_regex = true }

local function byte_level(prefix)
  local out = { add_prefix_space = prefix }
  for key, value in pairs(BYTE_LEVEL) do out[key] = value end
  return out
end

local read_save = signature "ByteLevelBPE:save(string path)"

--- Writes the tokenizer as a `tokenizer.json`, whole or not at all, which `data.read_tokenizer` and
--- Hugging Face's tokenizers read. Ids in the file count from 0.
--- > path = os.tmpname()
--- > ml.data.train_tokenizer({ "low lower lowest" }, 270):save(path)
--- > #ml.data.read_tokenizer(path)
---   260
---@param path string the file
function ByteLevelBPE:save(...)
  local path = read_save(...)
  local vocab, added, null = {}, {}, json.null
  for token, id in pairs(self.ids) do vocab[token] = id - 1 end
  for i, token in ipairs(self.specials) do
    added[i] = { id = self.ids[token] - 1, content = token, special = true, normalized = false,
      single_word = false, lstrip = false, rstrip = false }
  end
  table.sort(added, function(a, b) return a.id < b.id end)
  -- JSON's empty arrays, which an empty table is not.
  local text = json.encode { version = "1.0", truncation = null, padding = null,
    added_tokens = #added > 0 and added or "@empty", normalizer = null,
    pre_tokenizer = byte_level(self.add_prefix_space), post_processor = byte_level(false),
    decoder = byte_level(true),
    model = { type = "BPE", dropout = null, unk_token = null, continuing_subword_prefix = null,
      end_of_word_suffix = null, fuse_unk = false, byte_fallback = false,
      ignore_merges = self.ignore_merges or false, vocab = vocab,
      merges = #self.merges > 0 and self.merges or "@empty" } }
  text = text:gsub('("added_tokens":)"@empty"', "%1[]"):gsub('("merges":)"@empty"', "%1[]")
  system.write_file(path, text, "save")
end

local function is_set(value) return value ~= nil and value ~= json.null and value ~= false end

local function of_file(path, format, ...)
  fail("read_tokenizer: '%s': " .. format, path, ...)
end

-- A line of merges in the tables of a tokenizer, for each of its bytes at most.
local MERGE_BYTES = 64

local function decode_file(path, max_bytes)
  local text = system.read_file(path, "read_tokenizer", max_bytes)
  -- The tables of a tokenizer are as much as those of the file, and more of them.
  local left = math.max(io.read_limit(#text, max_bytes) // 4, 1)
  local ok, value = pcall(json.decode, text, left)
  if not ok then of_file(path, "it is no JSON: %s", tostring(value):gsub("^.-: ", "", 1)) end
  if type(value) ~= "table" then of_file(path, "it holds no object") end
  return value
end

-- Runs `f`, whose errors are those of the file.
local function for_file(path, f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  local reason = type(result) == "string"
    and (result:match "ByteLevelBPE: (.*)" or result:match "Tokenizer: (.*)")
  if not reason then error(result, 0) end
  of_file(path, "%s", reason)
end

local function are_special(list)
  if not is_set(list) then return true end
  if type(list) ~= "table" then return false end
  for _, entry in ipairs(list) do
    if type(entry) ~= "table" or entry.special ~= true or entry.normalized == true or entry.lstrip
      or entry.rstrip or entry.single_word or entry.content == "" then
      return false
    end
  end
  return true
end

-- Whether a ByteLevelBPE gives the tokens of a file; all others are a Tokenizer's.
local function is_byte_level(file)
  local model, pre = file.model, file.pre_tokenizer
  if type(model) ~= "table" or model.type ~= nil and model.type ~= "BPE"
    or type(model.vocab) ~= "table" or type(model.merges) ~= "table"
    or type(pre) ~= "table" or pre.type ~= "ByteLevel" or pre.use_regex == false then
    return false
  end
  for _, name in ipairs { "normalizer", "truncation", "padding" } do
    if is_set(file[name]) then return false end
  end
  for _, name in ipairs { "unk_token", "dropout", "continuing_subword_prefix",
    "end_of_word_suffix", "byte_fallback" } do
    if is_set(model[name]) and model[name] ~= "" then return false end
  end
  for _, name in ipairs { "post_processor", "decoder" } do
    local part = file[name]
    if is_set(part) and (type(part) ~= "table" or part.type ~= "ByteLevel") then return false end
  end
  return are_special(file.added_tokens)
end

local function add_added(path, self, list)
  if not is_set(list) then return end
  for i, entry in ipairs(list) do
    if type(entry.content) ~= "string" or not is_id(entry.id) then
      of_file(path, "added token %d is damaged", i)
    end
    for_file(path, add_special, self, entry.content, entry.id + 1)
  end
end

local function merges_of(path, max_bytes)
  local merges = {}
  local content = system.read_file(path, "read_tokenizer", max_bytes, MERGE_BYTES)
  for line in content:gmatch "[^\r\n]+" do
    if not line:find "^#version" then merges[#merges + 1] = line end
  end
  return merges
end

local read_file = signature("data.read_tokenizer(string path, string? merges=nil, "
  .. "string[]? special_tokens=nil, bool add_prefix_space=false, int>=1? max_bytes=nil)")

--- Reads a tokenizer from a `tokenizer.json`, or a byte-level BPE from a `vocab.json` and its
--- `merges.txt`. A file of plain byte-level BPE, as that of GPT-2, gives a `data.ByteLevelBPE`, all
--- others, such as those of BERT, T5, Llama and Qwen, a `data.Tokenizer`. What a file asks for and
--- is not implemented is an error; regular expressions in a file need PCRE2.
--- > path = os.tmpname()
--- > ml.data.train_tokenizer({ "low lower lowest" }, 270):save(path)
--- > ml.data.read_tokenizer(path):decode(ml.data.read_tokenizer(path):encode("lower"))
---   lower
---@param path string `tokenizer.json` or `vocab.json`
---@param merges? string `merges.txt`, for a `vocab.json`
---@param special_tokens? string[] tokens that are never cut, for a `vocab.json`
---@param add_prefix_space? boolean whether a space is put before a text, for a `vocab.json`
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@return data.ByteLevelBPE|data.Tokenizer
function bpe.read_tokenizer(...)
  local path, merges, special, prefix, max_bytes = read_file(...)
  local file = decode_file(path, max_bytes)
  if merges then
    return for_file(path, ByteLevelBPE, { vocab = file, merges = merges_of(merges, max_bytes),
      special_tokens = special, add_prefix_space = prefix })
  elseif special or prefix then
    fail "read_tokenizer: 'special_tokens' and 'add_prefix_space' are for a merges.txt"
  end
  if not is_byte_level(file) then
    return for_file(path, require("moonlet.data.tokenizer").Tokenizer, { file = file })
  end
  local tokenizer = for_file(path, ByteLevelBPE, { vocab = file.model.vocab,
    merges = file.model.merges,
    add_prefix_space = file.pre_tokenizer.add_prefix_space == true })
  tokenizer.ignore_merges = file.model.ignore_merges == true
  add_added(path, tokenizer, file.added_tokens)
  return tokenizer
end

return bpe
