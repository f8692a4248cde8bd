-- tests/lint/line_count.lua: no source file passes 600 lines; prints the count per folder.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local kMax = 600
local problems, folders, total = {}, {}, 0
for _, path in ipairs(files.list(root)) do
  local text = files.is_source(path) and files.read(root, path)
  if text then
    local _, lines = text:gsub("\n", "")
    local folder = path:match "^(%a+)/" or "."
    folders[folder] = (folders[folder] or 0) + lines
    total = total + lines
    if lines > kMax then problems[#problems + 1] = ("%s: %d lines, more than %d"):format(path, lines, kMax) end
  end
end
local names = {}
for folder in pairs(folders) do names[#names + 1] = folder end
table.sort(names)
for _, folder in ipairs(names) do print(("%8d %s"):format(folders[folder], folder)) end
print(("%8d in all"):format(total))
if total == 0 then problems[1] = "no source files found in " .. root end
files.finish("line count", problems)
