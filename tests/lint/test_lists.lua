-- tests/lint/test_lists.lua: every test file is in a list of tests/meson.build, or of a folder below:
-- one that is in none never runs, and nobody misses it.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local paths, build = files.list(root), ""
for _, path in ipairs(paths) do
  if path:find "^tests/.*meson%.build$" then build = build .. files.read(root, path) end
end

-- The names of an area of Lua tests.
local function listed(area)
  local list = build:match("\n  '" .. area .. "': (%b[])") or ""
  local names = {}
  for name in list:gmatch "'([%w_]+)'" do names[name] = true end
  return names
end

local function is_listed(path)
  local area, name = path:match "^tests/lua/([%w_]+)/([%w_]+)_test%.lua$"
  if area then return listed(area)[name] or build:find(name .. "_test.lua", 1, true) end
  name = path:match "([%w_]+)_test%.cpp$"
  return build:find("'" .. name .. "'", 1, true) or build:find(name .. "_test.cpp", 1, true)
end

local problems, seen = 0, 0
for _, path in ipairs(paths) do
  if path:find "^tests/lua/[%w_]+/[%w_]+_test%.lua$" or path:find "^tests/cpp/.*_test%.cpp$" then
    seen = seen + 1
    if not is_listed(path) then
      problems = problems + 1
      print(path .. ": it is in no list of tests")
    end
  end
end
print(seen .. " files of tests")
print(("lists of tests: %d problem%s"):format(problems, problems == 1 and "" or "s"))
os.exit(problems == 0 and seen > 0)
