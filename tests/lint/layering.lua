-- tests/lint/layering.lua: includes and requires point one way: tensor <- autograd <- interp <-
-- stdlib, tensor <- cuda; and only interp/ includes lua.h. An emitter of tensor/ops/gen/ includes
-- what the layers may whose build files name it.

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

-- The layers that an emitter writes for: {emitter = {folder, ...}}.
local function emitter_layers()
  local out = {}
  for folder in pairs(may_use) do
    local text = files.read(root, folder .. "/meson.build")
    for emitter in text:gmatch "'(emit_[%w_]+)" do
      out[emitter] = out[emitter] or {}
      out[emitter][folder] = true
    end
  end
  return out
end

-- Lua of the build: what it requires itself, and what the text that an emitter writes includes.
local function check_build_lua(path, folder, text, layers)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local module = line:match 'require%s*%(?%s*"(%a+)%.'
    if known[module] and not may_use[folder][module] then
      problem(path, number, ("%s/ must not require %s"):format(folder, module))
    end
    local target = line:match '#include "(%a+)/'
    for layer in pairs(known[target] and layers or {}) do
      if not may_use[layer][target] then
        problem(path, number, ("%s/ must not include %s/, in what is generated for it"):format(layer, target))
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

local seen, emitters = 0, emitter_layers()
for _, path in ipairs(files.list(root)) do
  local folder = path:match "^(%a+)/"
  local text = folder and files.is_source(path) and files.read(root, path)
  if text then
    seen = seen + 1
    if path:find "%.lua$" then
      if folder == "stdlib" then check_lua(path, text) end
      local emitter = path:match "^tensor/ops/gen/([%w_]+)%.lua$"
      if may_use[folder] then
        local layers = emitter and (emitters[emitter] or { [folder] = true }) or {}
        check_build_lua(path, folder, text, layers)
      end
    elseif may_use[folder] then
      check_cpp(path, folder, text)
    end
  end
end
if seen == 0 then problems[1] = "no source files found in " .. root end
files.finish("layering", problems)
