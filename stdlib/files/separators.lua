-- stdlib/files/separators.lua: what stands between the parts of paths and of lists of them.

local separators = {}

separators.on_windows = package.config:sub(1, 1) == "\\"

--- A path with / alone between folders, which Windows takes too.
---@param path string
---@return string
function separators.slashed(path)
  return separators.on_windows and (path:gsub("\\", "/")) or path
end

--- The paths of a variable of the environment, such as PATH: with ; between them on Windows, where
--- : is behind the letter of a drive.
---@param variable string
---@return fun(): string?
function separators.each_path(variable)
  local list = os.getenv(variable) or ""
  return list:gmatch(separators.on_windows and "[^;]+" or "[^:]+")
end

return separators
