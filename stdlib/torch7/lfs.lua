-- stdlib/torch7/lfs.lua: what Torch7's scripts use of the package lfs, for those whose path has
-- none: folders, and what is in them.

local system = require "moonlet.system"

local lfs = {}

--- Makes a folder; nil and why where it cannot be made.
function lfs.mkdir(path)
  if system.exists(path) then return nil, "File exists" end
  local ok, problem = pcall(system.make_folder, path, "mkdir")
  if not ok then return nil, problem end
  return true
end

--- What kind of file a path names: a table with its `mode`, "file", "directory" or "other", or
--- that alone where it is asked for; nil where there is none.
function lfs.attributes(path, name)
  local mode = system.exists(path)
  if not mode then return nil, ("cannot obtain information from file '%s'"):format(path) end
  if name and name ~= "mode" then
    error("attributes: only 'mode' is known here, not " .. name, 2)
  end
  return name and mode or { mode = mode }
end

--- An iterator over the names in a folder.
function lfs.dir(path)
  if system.exists(path) ~= "directory" then error("dir: cannot open " .. tostring(path), 2) end
  local names, at = system.list(path), 0
  return function()
    at = at + 1
    return names[at] and (names[at]:gsub("/$", ""))
  end
end

function lfs.currentdir() return system.current_folder() end

return lfs
