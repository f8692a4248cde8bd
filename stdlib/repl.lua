-- stdlib/repl.lua: what the prompt shows of results, and what may follow what was typed.

local complete = require "moonlet.repl.complete"
local show = require "moonlet.repl.show"

return { complete = complete, text = show }
