-- tests/lua/ext/workshop.lua: what the tests of ml.ext share: a folder of files with a cache of its
-- own, scripts that run in processes of their own there, and a compiler that counts how often it is
-- called.

local harness = require "harness"
local expect = harness.expect

local workshop = {}

local program = arg[-1]
local absolute = program:sub(1, 1) == "/" and program or (os.getenv "PWD" .. "/" .. program)

local folder = os.tmpname()
os.remove(folder)
assert(os.execute(("mkdir '%s'"):format(folder)))
workshop.folder = folder
local keep = setmetatable({}, { __gc = function() os.execute(("rm -rf '%s'"):format(folder)) end })
workshop.keep = keep

--- The path of a file of the folder.
function workshop.path(name) return folder .. "/" .. name end

--- Writes a file of the folder; returns its path.
function workshop.write(name, text)
  local path = workshop.path(name)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
  return path
end

function workshop.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

--- What a shell prints.
function workshop.shell(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return (text:gsub("%s+$", ""))
end

local function is_there(name)
  return os.execute(("command -v %s >/dev/null 2>&1"):format(name)) == true
end
workshop.is_there = is_there

-- What another platform names.
local named = os.getenv "CXX"

--- The system's C++ compiler, or a skip of the running test.
function workshop.compiler()
  if named then return named end
  for _, name in ipairs { "c++", "g++", "clang++" } do
    if is_there(name) then return name end
  end
  harness.skip "there is no C++ compiler (c++, g++, clang++)"
end

-- The compiler of all tests: it writes a line for each source that it compiles, and runs what a
-- test wants run before that. One for all has the headers compiled once.
local function make_compiler()
  local compiler = "c++"
  for _, name in ipairs { "clang++", "g++", "c++" } do
    if is_there(name) then compiler = name end
  end
  compiler = named or compiler
  local path = workshop.write("cxx", ([[
#!/bin/sh
case " $* " in
  *" -c "*) echo compiled >>'%s/log'
  . '%s/before' ;;
esac
exec %s "$@"
]]):format(folder, folder, compiler))
  workshop.write("log", "")
  workshop.write("before", "")
  assert(os.execute(("chmod +x '%s'"):format(path)))
end
make_compiler()

--- How many sources were compiled so far.
function workshop.compiled()
  local _, lines = workshop.read(workshop.path "log"):gsub("\n", "")
  return lines
end

-- The command of a script with these variables; its cache is that of the folder.
local function command_of(path, variables)
  local all = { MOONLET_CACHE = folder .. "/cache", CXX = folder .. "/cxx" }
  for name, value in pairs(variables or {}) do all[name] = value end
  local parts = {}
  for name, value in pairs(all) do parts[#parts + 1] = ("%s='%s'"):format(name, value) end
  return ("env %s '%s' '%s' 2>&1"):format(table.concat(parts, " "), absolute, path)
end

--- Starts a script in the background; returns the id of its process.
function workshop.start(code, variables)
  workshop.write("started.lua", 'local ml = require "moonlet"\n' .. code)
  return workshop.shell(("cd '%s' && { exec %s >/dev/null 2>&1; } & echo $!"):format(folder,
    command_of("started.lua", variables)))
end

--- What so many processes print that run a script at the same time.
function workshop.run_together(times, code)
  workshop.write("together.lua", 'local ml = require "moonlet"\n' .. code)
  return workshop.shell(("cd '%s' && { for i in $(seq %d); do %s & done; wait; }"):format(folder, times,
    command_of "together.lua"))
end

local count = 0

--- Runs Lua in a process of its own; returns what it prints. `ml` is there.
function workshop.run(code, variables, name)
  count = count + 1
  name = name or ("script%d.lua"):format(count)
  workshop.write(name, 'local ml = require "moonlet"\n' .. code)
  return workshop.shell(("cd '%s' && %s"):format(folder, command_of(name, variables)))
end

--- The same; fails unless it prints `wanted`.
function workshop.prints(code, wanted, variables, name)
  expect.equal(workshop.run(code, variables, name), wanted, code)
end

--- The libraries, and the folders of builds that are under way, in the cache of the folder or in
--- `where`.
function workshop.kept(where)
  where = where or folder .. "/cache"
  local libraries = workshop.shell(("find '%s' -name '*.so' 2>/dev/null | wc -l"):format(where))
  local builds = workshop.shell(("find '%s' -name 'build-*' 2>/dev/null | wc -l"):format(where))
  return tonumber(libraries), tonumber(builds)
end

return workshop
