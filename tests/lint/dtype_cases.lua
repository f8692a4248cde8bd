-- tests/lint/dtype_cases.lua: what a dtype is stands in its row in tensor/core/dtype.h: no switch of
-- autograd/ or interp/ has a case for each.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local problems, seen = {}, 0
for _, path in ipairs(files.list(root)) do
  local text = (path:find "^autograd/" or path:find "^interp/") and files.is_source(path)
    and files.read(root, path)
  if text then
    seen = seen + 1
    local number = 0
    for line in (text .. "\n"):gmatch "(.-)\n" do
      number = number + 1
      if line:find "case%s+[%w_:]*DType::" then
        problems[#problems + 1] = ("%s:%d: a case for a dtype: ask its row in tensor/core/dtype.h"):format(path, number)
      end
    end
  end
end
if seen < 100 then problems[#problems + 1] = ("only %d files found"):format(seen) end
files.finish("dtype cases", problems)
