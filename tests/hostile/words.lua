-- tests/hostile/words.lua: the globals of snippets: Lua's own, the library's, and a few helpers.

local ml = require "moonlet"
local words = setmetatable({ ml = ml, nn = ml.nn, F = ml.nn.functional, optim = ml.optim, data = ml.data },
  { __index = _G })
local files = {}

--- The name of a file that is removed after the snippet, if it is there.
---@param name string
---@return string
function words.path(name)
  files[#files + 1] = name
  return name
end

--- Writes a file that is removed after the snippet; its name.
---@param name string
---@param bytes string
---@return string
function words.write(name, bytes)
  local file <close> = assert(io.open(words.path(name), "wb"))
  assert(file:write(bytes))
  return name
end

--- The bytes of a file.
---@param name string
---@return string
function words.read(name)
  local file <close> = assert(io.open(name, "rb"))
  return file:read "a"
end

--- A safetensors file of a header, as text, and data.
---@param header string
---@param bytes? string
---@return string name
function words.safetensors(header, bytes)
  return words.write("x.safetensors", ("<s8"):pack(header) .. (bytes or ""))
end

local function crc32(bytes)
  local crc = 0xffffffff
  for i = 1, #bytes do
    crc = crc ~ bytes:byte(i)
    for _ = 1, 8 do crc = (crc >> 1) ~ (0xedb88320 & -(crc & 1)) end
  end
  return ~crc & 0xffffffff
end

--- The bytes as a gzip member that stores them, at most 65535.
---@param bytes string
---@return string
function words.gzip(bytes)
  return "\x1f\x8b\8\0\0\0\0\0\0\3\1" .. ("<I2I2"):pack(#bytes, ~#bytes & 0xffff) .. bytes
    .. ("<I4I4"):pack(crc32(bytes), #bytes)
end

--- An IDX file's bytes: sizes, and data of type uint8.
---@param sizes integer[]
---@param bytes string
---@return string
function words.idx(sizes, bytes)
  return "\0\0\8" .. string.char(#sizes) .. (">" .. ("I4"):rep(#sizes)):pack(table.unpack(sizes)) .. bytes
end

--- What `f` raises, as text; an error when it raises none.
---@param f function
---@return string
function words.message(f, ...)
  local ok, message = pcall(f, ...)
  if ok then error("no error was raised", 2) end
  return tostring(message)
end

--- Calls `f` with each of the values in turn; how many of the calls raised an error that matches
--- `pattern`. Any other error is passed on.
---@param pattern string
---@param values any[]
---@param f function
---@return string "REFUSED of COUNT"
function words.refused(pattern, values, f)
  local refused = 0
  local count = values.n or #values
  for i = 1, count do
    local ok, message = pcall(f, values[i])
    if not ok then
      if not tostring(message):find(pattern) then error(message, 0) end
      refused = refused + 1
    end
  end
  return ("%d of %d"):format(refused, count)
end

--- Two full collections, so that finalisers of what the first one found have run as well.
function words.collect()
  collectgarbage()
  collectgarbage()
end

--- Removes the files of the snippet that ran.
function words.finish()
  for i = #files, 1, -1 do
    os.remove(files[i])
    files[i] = nil
  end
end

return words
