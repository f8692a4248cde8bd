-- stdlib/ext/dependencies.lua: the files that an extension was made of: which they are, and whether
-- they are still as they were.

local tools = require "moonlet.extension_tools"

local dependencies = {}

--- The files that a rule as compilers write it (`-MD`) depends on.
---@param text string
---@return string[]
function dependencies.parse(text)
  local out = {}
  local list = text:gsub("\\\r?\n", " "):match "^[^\n]-:%s(.*)$" or ""
  -- A space that belongs to a name has a backslash before it, a dollar sign another one.
  for word in list:gsub("\\ ", "\0"):gmatch "%S+" do
    if word:sub(-1) ~= ":" then
      out[#out + 1] = word:gsub("%z", " "):gsub("%$%$", "$"):gsub("\\#", "#")
    end
  end
  return out
end

--- The absolute paths of those files that are not in the folder.
---@param paths string[]
---@param folder string
---@return string[]
function dependencies.outside(paths, folder)
  local out = {}
  for _, path in ipairs(paths) do
    local full = tools.absolute(path)
    if full:sub(1, #folder + 1) ~= folder .. "/" then out[#out + 1] = full end
  end
  return out
end

--- What is noted of files: for each its path, size, time and the hash of its bytes. One that has
--- changed since `began`, a time, may have been read before or after that: it gets no hash, and is
--- taken for changed.
---@param paths string[]
---@param began integer
---@param known? table<string, table> notes by path
---@return table[]
function dependencies.note(paths, began, known)
  local out, seen = {}, {}
  for _, path in ipairs(paths) do
    if not seen[path] then
      seen[path] = true
      local size, time = tools.stat(path)
      local before = known and known[path]
      if before and before[2] == size and before[3] == time then
        out[#out + 1] = before
      elseif size then
        local hash = time <= began and tools.hash(tools.read(path, "ext")) or ""
        out[#out + 1] = { path, size, time, hash }
      else
        out[#out + 1] = { path, -1, 0, "" }
      end
    end
  end
  return out
end

--- Whether all files are as they were noted: by size and time, or by their bytes. Changes the
--- notes of those that were only touched.
---@param notes table[]
---@return boolean same
---@return boolean touched
function dependencies.unchanged(notes)
  local touched = false
  for _, note in ipairs(notes) do
    local size, time = tools.stat(note[1])
    if size ~= note[2] or note[4] == "" then return false, touched end
    if time ~= note[3] then
      if tools.hash(tools.read(note[1], "ext")) ~= note[4] then return false, touched end
      note[3], touched = time, true
    end
  end
  return true, touched
end

return dependencies
