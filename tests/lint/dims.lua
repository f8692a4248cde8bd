-- tests/lint/dims.lua: dims are wrapped once, by the public ops. What these call (shape functions, views,
-- kernels, derivative formulas) gets them wrapped, and does not call wrap_dim or its kin.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local below = { "^tensor/shapes/", "^tensor/cpu/", "^tensor/core/views%.cpp$", "^cuda/", "^autograd/formulas/" }

local function is_below(path)
  for _, pattern in ipairs(below) do
    if path:find(pattern) then return files.is_source(path) end
  end
  return false
end

local problems = {}
for _, path in ipairs(files.list(root)) do
  local number = 0
  for line in (is_below(path) and files.read(root, path) or ""):gmatch "([^\n]*)\n" do
    number = number + 1
    local call = line:match "%f[%w_](wrap_%w+[%w_]*)%("
    if call then problems[#problems + 1] = ("%s:%d: %s: dims are wrapped already"):format(path, number, call) end
  end
end
files.finish("dims", problems)
