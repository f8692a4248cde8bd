-- interp/meta/numbers.lua: module moonlet.numbers, for editors, help() and the reference.

--- Lua's functions that write and read numbers, without regard to the locale:
--- `local numbers = require "moonlet.numbers"`. After `os.setlocale "de_DE.UTF-8"` Lua's own write
--- 1,5, these 1.5. None of them can yield.
---@class moonlet.numbers
local numbers = {}

--- As `string.format`.
--- > require("moonlet.numbers").format("%.2f", 1.5)
---@param format string
---@param ... any
---@return string
function numbers.format(format, ...) end

--- As Lua's `tostring`.
---@param value any
---@return string
function numbers.tostring(value) end

--- As Lua's `tonumber`.
---@param text any
---@param base? integer
---@return number?
function numbers.tonumber(text, base) end

--- A function that calls `f` and, while it runs, writes and reads numbers so.
---@param f function
---@return function
function numbers.wrap(f) end
