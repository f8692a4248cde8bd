-- interp/meta/json.lua: module moonlet.json, for editors, help() and the reference.

--- JSON texts from plain Lua values and back: `ml.json`, or `require "moonlet.json"`.
---@class moonlet.json
local json = {}

--- A value as JSON text. Tables are arrays, when they have items at 1 to n and nothing else, or
--- objects, whose keys come sorted; the empty table is an object, unless it was decoded from an array
--- or given to `json.array`. Integers and floats stay what they are (`1` and `1.0`). Options:
--- `indent`, so many spaces for each level, on lines of their own; `nan`, what becomes of nan and
--- infinities, which JSON does not have: "error" (the default), "null", or "literal", the `NaN` and
--- `Infinity` that Python writes and reads. Tables with a metatable, inside themselves or more than
--- 200 deep are errors.
--- > ml.json.encode({ loss = 0.5, sizes = { 2, 3 } }, { indent = 2 })
---@param value any
---@param options? table `indent` and `nan`
---@return string
function json.encode(value, options) end

--- The value of a JSON text: tables, strings, booleans, integers and floats, and `json.null`. What is
--- not JSON is an error that says where. Options: `max_bytes`, how much the values may take (no bound
--- unless given; it may stand alone instead of the options); `null`, a value for null in place of
--- `json.null`.
--- > ml.json.decode('{"lr": 1e-3, "sizes": [2, 3], "device": null}', { null = false })
---@param text string
---@param options? table|integer `max_bytes` and `null`
---@return any
function json.decode(text, options) end

--- Makes a table an array for `json.encode` also while it is empty, and returns it.
--- > ml.json.encode { layers = ml.json.array {} }
---@param list table
---@return table list
function json.array(list) end

--- What null is in a decoded text, and what is encoded as null.
json.null = nil
