-- stdlib/data/text.lua: data sets of text: the lines of a file, windows of its characters, and
-- windows of a file of token ids, which is mapped rather than read.

local class = require "moonlet.class"
local dataset = require "moonlet.data.dataset"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local tables = require "moonlet.data.table"
local fail = options.fail

local text = {}

-- What is made of a byte of a file at most: a line's start in a table, and a character and its id.
local LINE_BYTES, CHARACTER_BYTES = 32, 40

local read_lines = signature(
  "data.TextLines(string path, function? transform=nil, int>=1? max_bytes=nil)")

--- Data set of the lines of a text file, also gzipped, without their ends ("\n" or "\r\n").
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("one\ntwo\n") and file:close()
--- > ml.data.TextLines(path)[2]
---   {"two"}
---@param path string the file
---@param transform? function function of the line
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
local TextLines = class("TextLines", dataset.Dataset)
text.TextLines = TextLines

function TextLines:init(...)
  local path, max_bytes
  path, self.transform, max_bytes = read_lines(...)
  self.content = system.read_file(path, "TextLines", max_bytes, LINE_BYTES)
  self.starts = {}
  local at = 1
  while at <= #self.content do
    self.starts[#self.starts + 1] = at
    at = (self.content:find("\n", at, true) or #self.content) + 1
  end
end

function TextLines:size() return #self.starts end

function TextLines:get(i)
  local last = (self.starts[i + 1] or #self.content + 1) - 1
  local line = self.content:sub(self.starts[i], last):gsub("\r?\n$", "")
  if self.transform then return self.transform(line) end
  return line
end

local function characters_of(where, content)
  if not utf8.len(content) then fail("%s is not in UTF-8", where) end
  local out = {}
  for character in content:gmatch(utf8.charpattern) do out[#out + 1] = character end
  return out
end

signature.add_type("Vocabulary", "a data.Categories", function(value)
  return class.is_instance(value, tables.Categories) and value or nil
end)

local read_characters = signature("data.CharDataset(string path, int>=1 block_size, "
  .. "number[2]>=0<=1 part={0, 1}, int>=1? stride=nil, Vocabulary? vocabulary=nil, "
  .. "int>=1? max_bytes=nil)")

--- Data set of windows of the characters of a text file in UTF-8, also gzipped, for predicting the
--- next character: example i is the ids of `block_size` characters, from 1, and those of the
--- characters one further. `set.vocabulary` numbers the characters, and `set.ids` are all ids of
--- the part.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("banana") and file:close()
--- > ml.data.CharDataset(path, 3)[1]
---   {{2, 1, 3}  Tensor (3,) int64, {1, 3, 1}  Tensor (3,) int64}
---@param path string the file
---@param block_size integer characters in a window
---@param part? number|number[] shares of the text between which windows lie: `{ 0, 0.9 }` to
---   train, `{ 0.9, 1 }` to test
---@param stride? integer characters from one window's start to the next; `block_size` unless given
---@param vocabulary? any the `data.Categories` that numbers characters; those of the text
---   unless given
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@shape -> ids (block_size), next (block_size)
local CharDataset = class("CharDataset", dataset.Dataset)
text.CharDataset = CharDataset

function CharDataset:init(...)
  local o = read_characters:table(...)
  local characters = characters_of(("CharDataset: '%s'"):format(o.path),
    system.read_file(o.path, "CharDataset", o.max_bytes, CHARACTER_BYTES))
  self.vocabulary = o.vocabulary or tables.Categories(characters)
  local ids = self.vocabulary:encode(characters)
  local first, last = math.floor(#ids * o.part[1]) + 1, math.floor(#ids * o.part[2])
  if last - first < o.block_size then
    fail("CharDataset: this part of '%s' has %d characters; a window of %d and the next one want "
      .. "%d", o.path, math.max(last - first + 1, 0), o.block_size, o.block_size + 1)
  end
  self.ids = ids[{ { first, last } }]
  self.windows = self.ids:unfold(1, o.block_size + 1, o.stride or o.block_size)
end

function CharDataset:size() return #self.windows end

function CharDataset:get(i)
  local window = self.windows[i]
  return window[{ { 1, -2 } }], window[{ { 2, -1 } }]
end

--- The examples at several positions.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("banana") and file:close()
--- > ml.data.CharDataset(path, 2):get_batch(ml.tensor { 1, 2 })
---   {{2, 1},
---    {3, 1}}
---   Tensor (2, 2) int64
---   {{1, 3},
---    {1, 3}}
---   Tensor (2, 2) int64
---@param positions Tensor 1-D tensor of positions, from 1
---@return Tensor ids (examples, block_size)
---@return Tensor next those one further
---@shape positions (b) -> ids (b, block_size), next (b, block_size)
function CharDataset:get_batch(positions)
  local windows = self.windows:index_select(1, positions:to "cpu")
  return windows[{ {}, { 1, -2 } }], windows[{ {}, { 2, -1 } }]
end

local read_encode = signature "CharDataset:encode(string text)"

--- Ids of the characters of a text, from 1; a character that is not in the vocabulary is an error.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("banana") and file:close()
--- > ml.data.CharDataset(path, 2):encode("nab")
---   {3, 1, 2}
---   Tensor (3,) int64
---@param text string text in UTF-8
---@return Tensor
---@shape -> (characters)
function CharDataset:encode(...)
  return self.vocabulary:encode(characters_of("encode: the text", (read_encode(...))))
end

local read_decode = signature "CharDataset:decode(Tensor|int[]|int ids)"

--- Text of ids.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("banana") and file:close()
--- > ml.data.CharDataset(path, 2):decode { 3, 1, 2 }
---   nab
---@param ids Tensor|integer[]|integer ids from 1, a 1-D tensor, an array or one id
---@return string
function CharDataset:decode(...)
  local ids = read_decode(...)
  if ml.is_tensor(ids) then ids = ids:reshape(-1) end
  local found = self.vocabulary:decode(ids)
  return type(found) == "table" and table.concat(found) or found
end

-- How a dtype of a file is mapped, and what its ids reach.
local KINDS = {
  uint8 = { "uint8", 0xff }, int16 = { "int16", 0x7fff },
  uint16 = { "int16", 0xffff, mask = 0xffff },
  int32 = { "int32", 0x7fffffff }, uint32 = { "int32", 0xffffffff, mask = 0xffffffff },
  int64 = { "int64", math.maxinteger - 1 },
}

signature.add_choice("TokenKind", { "uint8", "int16", "uint16", "int32", "uint32", "int64" })

local read_tokens = signature("data.TokenFile(string path, int>=1 block_size, "
  .. 'TokenKind dtype="uint16", int>=1? stride=nil, int>=0 skip=0)')

--- Data set of windows of a memory-mapped file of token ids, for predicting the next token: example
--- i is `block_size` ids, from 1, and those one further. **The file counts from 0, tensors from
--- 1**: 1 is added to each. `#set` is the number of windows and `set.count` that of tokens.
--- > path = os.tmpname()
--- > ml.data.write_tokens(path, { 5, 6, 7, 8 })
--- > ml.data.TokenFile(path, 3)[1]
---   {{5, 6, 7}  Tensor (3,) int64, {6, 7, 8}  Tensor (3,) int64}
---@param path string the file
---@param block_size integer tokens in a window
---@param dtype? any the file's numbers: "uint8", "int16", "uint16", "int32", "uint32" or "int64"
---@param stride? integer tokens from one window's start to the next; `block_size` unless given
---@param skip? integer how many numbers of the file come before the first token
---@shape -> ids (block_size), next (block_size)
local TokenFile = class("TokenFile", dataset.Dataset)
text.TokenFile = TokenFile

function TokenFile:init(...)
  local o = read_tokens:table(...)
  local kind = KINDS[o.dtype]
  if system.exists(o.path) ~= "file" then
    fail("TokenFile: '%s' is not there; data.write_tokens makes such a file of token ids", o.path)
  end
  local storage = ml.Storage { file = o.path, dtype = kind[1], read_only = true }
  self.path, self.kind, self.skip = o.path, kind, o.skip
  self.block_size, self.stride = o.block_size, o.stride or o.block_size
  self.mapped = ml.empty({ 0 }, { dtype = kind[1] }):set_(storage, 0, { #storage }, { 1 })
  self.count = #storage - o.skip
  if self.count <= o.block_size then
    fail("TokenFile: '%s' has %d tokens; a window of %d and the next token want %d", o.path,
      math.max(self.count, 0), o.block_size, o.block_size + 1)
  end
end

function TokenFile:size() return (self.count - self.block_size - 1) // self.stride + 1 end

local read_range = signature "TokenFile:tokens(int>=1 first, int>=1 last)"

--- The ids at the positions from `first` to `last`, both included.
--- > path = os.tmpname()
--- > ml.data.write_tokens(path, { 5, 6, 7, 8 })
--- > ml.data.TokenFile(path, 2):tokens(2, 4)
---   {6, 7, 8}
---   Tensor (3,) int64
---@param first integer first position, from 1
---@param last integer last position
---@return Tensor
---@shape -> (last - first + 1)
function TokenFile:tokens(...)
  local first, last = read_range(...)
  if last < first or last > self.count then
    fail("tokens: %d to %d is no range of the %d tokens", first, last, self.count)
  end
  local ids = self.mapped:narrow(1, first + self.skip, last - first + 1):to(ml.int64)
  if self.kind.mask then ids = ids:bitwise_and(self.kind.mask) end
  local least = ids:amin():item()
  if least < 0 then
    fail("tokens: '%s' has the number %d, which is no token; is 'dtype' right?", self.path, least)
  end
  return ids + 1
end

function TokenFile:get(i)
  local first = (i - 1) * self.stride + 1
  local ids = self:tokens(first, first + self.block_size)
  return ids:narrow(1, 1, self.block_size), ids:narrow(1, 2, self.block_size)
end

local read_write = signature(
  'data.write_tokens(string path, Tensor|int[]>=1 ids, TokenKind dtype="uint16")')

--- Writes token ids for `data.TokenFile`, whole or not at all. Ids count from 1, the numbers in the
--- file from 0, as other programs expect.
--- > path = os.tmpname()
--- > ml.data.write_tokens(path, { 1, 2, 300 })
--- > ml.data.TokenFile(path, 1).count
---   3
---@param path string the file
---@param ids Tensor|integer[] ids from 1, a 1-D tensor or an array
---@param dtype? string the file's numbers: "uint8", "int16", "uint16", "int32", "uint32" or "int64"
---@shape ids (n)
function text.write_tokens(...)
  local path, ids, dtype = read_write(...)
  if type(ids) == "table" then ids = ml.tensor(ids, { dtype = ml.int64 }) end
  local kind = KINDS[dtype]
  if ids.ndim ~= 1 or ids:is_floating_point() or ids:is_complex() or ids.dtype == ml.bool then
    fail("write_tokens: 'ids' must be a 1-D tensor of integers, got %s of shape %s", ids.dtype,
      tostring(ids.shape))
  end
  ids = ids:to { "cpu", dtype = ml.int64 }
  if #ids > 0 and (ids:amin():item() < 1 or ids:amax():item() - 1 > kind[2]) then
    fail("write_tokens: ids from %d to %d: %s holds those from 1 to %d", ids:amin():item(),
      ids:amax():item(), dtype, kind[2] + 1)
  end
  local numbers = ids - 1
  if kind.mask then  -- the numbers of the same bits that have a sign
    numbers = numbers:where(numbers:le(kind.mask // 2), numbers - kind.mask - 1)
  end
  system.write_file(path, numbers:to(kind[1]):to_bytes(), "write_tokens")
end

return text
