-- tests/generator/formula_typo.lua: the compiler reports a misspelled name in a formula at the line of
-- the row's file where the formula is.
-- usage: lua formula_typo.lua ROOT BUILD FAMILY,FAMILY,... LUA COMPILER...

local root, build, families, lua = arg[1], arg[2], arg[3], arg[4]
local compiler = table.concat(arg, " ", 5)

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function run(...)
  local pipe = assert(io.popen(string.format(...) .. " 2>&1"))
  local text = pipe:read "a"
  return text, pipe:close()
end

local folder = os.tmpname()
os.remove(folder)
assert(run("mkdir -p '%s/tensor/core' '%s/tensor/functors' && cp -r '%s/tensor/ops' '%s/tensor/'", folder, folder,
  root, folder))
assert(run("cp '%s/tensor/functors/optimizers.lua' '%s/tensor/functors/'", root, folder))
assert(run("cp '%s/tensor/core/dtype.h' '%s/tensor/core/'", root, folder))

-- The first formula of the family that is a call of one op.
local path = folder .. "/tensor/ops/sort.lua"
local text = read(path)
local from, to = text:find 'x = "%l[%l_]+%('
assert(from, "no formula found")
local _, before = text:sub(1, from):gsub("\n", "")
local file = assert(io.open(path, "wb"))
file:write(text:sub(1, to - 1), "_misspelled", text:sub(to))
file:close()

local generated, ok = run("cd '%s' && '%s' tensor/ops/gen/generate.lua . '%s' emit_tape:sort=tape_sort.cpp",
  folder, lua, families)
assert(ok, generated)
local said
said, ok = run("cd '%s' && %s -std=c++20 -fsyntax-only -I'%s' -I'%s' tape_sort.cpp", folder, compiler, root, build)
run("rm -r '%s'", folder)

local wanted = ("tensor/ops/sort.lua:%d:"):format(before + 1)
local found = not ok and said:find(wanted, 1, true) and said:find("_misspelled", 1, true)
if not found then print(said, "\nwanted: " .. wanted) end
print(found and "formula typo: ok" or "formula typo: failed")
os.exit(found and 0 or 1)
