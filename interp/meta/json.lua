-- interp/meta/json.lua: module moonlet.json, for editors, help() and the reference.

--- JSON texts from plain Lua values and back: `local json = require "moonlet.json"`.
---@class moonlet.json
local json = {}

--- A value as JSON text. Tables are arrays, when they have items at 1 to n and nothing else, or
--- objects, whose keys come sorted; the empty table is an object. Numbers that JSON cannot write and
--- tables with a metatable or inside themselves are errors.
--- > require("moonlet.json").encode { loss = 0.5, sizes = { 2, 3 } }
---@param value any
---@return string
function json.encode(value) end

--- The value of a JSON text: tables, strings, booleans, integers and floats, and `json.null`. What is
--- not JSON is an error that says where, and so are values that take more than `max_bytes`.
---@param text string
---@param max_bytes? integer (default: no bound)
---@return any
function json.decode(text, max_bytes) end

--- What null is in a decoded text, and what is encoded as null.
json.null = nil
