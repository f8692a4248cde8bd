-- tensor/ops/gen/dtypes.lua: the dtypes as the generator sees them, read from the table in
-- tensor/dtype.h: a list of { name, kind } in its order, and `sets`, the names of each set of dtypes.

local dtypes = { sets = {} }

local path = debug.getinfo(1, "S").source:match "^@(.*)ops/gen/dtypes%.lua$" .. "dtype.h"
local file = assert(io.open(path))
local text = file:read "a"
file:close()
for row in text:gmatch "\n  ROW(%b())" do
  local name, kind = row:match '^%(%w+,%s*"(%w+)",%s*"%w+",%s*[%w_]+,%s*(%w+),'
  dtypes[#dtypes + 1] = { name = assert(name, path .. ": cannot read " .. row), kind = kind }
end
assert(#dtypes > 0, path .. ": no table of dtypes found")

local members = {
  boolean = { "Bool" }, integral = { "Unsigned", "Signed" }, floating = { "Floating" },
  complex = { "Complex" }, real = { "Unsigned", "Signed", "Floating" },
  all = { "Bool", "Unsigned", "Signed", "Floating", "Complex" },
}
for set, kinds in pairs(members) do
  local names = {}
  for _, dtype in ipairs(dtypes) do
    for _, kind in ipairs(kinds) do
      if dtype.kind == kind then names[#names + 1] = dtype.name end
    end
  end
  dtypes.sets[set] = names
end

return dtypes
