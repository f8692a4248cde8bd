-- stdlib/bundle/targets.lua: executables of moonlet for other platforms, and what their headers
-- say.

local options = require "moonlet.options"
local system = require "moonlet.system"

local targets = {}

-- By the names of scripts/platforms.sh.
local PLATFORMS = { aarch64 = { file = "moonlet", machine = "ELF 183" },
  windows = { file = "moonlet.exe", machine = "PE 34404" } }

local ELF64, LEAST = "\x7FELF\2", 64

local function part_of(path, bytes, at)
  local file = assert(io.open(path, "rb"))
  local head = file:seek("set", at or 0) and file:read(bytes) or ""
  file:close()
  return head
end

-- "ELF 62" of an x86-64 one; an empty string where it is neither ELF nor PE.
local function machine_of(path)
  local head = part_of(path, 4096)
  if #head < LEAST then return "" end
  if head:sub(1, 4) == "\x7FELF" then return "ELF " .. string.unpack("<I2", head, 19) end
  local at = head:sub(1, 2) == "MZ" and string.unpack("<I4", head, 61) or #head
  if head:sub(at + 1, at + 4) ~= "PE\0\0" then return "" end
  return "PE " .. string.unpack("<I2", head, at + 5)
end

--- The executable that was built for a platform.
---@param name string
---@return string? path
---@return string? problem where there is none
function targets.find(name)
  local platform = PLATFORMS[name]
  if not platform then
    return nil, ("--target must be aarch64 or windows (--executable names a moonlet for another "
      .. "platform), got '%s'%s"):format(name, options.did_you_mean(name, { "aarch64", "windows" }))
  end
  local here = system.executable():match "^(.*)/" or "."
  local ending = platform.file:match "%.exe$" or ""
  local tried = { ("%s/moonlet-%s%s"):format(here, name, ending),
    ("%s/../build-%s/%s"):format(here, name, platform.file),
    ("build-%s/%s"):format(name, platform.file) }
  for _, path in ipairs(tried) do
    if system.exists(path) == "file" then
      if machine_of(path) == platform.machine then return path end
      return nil, ("'%s' is no executable for %s"):format(path, name)
    end
  end
  return nil, ("there is no moonlet for %s: expected %s; 'sh scripts/platforms.sh %s build' builds "
    .. "one"):format(name, table.concat(tried, " or "), name)
end

--- Whether an executable names a loader of shared libraries, without which it opens no plugin.
--- Those of other systems than ELF's are taken to do.
---@param path string
---@return boolean
function targets.opens_plugins(path)
  local head = part_of(path, LEAST)
  if #head < LEAST or head:sub(1, 5) ~= ELF64 then return true end
  local at = string.unpack("<I8", head, 33)
  local size, count = string.unpack("<I2I2", head, 55)
  local segments = part_of(path, size * count, at)
  for i = 0, #segments // math.max(size, 4) - 1 do
    if string.unpack("<I4", segments, i * size + 1) == 3 then return true end
  end
  return false
end

return targets
