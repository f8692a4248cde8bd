-- tensor/ops/gen/run_list.lua: the ops that a library for certain programs has: those of a list, and what code
-- that it cannot do without calls itself.

local run_list = {}

-- Passes that programs do not run, as they change the last bits of results.
local UNUSED = { ["tensor/program/passes/attention.cpp"] = true, ["tensor/program/passes/epilogues.cpp"] = true }
-- Kernels that call other ops: these are wanted where some op of the family is.
local FAMILY_OF = { ["tensor/cpu/optim/"] = "optim", ["tensor/cpu/linalg/"] = "linalg" }

local function lines_of(path)
  local out, file_of_ops = {}, assert(io.open(path))
  for line in file_of_ops:lines() do
    local name = line:gsub("#.*", ""):match "^%s*([%w_]+)%s*$"
    if name then out[#out + 1] = name end
  end
  file_of_ops:close()
  return out
end

local function family_of(path)
  for folder, family in pairs(FAMILY_OF) do
    if path:sub(1, #folder) == folder then return family end
  end
end

-- The ops that sources of tensor/ call by themselves, in any form, by family: "" for those that all need.
local function called_by_tensor(root, known)
  local out = {}
  local list = assert(io.popen(("find '%s/tensor' -name '*.cpp' -o -name '*.h'"):format(root)))
  for full in list:lines() do
    local path = full:sub(#root + 2)
    local source = assert(io.open(full))
    local text = source:read "a"
    source:close()
    local family = family_of(path) or ""
    out[family] = out[family] or {}
    for name in text:gmatch "raw::([%l%d_]+)" do
      local row = known[name] or known[name:gsub("_out$", "")] or known[name:gsub("_$", "")]
      if row then out[family][row.name] = true end
    end
    if not UNUSED[path] then
      for name in text:gmatch 'find_raw_op%("([%w_]+)"%)' do out[family][name] = true end
    end
  end
  list:close()
  return out
end

--- The names of the ops as a set.
---@param path string a file of names, one a line, as program:ops() gives them
---@param rows table[] all rows
---@param root string the folder of the sources
---@return table<string, boolean>
function run_list.wanted(path, rows, root)
  local known, wanted, families = {}, {}, { [""] = true }
  for _, row in ipairs(rows) do known[row.name] = row end
  for _, name in ipairs(lines_of(path)) do
    if not known[name] or known[name].kind == "composite" then
      error(("%s: there is no op '%s' for programs"):format(path, name), 0)
    end
    wanted[name] = true
    families[known[name].family] = true
  end
  for family, names in pairs(called_by_tensor(root, known)) do
    if families[family] then
      for name in pairs(names) do wanted[name] = true end
    end
  end
  return wanted
end

return run_list
