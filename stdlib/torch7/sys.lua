-- stdlib/torch7/sys.lua: the package `sys` of Torch7: the clock, programs, colours of a terminal.

local paths = require "moonlet.torch7.paths"
local system = require "moonlet.system"

local sys = {}

--- Seconds since a moment that is the same while the process runs.
function sys.clock() return system.clock() end

local started = {}

function sys.tic() started[#started + 1] = sys.clock() end

--- The seconds since the last `sys.tic`, printed unless `quiet`.
function sys.toc(quiet)
  local before = started[#started] or error("sys.toc: there was no sys.tic", 2)
  local passed = sys.clock() - before
  if not quiet then print(passed) end
  return passed
end

--- What a program prints, without the line's end.
function sys.execute(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return (text:gsub("^%s*", ""):gsub("%s*$", ""))
end
sys.fexecute = sys.execute

function sys.uname() return paths.is_win() and "windows" or "linux" end
function sys.pwd() return paths.cwd() end
function sys.sleep(seconds)
  local finish = sys.clock() + seconds
  while sys.clock() < finish do end
end

function sys.ls(folder) return table.concat(paths.dir(folder or ".") or {}, "\n") end
function sys.dirname(path) return paths.dirname(path) end
function sys.basename(path, ending) return paths.basename(path, ending) end
function sys.concat(...) return table.concat({ ... }, "/") end
function sys.filep(path) return paths.filep(path) end
function sys.dirp(path) return paths.dirp(path) end

--- The folder and the name of the file that calls.
function sys.fpath()
  local file = paths.thisfile(nil, 1)
  return file and paths.dirname(file), file and paths.basename(file)
end

--- The parts of a text between separators.
function sys.split(text, separator)
  local parts, at = {}, 1
  while true do
    local first, last = text:find(separator, at, true)
    if not first or separator == "" then break end
    parts[#parts + 1] = text:sub(at, first - 1)
    at = last + 1
  end
  parts[#parts + 1] = text:sub(at)
  return parts
end

local names = { "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white" }
local colours = { none = "\27[0m" }
for i, name in ipairs(names) do
  colours[name] = ("\27[0;%dm"):format(29 + i)
  colours[name:sub(1, 1):upper() .. name:sub(2)] = ("\27[1;%dm"):format(29 + i)
  colours["_" .. name] = ("\27[%dm"):format(39 + i)
end
sys.COLORS = colours

return sys
