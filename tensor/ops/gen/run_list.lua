-- tensor/ops/gen/run_list.lua: the ops of a build of chosen ops (the option ops): those of a list, and what
-- code that it cannot do without calls itself, below the tape.

local run_list = {}

-- Passes that do nothing where their op is left out.
local UNUSED = {}
for name in ("activations attention epilogues"):gmatch "%a+" do UNUSED["tensor/program/passes/" .. name .. ".cpp"] = true end
-- Kernels that call other ops: these are wanted where some op of the family is.
local FAMILY_OF = { ["tensor/cpu/conv/"] = "conv", ["tensor/cpu/linalg/"] = "linalg", ["tensor/cpu/optim/"] = "optim" }

local function lines_of(path)
  local out, file_of_ops = {}, assert(io.open(path))
  for line in file_of_ops:lines() do
    local name = line:gsub("#.*", ""):match "^%s*(%S+)%s*$"
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

-- The ops that sources call by themselves below the tape, in any form, by family: "" for those that all need.
local function called_below(root, known)
  local out = {}
  local list = assert(io.popen(("cd '%s' && find tensor autograd interp -name '*.cpp' -o -name '*.h'"):format(root)))
  for path in list:lines() do
    local source = assert(io.open(root .. "/" .. path))
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
---@param path string a file of names, one a line, as program:ops() and --record-ops give them
---@param rows table[] all rows
---@param root string the folder of the sources
---@return table<string, boolean>
function run_list.wanted(path, rows, root)
  local known, wanted, families = {}, {}, { [""] = true }
  for _, row in ipairs(rows) do
    for _, name in ipairs { row.lua_name, table.unpack(row.alias) } do known[name] = row end
  end
  for _, row in ipairs(rows) do known[row.name] = row end
  for _, name in ipairs(lines_of(path)) do
    -- That which changes its argument is called "add_".
    local row = known[name] or known[name:match "^(.*)_$"]
    if not row then error(("%s: there is no op '%s'"):format(path, name), 0) end
    wanted[row.name] = true
    families[row.family] = true
  end
  for family, names in pairs(called_below(root, known)) do
    if families[family] then
      for name in pairs(names) do wanted[name] = true end
    end
  end
  return wanted
end

--- Marks the rows that are left out: emitters make of these what says so when it is called.
---@param path string as of `wanted`
---@param rows table[] all rows
---@param root string the folder of the sources
function run_list.mark(path, rows, root)
  local wanted, names = run_list.wanted(path, rows, root), {}
  -- Forms of one name in Lua go together, as one of them tells which a call is of.
  for _, row in ipairs(rows) do
    if wanted[row.name] then names[row.overload_of or row.name] = true end
  end
  for _, row in ipairs(rows) do row.left_out = not names[row.overload_of or row.name] end
end

return run_list
