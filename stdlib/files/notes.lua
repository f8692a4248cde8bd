-- stdlib/files/notes.lua: what a plain table does not say of itself and a file of Python's does:
-- whether it is a tuple, in which order the keys of a dict came, and where None stood. Notes are
-- kept beside the tables, which stay plain, and go when these go.

local notes = {}

-- By table: `kind` ("list", "tuple", "set", "frozenset", "Size" or "dict"), of one that is none of
-- a dict the length `n` where None stands in it; of a dict `keys` in their order, and `none`, the
-- keys whose value is None.
local all = setmetatable({}, { __mode = "k" })

--- The note of a table, or nothing.
---@param of table
---@return table?
function notes.of(of) return all[of] end

--- Notes of a table what it is.
---@param of table
---@param note table
---@return table note
function notes.set(of, note)
  all[of] = note
  return note
end

--- A list, and of how many positions those without a value are None.
---@param list table
---@param length? integer
---@return table list
function notes.list(list, length)
  all[list] = { kind = "list", n = length }
  return list
end

--- Notes of a list what is noted of another one, whose copy it is.
---@param list table
---@param from table
---@return table list
function notes.like(list, from)
  local note = all[from]
  if note and not note.keys then all[list] = note end
  return list
end

-- The note of a table as a dict: a new one where there is none.
local function dict_note(dict)
  local note = all[dict]
  if not note or not note.keys then
    note = { kind = "dict", keys = {}, none = nil }
    all[dict] = note
  end
  return note
end

--- Notes that a key of a dict comes next, which had no value before.
---@param dict table
---@param key any
function notes.add_key(dict, key)
  local keys = dict_note(dict).keys
  keys[#keys + 1] = key
end

--- Notes that the value of a key is None.
---@param dict table
---@param key any
function notes.add_none(dict, key)
  local note = dict_note(dict)
  note.none = note.none or {}
  if not note.none[key] then
    note.none[key] = true
    note.keys[#note.keys + 1] = key
  end
end

local RANKS = { number = 1, boolean = 2, string = 3 }

-- Numbers, false and true, strings; others as they come.
local function before(a, b)
  local one, other = RANKS[type(a)] or 4, RANKS[type(b)] or 4
  if one ~= other then return one < other end
  if one == 2 then return b and not a end
  return one < 4 and a < b
end

--- The keys of a table that have a value, or whose value is None: those that are noted in their
--- order, and then the others, sorted.
---@param dict table
---@return any[]
function notes.keys(dict)
  local note, out, seen, others = all[dict], {}, {}, {}
  local none = note and note.none or {}
  for _, key in ipairs(note and note.keys or {}) do
    if (dict[key] ~= nil or none[key]) and not seen[key] then
      out[#out + 1], seen[key] = key, true
    end
  end
  for key in next, dict do
    if not seen[key] then others[#others + 1] = key end
  end
  table.sort(others, before)
  return table.move(others, 1, #others, #out + 1, out)
end

return notes
