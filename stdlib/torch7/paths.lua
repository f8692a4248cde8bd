-- stdlib/torch7/paths.lua: the package `paths` of Torch7: names of files, folders and what is in
-- them.

local separators = require "moonlet.files.separators"
local system = require "moonlet.system"

local paths = {}

local on_windows, slashed = separators.on_windows, separators.slashed

-- "C:", where a path begins so and that is a drive.
local function drive_of(path) return on_windows and path:match "^%a:" or "" end

--- The last part of a path, without the ending that is given.
function paths.basename(path, ending)
  local name = slashed(path):gsub("/+$", ""):match "([^/]*)$"
  if ending then
    ending = ending:gsub("^%.?", ".")
    if name:sub(-#ending) == ending and #name > #ending then name = name:sub(1, -#ending - 1) end
  end
  return name
end

function paths.dirname(path)
  local folder = slashed(path):gsub("/+$", ""):match "^(.*)/[^/]*$"
  if folder == nil then return "." end
  return folder == drive_of(folder) and folder .. "/" or folder
end

function paths.extname(path) return path:match "%.([^./]*)$" end

--- Joins parts into a path from the current folder; a part that begins with / stands alone.
function paths.concat(...)
  local out = paths.cwd()
  for _, part in ipairs { ... } do
    part = slashed(part)
    local rest = part:sub(#drive_of(part) + 1)
    if rest:sub(1, 1) == "/" then out = part else out = out .. "/" .. part end
  end
  local drive, kept = drive_of(out), {}
  for part in out:sub(#drive + 1):gmatch "[^/]+" do
    if part == ".." then kept[#kept] = nil elseif part ~= "." then kept[#kept + 1] = part end
  end
  return drive .. "/" .. table.concat(kept, "/")
end

function paths.cwd() return slashed(system.current_folder()) end
paths.getcwd = paths.cwd
paths.home = os.getenv "HOME" or os.getenv "USERPROFILE" or ""

local function names_in(folder)
  local names = system.list(folder)
  for i, name in ipairs(names or {}) do names[i] = name:gsub("/$", "") end
  return names
end

function paths.dirp(path) return path ~= nil and system.exists(path) == "directory" end
function paths.filep(path) return path ~= nil and system.exists(path) == "file" end

-- The names in a folder for which `fits` holds, in order.
local function selected(folder, fits)
  local out = {}
  for _, name in ipairs(names_in(folder) or {}) do
    if fits(folder .. "/" .. name, name) then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

local function iterate(names)
  local at = 0
  return function()
    at = at + 1
    return names[at]
  end
end

--- All names in a folder, with "." and "..".
function paths.dir(folder)
  local names = names_in(folder)
  if not names then return nil end
  local out = { ".", ".." }
  table.move(names, 1, #names, 3, out)
  return out
end

function paths.iterdirs(folder) return iterate(selected(folder, paths.dirp)) end
function paths.iterfiles(folder) return iterate(selected(folder, paths.filep)) end

--- The names in a folder that match a pattern, or for which a function holds.
function paths.files(folder, filter)
  local fits = filter
  if type(filter) == "string" then
    fits = function(name) return name:find(filter) ~= nil end
  end
  local names = paths.dir(folder) or error("paths.files: there is no folder " .. folder, 2)
  local kept = {}
  for _, name in ipairs(names) do
    if not fits or fits(name) then kept[#kept + 1] = name end
  end
  return iterate(kept)
end

function paths.mkdir(path)
  local parent = paths.dirname(path)
  if parent ~= "/" and parent ~= "." and not paths.dirp(parent) then paths.mkdir(parent) end
  if paths.dirp(path) then return true end
  return (pcall(system.make_folder, path, "paths.mkdir"))
end

function paths.rmdir(path) return os.remove(path) end

--- Removes a folder with all in it; the second argument must be "yes".
function paths.rmall(path, more)
  if more ~= "yes" then error("paths.rmall: the second argument must be 'yes'", 2) end
  if paths.dirp(path) then
    for _, name in ipairs(names_in(path)) do paths.rmall(path .. "/" .. name, "yes") end
  end
  return os.remove(path)
end

function paths.tmpname() return os.tmpname() end
function paths.uname() return on_windows and "Windows" or "Linux", "", "" end
function paths.is_win() return on_windows end
function paths.execdir() return paths.dirname(system.executable()) end

--- The file that calls, or `name` beside it.
function paths.thisfile(name, depth)
  local source = debug.getinfo(2 + (depth or 0), "S").source:match "^@(.*)$"
  if not source then return nil end
  local file = paths.concat(source)
  return name and paths.concat(paths.dirname(file), name) or file
end

function paths.dofile(name, depth)
  return dofile(paths.thisfile(name, (depth or 1)) or name)
end

function paths.require(name) return require(name) end

--- The first of these programs on PATH.
function paths.findprogram(...)
  for _, name in ipairs { ... } do
    for folder in separators.each_path "PATH" do
      for _, ending in ipairs { "", on_windows and ".exe" or nil } do
        local path = folder .. "/" .. name .. ending
        if paths.filep(path) then return path end
      end
    end
  end
  return nil
end

return paths
