-- interp/meta/numbers.lua: module moonlet.numbers, for editors, help() and the reference.

--- Lua's functions that write and read numbers, without regard to the locale:
--- `local numbers = require "moonlet.numbers"`. After `os.setlocale "de_DE.UTF-8"` Lua's own write
--- 1,5, these 1.5. None of them can yield.
---@class moonlet.numbers
local numbers = {}

--- Formats values as `string.format` does, with a decimal point in every locale.
--- > require("moonlet.numbers").format("%.2f", 1.5)
---   1.50
---@param format string a format of `string.format`
---@param ... any the values
---@return string
function numbers.format(format, ...) end

--- Converts a value to a string as Lua's `tostring` does, with a decimal point in every locale.
--- > require("moonlet.numbers").tostring(1.5)
---   1.5
---@param value any any value
---@return string
function numbers.tostring(value) end

--- Converts a text to a number as Lua's `tonumber` does, with a decimal point in every locale; nil
--- for what is no number.
--- > require("moonlet.numbers").tonumber("1.5")
---   1.5
---@param text any a text or a number
---@param base? integer the base of an integer, from 2 to 36
---@return number?
function numbers.tonumber(text, base) end

--- Returns a function that calls `f` and, while it runs, writes and reads numbers with a decimal
--- point in every locale.
--- > show = require("moonlet.numbers").wrap(function(x) return tostring(x) end)
--- > show(1.5)
---   1.5
---@param f function the function; it cannot yield
---@return function
function numbers.wrap(f) end
