-- stdlib/data/tokenizer/post_processors.lua: the special tokens that a tokenizer puts around one
-- text or two, by the types of tokenizer.json. Each becomes a function of whether it adds them and
-- of one or two arrays of ids, which gives an array of ids and one of type ids, all from 1.

local parts = require "moonlet.data.tokenizer.parts"
local field, fail = parts.field, parts.fail

local makers = {}

-- Adds `ids` of one type.
local function put(out, types, ids, type_id)
  for _, id in ipairs(ids) do
    out[#out + 1] = id
    types[#types + 1] = type_id
  end
end

-- A function by templates: arrays of { ids, type } for special tokens and { 1 or 2, type } for a
-- text.
local function by_templates(single, pair)
  return function(adds, first, second)
    local out, types = {}, {}
    for _, item in ipairs(second and pair or single) do
      local ids = item[1]
      if ids == 1 then
        put(out, types, first, item[2])
      elseif ids == 2 then
        put(out, types, second, item[2])
      elseif adds then
        put(out, types, ids, item[2])
      end
    end
    return out, types
  end
end

local PLAIN = by_templates({ { 1, 1 } }, { { 1, 1 }, { 2, 2 } })

-- The id, from 1, of "[token, id]".
local function special(part, name)
  local given = field(part, name, "table")
  if type(given[1]) ~= "string" or math.type(given[2]) ~= "integer" or given[2] < 0 then
    fail("the %s of its %s is no token with its id", name, part.type)
  end
  return { given[2] + 1 }
end

function makers.BertProcessing(part)
  local cls, sep = special(part, "cls"), special(part, "sep")
  return by_templates({ { cls, 1 }, { 1, 1 }, { sep, 1 } },
    { { cls, 1 }, { 1, 1 }, { sep, 1 }, { 2, 2 }, { sep, 2 } })
end

function makers.RobertaProcessing(part)
  local cls, sep = special(part, "cls"), special(part, "sep")
  return by_templates({ { cls, 1 }, { 1, 1 }, { sep, 1 } },
    { { cls, 1 }, { 1, 1 }, { sep, 1 }, { sep, 1 }, { 2, 1 }, { sep, 1 } })
end

-- It changes where tokens are said to be, and no token.
function makers.ByteLevel() return PLAIN end

-- The ids, from 1, of a special token of a template.
local function ids_of(part, name)
  local known = field(part, "special_tokens", "table")[name]
  if type(known) ~= "table" or type(known.ids) ~= "table" then
    fail("its template has the special token '%s', whose ids it does not say", tostring(name))
  end
  local out = {}
  for i, id in ipairs(known.ids) do
    if math.type(id) ~= "integer" or id < 0 then fail("the ids of '%s' are damaged", name) end
    out[i] = id + 1
  end
  return out
end

local function template(part, name, texts)
  local out = {}
  for i, item in ipairs(field(part, name, "table")) do
    local sequence = type(item) == "table" and item.Sequence
    local token = type(item) == "table" and item.SpecialToken
    local given = sequence or token
    if type(given) ~= "table" or math.type(given.type_id or 0) ~= "integer" then
      fail("item %d of its template '%s' is damaged", i, name)
    end
    local what = token and ids_of(part, given.id)
    if sequence then
      what = given.id == "A" and 1 or given.id == "B" and texts > 1 and 2
        or fail("its template '%s' has the text '%s'", name, tostring(given.id))
    end
    out[i] = { what, (given.type_id or 0) + 1 }
  end
  return out
end

function makers.TemplateProcessing(part)
  local pair = parts.is_set(part.pair) and template(part, "pair", 2) or { { 1, 1 }, { 2, 2 } }
  return by_templates(template(part, "single", 1), pair)
end

function makers.Sequence(part, depth)
  local found, list = PLAIN, field(part, "processors", "table")
  for _, processor in ipairs(parts.make_all(makers, "post_processor", list, depth)) do
    if processor ~= PLAIN and found ~= PLAIN then
      fail "its post_processor adds tokens twice, which is not known here"
    end
    found = processor ~= PLAIN and processor or found
  end
  return found
end

--- The function of a part "post_processor".
---@param part any
---@return fun(adds: boolean, first: integer[], second?: integer[]): integer[], integer[]
return function(part)
  if not parts.is_set(part) then return PLAIN end
  return parts.make(makers, "post_processor", part)
end
