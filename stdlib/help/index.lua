-- stdlib/help/index.lua: finds the entries of the reference: by name, by a value that a script
-- holds, by a word.

local defined = require "moonlet.ops.defined"
local ml = require "moonlet"
local declared = require "moonlet.help.declared"
local nearest = require "moonlet.nearest"
local reference = require "moonlet.reference"
local synonyms = require "moonlet.help.synonyms"

-- Ops that scripts define have entries, too.
local index = { by_name = setmetatable({}, { __index = defined.entries }), entries = reference }

-- Entries by the last part of their names: "Linear", "grad".
local by_last = {}
for _, entry in ipairs(reference) do
  index.by_name[entry.name] = entry
  local last = entry.name:match "[^.:]+$"
  by_last[last] = by_last[last] or {}
  table.insert(by_last[last], entry)
end

-- What people write before a name, and what it stands for.
local prefixes = { { "^moonlet%.", "" }, { "^ml%.", "" },
  { "^ops%.(.+%..+)$", "%1" }, { "^x[:.]", "Tensor." },
  { "^s[:.]", "Storage." }, { "^g[:.]", "Generator." }, { "^F%.", "nn.functional." },
  { "^net[:.]", "nn.Module." }, { "^torch%.", "" }, { "^utils%.data%.", "data." },
  { "^torchvision%.transforms%.v2%.", "data.transforms." },
  { "^torchvision%.transforms%.", "data.transforms." }, { "^torchmetrics%.", "metrics." },
  { "^np%.", "" }, { "^numpy%.", "" } }

local function normal(wanted)
  local name = wanted:gsub("^%s+", ""):gsub("%s+$", "")
  if not name:find "operator" then name = name:gsub("%(.*$", "") end
  for _, prefix in ipairs(prefixes) do name = name:gsub(prefix[1], prefix[2]) end
  return (name:gsub("([^:]):([^:])", "%1.%2"):gsub("[.:]+$", ""))
end

-- The op behind "Tensor.exp", "exp_" and "Tensor.exp_".
local function find_op(name)
  local short = name:match "^Tensor%.(.+)$" or name
  local entry = index.by_name[short] or index.by_name[(short:gsub("_$", ""))]
    or index.by_name[short .. "_"]
  if not entry or entry.kind ~= "op" then return nil end
  if short ~= name and not entry.method then return nil end
  if short == entry.name .. "_" and not entry.inplace then return nil end
  return entry
end

-- Members that a class has from its parents: "nn.Linear.parameters".
local function find_inherited(name)
  local owner, member = name:match "^(.*)%.([^.]+)$"
  local entry = owner and index.by_name[owner]
  while entry and entry.parent do
    local found = index.by_name[entry.parent .. "." .. member]
    if found then return found end
    entry = index.by_name[entry.parent]
  end
end

-- The first entry whose name ends so: "Linear.weight", "lr_scheduler.StepLR".
local function find_ending(name)
  if not name:find(".", 1, true) then return nil end
  for _, entry in ipairs(reference) do
    if entry.name:sub(-#name - 1) == "." .. name then return entry end
  end
end

local function resolved(entry)
  local original = entry.same_as and index.by_name[entry.same_as]
  return original or entry
end

-- The entries of another word for what they are.
local function entries_of_synonym(word)
  local out = {}
  for _, name in ipairs(synonyms[word:lower()] or {}) do
    -- A build of chosen ops has not all of them.
    local entry = index.by_name[name]
    out[#out + 1] = entry and resolved(entry)
  end
  return out
end

--- The entry of a name and the other entries that the name may mean; nil when there is none.
---@param wanted string
---@return table? entry
---@return table[]? others
function index.find(wanted)
  local name = normal(wanted)
  local exact = index.by_name[name] or find_op(name) or find_inherited(name) or find_ending(name)
    or declared.find(name)
  local others = {}
  for _, entry in ipairs(by_last[name] or {}) do
    if not exact then
      exact = entry
    elseif entry ~= exact and not entry.same_as then
      others[#others + 1] = entry
    end
  end
  if exact then return resolved(exact), others end
  local known = entries_of_synonym(name:match "[^.]*$")
  return table.remove(known, 1), known
end

local function first_line(text) return text:match "^[^\n]*" end

-- The words of a text, in small letters: "BatchNorm1d" is "batchnorm1d", "batch" and "norm1d".
local function words_of(text)
  local words = {}
  for word in text:gmatch "[%a\x80-\xFF][%w\x80-\xFF]*" do
    words[#words + 1] = word:lower()
    words[#words + 1] = word:lower():match "^(%a%a+)%d+d?$"  -- "conv2d" is "conv", too
    for part in word:gmatch "%u+%l[%l%d]*" do
      if #part < #word then words[#words + 1] = part:lower() end
    end
  end
  return words
end

-- The words of each entry: of the last part of its name, of all its name, of that and its text.
local words_of_entry = setmetatable({}, { __index = function(words, entry)
  local found = { last = words_of(entry.name:match "[^.:]+$":gsub("_", " ")),
    name = words_of(entry.name:gsub("_", " ")) }
  found.all = table.move(found.name, 1, #found.name, 1, {})
  for _, each in ipairs(words_of(entry.doc or "")) do found.all[#found.all + 1] = each end
  words[entry] = found
  return found
end })

-- How well one of the words is `wanted`: 2 whole, also as a plural, 1 at its beginning, 0 not.
local function match_of(words, wanted)
  local SHORTEST = 3  -- that may be a beginning
  local best = 0
  local single = wanted:match "^(...+[^s])s$"
  for _, word in ipairs(words) do
    if word == wanted or word == single then return 2 end
    if best == 0 and #wanted >= SHORTEST and word:sub(1, #wanted) == wanted then best = 1 end
  end
  return best
end

-- The lowest match of all wanted words: 0 when one is not there.
local function match_all(words, wanted)
  local lowest = 2
  for _, each in ipairs(wanted) do lowest = math.min(lowest, match_of(words, each)) end
  return lowest
end

-- How near an entry is to the wanted words, `joined` to one: 6 it is called so, 5 its name has
-- them, 4 words that begin so, 3 with the names of what it is in, 2 and 1 with its text; 0 it has
-- them nowhere.
local function nearness(entry, wanted, joined)
  local last = entry.name:match "[^.:]+$"
  if last:lower():gsub("_", "") == joined then return 6 end
  local words = words_of_entry[entry]
  local in_name = match_all(words.last, wanted)
  if in_name > 0 then return in_name + 3 end
  if match_all(words.name, wanted) > 0 then return 3 end
  return match_all(words.all, wanted)
end

--- The entries that a word leads to, or all of several: those that are called so, then those that
--- have them in their names, in their texts, or begin words there; "one hot" finds `one_hot`. Other
--- words for a thing lead to it, too (moonlet.help.synonyms).
---@param word string
---@return table[]
function index.search(word)
  local wanted = words_of(word:gsub("_", " "):lower())
  if #wanted == 0 then return {} end
  local near, found = {}, {}
  local known = entries_of_synonym(table.concat(wanted, " "))
  if #known == 0 then known = entries_of_synonym(word:match "[^.%s]*$") end
  for i, entry in ipairs(known) do near[entry] = 6 - i / 100 end
  local joined = table.concat(wanted)
  for _, entry in ipairs(reference) do
    near[entry] = near[entry] or nearness(entry, wanted, joined)
    if near[entry] > 0 then found[#found + 1] = entry end
  end
  for _, entry in pairs(defined.entries) do
    near[entry] = nearness(entry, wanted, joined)
    if near[entry] > 0 then found[#found + 1] = entry end
  end
  table.sort(found, function(a, b)
    if near[a] ~= near[b] then return near[a] > near[b] end
    return a.name < b.name
  end)
  return found
end

--- The names nearest to one that is not known: at most three.
---@param wanted string
---@return string[]
function index.close(wanted)
  local name, names, out, seen = normal(wanted), {}, {}, {}
  for _, entry in ipairs(reference) do names[#names + 1] = entry.name end
  for known in pairs(defined.entries) do names[#names + 1] = known end
  local lasts = {}
  for last in pairs(by_last) do lasts[#lasts + 1] = last end
  table.sort(lasts)
  local function add(found)
    if found and not seen[found] then
      seen[found] = true
      out[#out + 1] = found
    end
  end
  add(nearest(name, names))
  local last = nearest(name:match "[^.]*$", lasts)
  for i, entry in ipairs(last and by_last[last] or {}) do
    if i <= 2 then add(entry.name) end
  end
  return out
end

-- What a table has by a name, or gets from a module that is loaded.
local function part_of(at, name)
  local value = rawget(at, name)
  if value ~= nil then return value end
  if at == ml then return package.loaded["moonlet." .. name] end
  local meta = getmetatable(at)
  local late = type(meta) == "table" and rawget(meta, "late") or {}
  return package.loaded[late[name] or ""] and at[name] or nil
end

-- The value that a name leads to now, without loading modules for it.
local function value_of(name)
  local at = ml
  local owner, method = name:match "^(%u%a+)%.(.+)$"
  if owner == "Tensor" then return ml._methods[method] end
  if owner == "Storage" then return rawget(ml._storage_methods, method) end
  if owner == "SparseRows" then return rawget(ml._sparse_methods, method) end
  if owner == "Generator" then return ml.default_generator[method] end
  for part in name:gmatch "[^.]+" do
    if type(at) ~= "table" then return nil end
    at = part_of(at, part)
  end
  return at
end

-- Classes and plain functions are compared by identity; other values are no subject of a text.
local function has_identity(value)
  return type(value) == "function" or type(value) == "table" or type(value) == "userdata"
end

--- The name in the reference of a function, class, module or constant object, or nil.
---@param value any
---@return string?
function index.name_of(value)
  if not has_identity(value) then return nil end
  if defined.by_function[value] then return defined.by_function[value] end
  for _, entry in ipairs(reference) do
    local name = entry.name
    if not name:find "::" and rawequal(value_of(name), value) then return name end
    if entry.kind == "op" then
      if rawequal(ml._methods[name], value) then return name end
      if entry.inplace and rawequal(ml._methods[name .. "_"], value) then return name end
    end
  end
  return declared.name_of(value)
end

--- The entries whose owner is a class or a module, in the order of the reference.
---@param name string
---@return table[]
function index.members(name)
  local out = {}
  for _, entry in ipairs(reference) do
    local inside = entry.name:sub(1, #name + 1)
    if (inside == name .. "." or inside == name .. ":") and entry.name ~= name then
      local rest = entry.name:sub(#name + 2):gsub("^:", "")
      if not rest:find "[.:]" then out[#out + 1] = entry end
    end
  end
  return out
end

index.first_line = first_line

return index
