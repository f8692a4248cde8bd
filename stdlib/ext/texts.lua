-- stdlib/ext/texts.lua: what help says of functions of extensions.

local texts = {}

local all = setmetatable({}, { __mode = "k" })

--- Notes the text of a function.
---@param f function
---@param name string
---@param text string
function texts.set(f, name, text)
  all[f] = ("%s (function of an extension)\n\n  %s"):format(name, text)
end

--- The text of a function, or nothing.
---@param f function
---@return string?
function texts.of(f) return all[f] end

return texts
