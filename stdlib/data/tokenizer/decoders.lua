-- stdlib/data/tokenizer/decoders.lua: how tokens become a text again, by the types of
-- tokenizer.json. Each becomes a function from an array of texts to one, which are put together in
-- the end.

local bpe = require "moonlet.data.bpe"
local parts = require "moonlet.data.tokenizer.parts"
local field, fail = parts.field, parts.fail

local makers = {}

-- A function of all by one of each text and its position.
local function on_each(change)
  return function(texts)
    local out = {}
    for i, text in ipairs(texts) do out[i] = change(text, i, #texts) end
    return out
  end
end

function makers.ByteLevel() return on_each(function(text) return bpe.bytes_of(text) end) end

-- A text with another one for each `wanted`.
local function replaced(text, wanted, with)
  return (text:gsub(wanted:gsub("%p", "%%%0"), (with:gsub("%%", "%%%%"))))
end

-- Signs and English endings that stand without the space before them.
local CLEANUP = { { " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" },
  { " n't", "n't" }, { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" },
  { " 're", "'re" } }

local function cleaned(text)
  for _, pair in ipairs(CLEANUP) do text = replaced(text, pair[1], pair[2]) end
  return text
end

function makers.WordPiece(part)
  local prefix = field(part, "prefix", "string", "##")
  local cleanup = field(part, "cleanup", "boolean", true)
  return on_each(function(text, i)
    if i > 1 then
      local continues = prefix ~= "" and text:sub(1, #prefix) == prefix
      text = continues and text:sub(#prefix + 1) or " " .. text
    end
    return cleanup and cleaned(text) or text
  end)
end

function makers.Metaspace(part)
  local sign = field(part, "replacement", "string", "\u{2581}")
  local scheme = field(part, "prepend_scheme", "string",
    field(part, "add_prefix_space", "boolean", true) and "always" or "never")
  return on_each(function(text, i)
    return replaced(text, sign, i == 1 and scheme ~= "never" and "" or " ")
  end)
end

function makers.BPEDecoder(part)
  local suffix = field(part, "suffix", "string", "</w>")
  return on_each(function(text, i, count)
    return suffix == "" and text or replaced(text, suffix, i == count and "" or " ")
  end)
end

-- Tokens of bytes are put together; where these are no UTF-8, each is the sign for that.
function makers.ByteFallback()
  return function(texts)
    local out, bytes = {}, {}
    local function finish()
      if #bytes == 0 then return end
      local text = table.concat(bytes)
      out[#out + 1] = utf8.len(text) and text or ("\u{FFFD}"):rep(#bytes)
      bytes = {}
    end
    for _, text in ipairs(texts) do
      local byte = text:match "^<0x(%x%x)>$"
      if byte then
        bytes[#bytes + 1] = string.char(tonumber(byte, 16))
      else
        finish()
        out[#out + 1] = text
      end
    end
    finish()
    return out
  end
end

function makers.Fuse() return function(texts) return { table.concat(texts) } end end

function makers.Strip(part)
  local content = field(part, "content", "string")
  local start, stop = field(part, "start", "number"), field(part, "stop", "number")
  if content == "" then fail "the content of its Strip is empty" end
  return on_each(function(text)
    for _ = 1, start do
      if text:sub(1, #content) ~= content then break end
      text = text:sub(#content + 1)
    end
    for _ = 1, stop do
      if text:sub(-#content) ~= content then break end
      text = text:sub(1, -#content - 1)
    end
    return text
  end)
end

function makers.Replace(part)
  local find, content = parts.pattern(part), field(part, "content", "string")
  return on_each(function(text)
    local spans, out, at = find(text), {}, 1
    for i = 1, #spans, 2 do
      out[#out + 1] = text:sub(at, spans[i] - 1) .. content
      at = spans[i + 1] + 1
    end
    out[#out + 1] = text:sub(at)
    return table.concat(out)
  end)
end

function makers.Sequence(part, depth)
  local all = parts.make_all(makers, "decoder", field(part, "decoders", "table"), depth)
  return function(texts)
    for _, change in ipairs(all) do texts = change(texts) end
    return texts
  end
end

--- The function of a part "decoder", from tokens to a text. Without one there is a space between
--- tokens.
---@param part any
---@return fun(tokens: string[]): string
return function(part)
  if not parts.is_set(part) then return function(tokens) return table.concat(tokens, " ") end end
  local change = parts.make(makers, "decoder", part)
  return function(tokens) return table.concat(change(tokens)) end
end
