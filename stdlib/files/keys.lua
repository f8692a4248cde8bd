-- stdlib/files/keys.lua: refuses keys of tables that are chosen to collide. Lua's tables position a
-- number by its remainder, and a float by its upper bits, so a file could name many keys that stand
-- in one slot, and each of them would be compared with all others.

local Keys = {}
Keys.__index = Keys

-- Keys are looked at in groups of so many, of which so many may stand in one slot. Small
-- integers are as many as their positions, and need not be looked at.
local GROUP, MOST_TOGETHER, SMALL = 4096, 32, 1 << 20

--- What watches over the keys of all tables of a file.
---@return table
function Keys.new() return setmetatable({ groups = {} }, Keys) end

-- A number that is the same for two keys that stand in one slot in tables of all sizes.
local function hash_of(key)
  local whole = math.tointeger(key)
  if whole then return whole & math.maxinteger end
  -- The exponent, and 30 bits of the fraction, as ltable.c takes them.
  local bits = ("<i8"):unpack(("<d"):pack(key))
  return (bits >> 22 & 0x3fffffff) + (bits >> 52 & 0x7ff)
end

local function check(group, size)
  local positions, modulus = {}, size - 1
  for i = 1, group.n do
    local position = hash_of(group[i]) % modulus
    local count = (positions[position] or 0) + 1
    if count > MOST_TOGETHER then error("it has keys that are made to collide", 0) end
    positions[position] = count
  end
end

--- Notes a number that becomes a key of a table; an error where too many collide.
---@param of table
---@param key number
function Keys:add(of, key)
  if math.type(key) == "integer" and key >= 0 and key < SMALL then return end
  local group = self.groups[of]
  if not group then
    group = { n = 0, total = 0 }
    self.groups[of] = group
  end
  group.n, group.total = group.n + 1, group.total + 1
  group[group.n] = key
  if group.n == GROUP then
    -- The positions that a table of so many keys has, or will have.
    local size = GROUP
    while size < group.total do size = size * 2 end
    for _ = 1, 3 do
      check(group, size)
      size = size * 2
    end
    group.n = 0
  end
end

return Keys
