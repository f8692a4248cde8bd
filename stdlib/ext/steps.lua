-- stdlib/ext/steps.lua: the commands of a build, one after the other, and what is shown of them.

local terminal = require "moonlet.terminal"
local tools = require "moonlet.extension_tools"

local steps = {}

-- What takes less is not shown.
local SHOWN_AFTER = 0.5

-- A line on the terminal that says what takes so long; it goes when it is closed.
local Line = {}
Line.__index = Line

function Line:draw()
  local seconds = terminal.clock() - self.began
  if not self.tty or seconds < SHOWN_AFTER then return end
  self.drawn = true
  local text = ("%s: %.1f s"):format(self.text, seconds)
  io.stderr:write("\r", text:sub(1, terminal.size() - 1), "\27[K")
  io.stderr:flush()
end

function Line:__close()
  if not self.drawn then return end
  io.stderr:write("\r\27[K")
  io.stderr:flush()
end

local function line(text)
  return setmetatable({ text = text, began = terminal.clock(), tty = terminal.isatty(2) }, Line)
end

--- Holds a folder of the cache until it is closed; waits for another process that does.
---@param request table
---@param folder string
---@return any lock
function steps.lock(request, folder)
  local shown <close> = line(("%s: another process builds %s"):format(request.caller, request.name))
  return tools.lock(folder .. "/lock", function() shown:draw() end)
end

-- A command as a shell would take it.
local function quoted(command)
  local out = {}
  for i, word in ipairs(command) do
    out[i] = word:find "[^%w_%-+=/.,:@]" and "'" .. word:gsub("'", [['\'']]) .. "'" or word
  end
  return table.concat(out, " ")
end

--- Runs a command with its temporary files in `folder`; returns its status and what it said.
---@param request table
---@param command string[]
---@param folder string
---@param title string
---@return integer status
---@return string output
function steps.run(request, command, folder, title)
  if request.verbose then io.stderr:write(quoted(command), "\n") end
  local status, output
  do
    local shown <close> = line(("%s: %s: %s"):format(request.caller, request.name, title))
    status, output = tools.run(command, { TMPDIR = folder }, function() shown:draw() end)
  end
  if request.verbose then io.stderr:write(output) end
  return status, output
end

return steps
