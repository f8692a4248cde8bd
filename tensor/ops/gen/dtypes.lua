-- tensor/ops/gen/dtypes.lua: the dtypes as the generator sees them, read from the table in
-- tensor/core/dtype.h: a list of {name, kind} in its order, and `sets`, for each set the names in it.

local dtypes = { sets = {} }

local path = debug.getinfo(1, "S").source:match "^@(.*)ops/gen/dtypes%.lua$" .. "core/dtype.h"
local file = assert(io.open(path))
local text = file:read "a"
file:close()
for row in text:gmatch "\n  ROW(%b())" do
  local name, kind = row:match '^%(%w+,%s*"([%w_]+)",%s*"%w+",%s*[%w_]+,%s*(%w+),'
  dtypes[#dtypes + 1] = { name = assert(name, path .. ": cannot read " .. row), kind = kind }
end
assert(#dtypes > 0, path .. ": no table of dtypes found")

-- "inline constexpr DTypeSet real = integral | floating;": of kinds, or of sets defined above.
for set, definition in text:gmatch "\ninline constexpr DTypeSet (%w+) = ([^;]+);" do
  local has = {}
  for kind in definition:gmatch "Kind::(%w+)" do has[kind] = true end
  for word in definition:gmatch "%f[%w_]%l%w*%f[^%w_]" do
    for _, name in ipairs(dtypes.sets[word] or {}) do has[name] = true end
  end
  local names = {}
  for _, dtype in ipairs(dtypes) do
    if has[dtype.kind] or has[dtype.name] then names[#names + 1] = dtype.name end
  end
  assert(#names > 0, path .. ": cannot read the set " .. set)
  dtypes.sets[set] = names
end
assert(dtypes.sets.all and #dtypes.sets.all == #dtypes, path .. ": no set of all dtypes found")

return dtypes
