-- tests/lint/folders.lua: no folder holds more files than one looks over.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local MOST = 45

local counts, folders, problems = {}, {}, {}
for _, path in ipairs(files.list(root)) do
  local folder = path:match "^(.*)/" or "."
  if not counts[folder] then folders[#folders + 1] = folder end
  counts[folder] = (counts[folder] or 0) + 1
end
for _, folder in ipairs(folders) do
  if counts[folder] > MOST then
    problems[#problems + 1] = ("%s: %d files, at most %d are expected"):format(folder, counts[folder], MOST)
  end
end
if #folders == 0 then problems[1] = "no folders found in " .. root end
files.finish("folders", problems)
