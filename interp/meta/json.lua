-- interp/meta/json.lua: module moonlet.json, for editors, help() and the reference.

--- JSON texts from plain Lua values and back: `ml.json`, or `require "moonlet.json"`.
---@class moonlet.json
local json = {}

--- Encodes a value as JSON text. Tables are arrays, when they have items at 1 to n and nothing
--- else, or objects, whose keys come sorted; the empty table is an object, unless it was decoded
--- from an array or given to `json.array`. Integers and floats stay what they are (`1` and `1.0`).
--- > print(ml.json.encode({ loss = 0.5, sizes = { 2, 3 } }, { indent = 2 }))
---   {
---     "loss": 0.5,
---     "sizes": [
---       2,
---       3
---     ]
---   }
---@param value any a value of tables, strings, numbers and booleans, and `json.null`
---@param options? table
---@param options.indent? any that many spaces for each level, on lines of their own
---@param options.nan? any what becomes of NaN and infinities: "error" (unless given), "null", or "literal", Python's `NaN` and `Infinity`
---@return string
---@error for tables with a metatable, inside themselves or more than 200 deep
function json.encode(value, options) end

--- Decodes a JSON text: tables, strings, booleans, integers and floats, and `json.null`.
--- > ml.json.decode('{"lr": 1e-3, "sizes": [2, 3], "device": null}', { null = false })
---   {device = false, lr = 0.001, sizes = {2, 3}}
---@param text string the text
---@param options? table|integer
---@param options.max_bytes? any the most bytes that the values may take, without limit unless given (also alone in place of the table)
---@param options.null? any a value for null in place of `json.null`
---@return any
---@error for what is not JSON, with its position
function json.decode(text, options) end

--- Marks a table as an array for `json.encode` also while it is empty, and returns it.
--- > ml.json.encode { layers = ml.json.array {} }
---   {"layers":[]}
---@param list table the table
---@return table list
function json.array(list) end

--- What null is in a decoded text, and what is encoded as null.
json.null = nil
