-- tests/lint/op_types.lua: the table of argument types in docs/op-table.md says what their records
-- in tensor/ops/gen/types.lua say.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

package.path = root .. "/?.lua;" .. package.path
local list = require("tensor.ops.gen.types").list

local path = "docs/op-table.md"
local problems, found, number = {}, {}, 0
local function problem(...) problems[#problems + 1] = ("%s:%d: "):format(path, number) .. string.format(...) end

-- A row names the types that one text describes, and the C++ type of each. Other sections have tables, too.
local signature = files.read(root, path):match "^(.-\n)## The kinds\n"
for line in signature:gmatch "(.-)\n" do
  number = number + 1
  local names, cpp, text = line:match "^| (`[^|]-) | (`[^|]-) | (.-) |$"
  if names then
    for name in names:gmatch "`(.-)`" do
      local info = list[name]
      found[name] = true
      if not info then
        problem("%s is no argument type", name)
      else
        if not cpp:find("`" .. info.cpp .. "`", 1, true) then
          problem("%s is %s in C++", name, info.cpp)
        end
        if info.text ~= text then problem("%s is: %s", name, info.text) end
      end
    end
  end
end
for name in pairs(list) do
  if not found[name] then problem("no row for the type %s", name) end
end
files.finish("op types", problems)
