-- stdlib/onnx/read/text.lua: ONNX's ops of strings.

local Strings = require "moonlet.onnx.strings"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

local function strings_of(x, i)
  return Strings.is(x) and x or fail("its input %d must be strings", i)
end

-- Two lists of strings in the shape that both broadcast to.
local function together(x, y)
  local a, b = strings_of(x, 1):places(), strings_of(y, 2):places()
  local places = ml.broadcast_tensors({ a, b })
  return x:at(places[1]), y:at(places[2])
end

function read.StringConcat(n, x, y)
  local a, b = together(x, y)
  common.check_room(n, a:bytes() + b:bytes(), 1)
  local out = {}
  for i, text in ipairs(a.list) do out[i] = text .. b.list[i] end
  return Strings.new(out, a.shape)
end

-- Equal of strings.
function read._equal(x, y)
  local a, b = together(x, y)
  local out = {}
  for i, text in ipairs(a.list) do out[i] = text == b.list[i] end
  local flat = #out > 0 and ml.tensor(out) or ml.empty({ 0 }, { dtype = ml.bool })
  return flat:reshape(a.shape)
end

-- --- words ------------------------------------------------------------------------------------

-- At most `most` cuts from the left; without a delimiter at runs of white space.
local function split(text, delimiter, most)
  local out, at, cuts = {}, 1, 0
  if not delimiter then
    at = text:find "%S"
    while at do
      local first, last = text:find("%s+", at)
      if not first or cuts >= most then
        out[#out + 1] = cuts >= most and text:sub(at) or text:sub(at):gsub("%s+$", "")
        break
      end
      out[#out + 1] = text:sub(at, first - 1)
      cuts, at = cuts + 1, text:find("%S", last + 1)
    end
    return out
  end
  while cuts < most do
    local first, last = text:find(delimiter, at, true)
    if not first then break end
    out[#out + 1] = text:sub(at, first - 1)
    at, cuts = last + 1, cuts + 1
  end
  out[#out + 1] = text:sub(at)
  return out
end

function read.StringSplit(n, x)
  local delimiter, limit = n.attributes.delimiter, n.attributes.maxsplit or math.huge
  if delimiter == "" then delimiter = nil end
  strings_of(x, 1)
  local rows, widest, counts = {}, 0, {}
  for i, text in ipairs(x.list) do
    rows[i] = split(text, delimiter, limit)
    counts[i] = #rows[i]
    widest = math.max(widest, #rows[i])
  end
  common.check_room(n, #rows * widest, 64)
  local out = {}
  for _, row in ipairs(rows) do
    for k = 1, widest do out[#out + 1] = row[k] or "" end
  end
  local shape = table.move(x.shape, 1, #x.shape, 1, {})
  shape[#shape + 1] = widest
  local numbers = #counts > 0 and ml.tensor(counts, { dtype = ml.int64 })
    or ml.empty({ 0 }, { dtype = ml.int64 })
  return Strings.new(out, shape), numbers:reshape(x.shape)
end

local CASES = { NONE = function(text) return text end, UPPER = string.upper, LOWER = string.lower }

function read.StringNormalizer(n, x)
  local a = n.attributes
  local change = CASES[a.case_change_action or "NONE"]
    or fail("there is no case_change_action '%s'", tostring(a.case_change_action))
  if strings_of(x, 1).ndim > 2 or x.ndim == 0 or x.ndim == 2 and x.shape[1] ~= 1 then
    fail "strings of the shape (n) or (1, n) are expected"
  end
  local same = a.is_case_sensitive == 1 and CASES.NONE or string.lower
  local stops, out = {}, {}
  for _, word in ipairs(a.stopwords or {}) do stops[same(word)] = true end
  for _, text in ipairs(x.list) do
    if not stops[same(text)] then out[#out + 1] = change(text) end
  end
  if #out == 0 then out = { "" } end
  return Strings.new(out, x.ndim == 2 and { 1, #out } or { #out })
end

-- --- n-grams ----------------------------------------------------------------------------------

-- Where each n-gram of the pool stands among the results: tables by its items, one in another.
local function pool_of(n, items)
  local a = n.attributes
  local starts, root, number = a.ngram_counts or {}, {}, 0
  for size, start in ipairs(starts) do
    local stop = starts[size + 1] or #items
    if start < 0 or stop > #items or start > stop or (stop - start) % size ~= 0 then
      fail "ngram_counts do not fit the pool"
    end
    for at = start + 1, stop, size do
      number = number + 1
      local level = root
      for k = 0, size - 1 do
        level[items[at + k]] = level[items[at + k]] or {}
        level = level[items[at + k]]
      end
      level.place = a.ngram_indexes and a.ngram_indexes[number] or fail "ngram_indexes are too few"
      level.weight = a.weights and a.weights[number] or 1.0
    end
  end
  return root
end

-- Counts the n-grams of a row; items of one are up to `skip` others apart, at equal distances.
local function count_row(row, a, root, counts, weights)
  for size = math.max(a.min_gram_length, 1), math.min(a.max_gram_length, #row) do
    local most = size == 1 and 1 or math.min(a.max_skip_count + 1, (#row - 1) // (size - 1))
    for distance = 1, most do
      for at = 1, #row - (size - 1) * distance do
        local level = root
        for k = 0, size - 1 do
          level = level and level[row[at + k * distance]]
        end
        if level and level.place then
          counts[level.place] = (counts[level.place] or 0) + 1
          weights[level.place] = level.weight
        end
      end
    end
  end
end

local MODES = {
  TF = function(count) return count end,
  IDF = function(_, weight) return weight end,
  TFIDF = function(count, weight) return count * weight end,
}

function read.TfIdfVectorizer(n, x)
  local a = n.attributes
  for _, name in ipairs { "min_gram_length", "max_gram_length", "max_skip_count" } do
    if not a[name] or a[name] < 0 or a[name] > 1 << 20 then fail("it has no %s", name) end
  end
  local mode = MODES[a.mode or ""] or fail("there is no mode '%s'", tostring(a.mode))
  local root = pool_of(n, a.pool_strings or a.pool_int64s or fail "it has no pool")
  local width = 0
  for _, place in ipairs(a.ngram_indexes or {}) do width = math.max(width, place + 1) end
  local list = Strings.is(x) and x.list or x:flatten():tolist()
  local rows = x.ndim == 2 and x.shape[1] or 1
  local length = rows > 0 and #list // rows or 0
  common.check_room(n, rows * width, 48)
  local out = {}
  for r = 1, rows do
    local counts, weights = {}, {}
    count_row(table.move(list, (r - 1) * length + 1, r * length, 1, {}), a, root, counts, weights)
    for place = 0, width - 1 do
      out[#out + 1] = counts[place] and mode(counts[place], weights[place]) + 0.0 or 0.0
    end
  end
  local flat = #out > 0 and ml.tensor(out, { dtype = ml.float32 }) or ml.empty { 0 }
  return x.ndim == 2 and flat:reshape(rows, width) or flat
end

return read
