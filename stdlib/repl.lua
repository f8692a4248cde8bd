-- stdlib/repl.lua: what the prompt shows of results, what may follow what was typed, and the locals
-- that last.

local commands = require "moonlet.repl.commands"
local complete = require "moonlet.repl.complete"
local locals = require "moonlet.repl.locals"
local show = require "moonlet.repl.show"

--- The texts of what a line gave; nil after the call of a command, of which the line was the name.
---@param ... any
---@return string?
local function shown(...)
  if not commands.run_alone(...) then return show(...) end
end

return { complete = complete, text = show, shown = shown, bind = locals.bind,
  block = locals.block }
