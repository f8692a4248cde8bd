-- tensor/ops/gen/dtypes.lua: the dtypes as the generator sees them, read from the table in
-- tensor/core/dtype.h: a list of {name, kind, use} in its order, and `sets`, for each set the names in it.

local dtypes = { sets = {} }

local path = debug.getinfo(1, "S").source:match "^@(.*)ops/gen/dtypes%.lua$" .. "core/dtype.h"
local file = assert(io.open(path))
local text = file:read "a"
file:close()
for row in text:gmatch "\n  ROW(%b())" do
  local name, kind, use = row:match '^%(%w+,%s*"([%w_]+)",%s*"[%w_]+",%s*[%w_]+,%s*(%w+),%s*(%w+),'
  dtypes[#dtypes + 1] = { name = assert(name, path .. ": cannot read " .. row), kind = kind, use = use }
end
assert(#dtypes > 0, path .. ": no table of dtypes found")

-- The names of the dtypes that belong to a set by `has`.
local function listed(has)
  local names = {}
  for _, dtype in ipairs(dtypes) do
    if has(dtype) then names[#names + 1] = dtype.name end
  end
  return names
end

-- "a | b & c", whose operands are sets defined above, "of_kind(Kind::...)" and "of_use(Use::...)".
local function read_set(definition)
  local union = {}
  for term in definition:gmatch "[^|]+" do
    local common
    for factor in term:gmatch "[^&]+" do
      local kind, use = factor:match "Kind::(%w+)", factor:match "Use::(%w+)"
      local known = dtypes.sets[factor:gsub("[()]", " "):match "^%s*([%w_]+)%s*$"] or {}
      local has = {}
      for _, name in ipairs(known) do has[name] = true end
      local function is_in(dtype) return has[dtype.name] or dtype.kind == kind or dtype.use == use end
      local before = common
      common = before and function(dtype) return before(dtype) and is_in(dtype) end or is_in
    end
    for _, name in ipairs(listed(common)) do union[name] = true end
  end
  return listed(function(dtype) return union[dtype.name] end)
end

-- "inline constexpr DTypeSet real = integral | floating;"
for set, definition in text:gmatch "\ninline constexpr DTypeSet ([%w_]+) =%s+([^;]+);" do
  local names = read_set(definition)
  dtypes.sets[set] = #names > 0 and names or nil
end
for _, set in ipairs { "boolean", "integral", "floating", "complex", "real", "all", "storage" } do
  assert(dtypes.sets[set], path .. ": cannot read the set " .. set)
end
assert(dtypes.sets.any and #dtypes.sets.any == #dtypes, path .. ": no set of any dtype found")

return dtypes
