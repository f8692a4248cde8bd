-- stdlib/data/tokenizer/added_tokens.lua: the tokens of a tokenizer.json that are found in a text
-- before anything else is done with it: special ones and others.

local parts = require "moonlet.data.tokenizer.parts"
local unicode = require "moonlet.data.unicode"
local fail = parts.fail

local AddedTokens = {}
AddedTokens.__index = AddedTokens

-- Those that are looked for in texts as they are, or in normalized ones: by content, and for each
-- first byte the lengths of those that begin with it, from the longest on.
local function new_set() return { by_content = {}, lengths = {}, heads = {}, pattern = nil } end

local function add_to(set, content, entry)
  if content == "" or set.by_content[content] then return end
  set.by_content[content] = entry
  local head = content:sub(1, 1)
  local lengths = set.lengths[head]
  if not lengths then
    lengths = { known = {} }
    set.lengths[head] = lengths
    set.heads[#set.heads + 1] = head:gsub("%W", "%%%0")
  end
  if not lengths.known[#content] then
    lengths.known[#content] = true
    lengths[#lengths + 1] = #content
  end
end

local function finish(set)
  for _, lengths in pairs(set.lengths) do
    table.sort(lengths, function(a, b) return a > b end)
  end
  set.pattern = #set.heads > 0 and "[" .. table.concat(set.heads) .. "]"
end

local function checked(entry, i)
  if type(entry) ~= "table" or type(entry.content) ~= "string" or entry.content == ""
    or math.type(entry.id) ~= "integer" or entry.id < 0 or entry.id >= 1 << 31 then
    fail("added token %d is damaged", i)
  end
  return entry
end

--- The tokens of a list "added_tokens": `ids` and `tokens` are those that they add to a model's.
---@param list any
---@param model table
---@param normalize fun(text: string): string
---@return table
function AddedTokens.new(list, model, normalize)
  local self = setmetatable({ raw = new_set(), normalized = new_set(), special = {},
    ids = {}, tokens = {} }, AddedTokens)
  if not parts.is_set(list) then list = {} end
  if type(list) ~= "table" then fail "its added_tokens are no array" end
  for i, entry in ipairs(list) do
    local content, id = checked(entry, i).content, entry.id + 1
    local known = self.tokens[id] or model.tokens[id]
    if known and known ~= content then
      fail("'%s' and '%s' have one id, %d", known, content, entry.id)
    end
    self.ids[content], self.tokens[id] = id, content
    self.special[id] = entry.special == true or nil
    local found = { id = id, special = entry.special == true, lstrip = entry.lstrip == true,
      single_word = entry.single_word == true, rstrip = entry.rstrip == true }
    local is_raw = entry.normalized == false or entry.special == true and entry.normalized ~= true
    add_to(is_raw and self.raw or self.normalized, is_raw and content or normalize(content), found)
  end
  finish(self.raw)
  finish(self.normalized)
  return self
end

-- The first token of a set from byte `at` on, the longest of those there: its entry, where it
-- begins and where it ends.
local function next_token(set, text, at)
  while set.pattern do
    at = text:find(set.pattern, at)
    if not at then return nil end
    for _, length in ipairs(set.lengths[text:sub(at, at)]) do
      local entry = set.by_content[text:sub(at, at + length - 1)]
      if entry and at + length - 1 <= #text then return entry, at, at + length - 1 end
    end
    at = at + 1
  end
  return nil
end

-- The code point that ends before byte `at`, or that begins there; nil at the ends of the text.
local function code_before(text, at)
  local character = text:sub(1, at - 1):match "[\0-\x7F\xC2-\xFD][\x80-\xBF]*$"
  return character and unicode.codes(character)[1]
end

local function code_at(text, at)
  local character = text:match("^" .. utf8.charpattern, at)
  return character and unicode.codes(character)[1]
end

local function is_apart(text, first, last)
  local before, after = code_before(text, first), code_at(text, last + 1)
  return not (before and unicode.is_word(before)) and not (after and unicode.is_word(after))
end

local function with_spaces(entry, text, first, last, at)
  while entry.lstrip and first > at do
    local code = code_before(text, first)
    if not code or not unicode.is_space(code) then break end
    first = math.max(first - #utf8.char(code), at)
  end
  while entry.rstrip do
    local code = code_at(text, last + 1)
    if not code or not unicode.is_space(code) then break end
    last = last + #utf8.char(code)
  end
  return first, last
end

-- Cuts a text at the tokens of a set: calls `plain(text, at)` and `token(id)` in turn.
local function cut(set, text, skips_special, plain, token)
  local from, at = 1, 1
  while true do
    local entry, first, last = next_token(set, text, at)
    if not entry then break end
    at = last + 1
    local taken = not (skips_special and entry.special)
      and not (entry.single_word and not is_apart(text, first, last))
    if taken and first >= from then
      first, last = with_spaces(entry, text, first, last, from)
      if first > from then plain(text:sub(from, first - 1), from) end
      token(entry.id)
      from = last + 1
    end
  end
  if from <= #text then plain(text:sub(from), from) end
end

--- Cuts a text at all tokens: calls `plain(normalized text, whether the text begins with it)` and
--- `token(id)` in turn. With `skips_special` those that are special are text as any other.
---@param text string
---@param normalize fun(text: string): string
---@param skips_special boolean
---@param plain fun(text: string, first: boolean)
---@param token fun(id: integer)
function AddedTokens:cut(text, normalize, skips_special, plain, token)
  cut(self.raw, text, skips_special, function(part, from)
    cut(self.normalized, normalize(part), skips_special, function(piece, at)
      -- What normalizing takes away is before the first piece.
      local head = from == 1 and at == 1 and part:match("^" .. utf8.charpattern)
      plain(piece, head and normalize(head) ~= "")
    end, token)
  end, token)
end

return AddedTokens
