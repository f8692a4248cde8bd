-- tests/lint/layering.lua: includes and requires point one way: tensor <- autograd <- interp <-
-- stdlib, tensor <- cuda; and only interp/ includes lua.h.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local may_use = {
  tensor = { tensor = true },
  autograd = { tensor = true, autograd = true },
  interp = { tensor = true, autograd = true, interp = true },
  cuda = { tensor = true, cuda = true },
}
local folders = { "tensor", "autograd", "interp", "cuda", "stdlib", "scripts", "tests" }
local known = {}
for _, folder in ipairs(folders) do known[folder] = true end

local problems = {}
local function problem(path, line, text)
  problems[#problems + 1] = ("%s:%d: %s"):format(path, line, text)
end

local function check_cpp(path, folder, text)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local include = line:match '^%s*#%s*include%s*["<]([^">]+)[">]'
    if include then
      local target = include:match "^(%a+)/"
      if known[target] and not may_use[folder][target] then
        problem(path, number, ("%s/ must not include %s"):format(folder, include))
      end
      if (include:find "^lua%.h" or include:find "^lauxlib" or include:find "^lualib") and folder ~= "interp" then
        problem(path, number, "only interp/ includes Lua's headers")
      end
    end
  end
end

local function check_lua(path, text)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local module = line:match 'require%s*%(?%s*"([%w%._]+)"'
    if module and not module:find "^moonlet" then
      problem(path, number, ("stdlib/ must not require %s"):format(module))
    end
  end
end

local seen = 0
for _, path in ipairs(files.list(root)) do
  local folder = path:match "^(%a+)/"
  local text = folder and files.is_source(path) and files.read(root, path)
  if text then
    seen = seen + 1
    if path:find "%.lua$" then
      if folder == "stdlib" then check_lua(path, text) end
    elseif may_use[folder] then
      check_cpp(path, folder, text)
    end
  end
end
if seen == 0 then problems[1] = "no source files found in " .. root end
files.finish("layering", problems)
