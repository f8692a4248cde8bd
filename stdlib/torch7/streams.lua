-- stdlib/torch7/streams.lua: where the bytes of torch.DiskFile, PipeFile and MemoryFile are.
-- Positions count from 0.

local streams = {}

-- --- handles of Lua's io library ----------------------------------------------------------------

local Handle = {}
Handle.__index = Handle

-- So many bytes are read at once: Lua reserves as many as are asked for, whatever the file has.
local BLOCK = 1 << 20

function Handle:read(count)
  if count == 0 then return "" end
  if self.last == "write" then self.handle:seek("cur", 0) end
  self.last = "read"
  if count <= BLOCK then return self.handle:read(count) or "" end
  local parts = {}
  while count > 0 do
    local part = self.handle:read(math.min(count, BLOCK))
    if not part then break end
    parts[#parts + 1], count = part, count - #part
  end
  return table.concat(parts)
end

function Handle:write(text)
  if self.last == "read" then self.handle:seek("cur", 0) end
  self.last = "write"
  return self.handle:write(text) ~= nil
end

function Handle:seek(position) return self.handle:seek("set", position) ~= nil end
function Handle:seek_end() return self.handle:seek "end" end
function Handle:tell() return self.handle:seek "cur" end
function Handle:flush() self.handle:flush() end
function Handle:close() self.handle:close() end

local MODES = { r = "rb", w = "wb", rw = "r+b" }

--- A file; nil and a reason where it cannot be opened.
function streams.disk(path, mode)
  local handle, reason = io.open(path, MODES[mode])
  if not handle and mode == "rw" then handle, reason = io.open(path, "w+b") end
  if not handle then return nil, reason end
  return setmetatable({ handle = handle }, Handle)
end

function streams.pipe(command, mode)
  local handle, reason = io.popen(command, mode)
  if not handle then return nil, reason end
  return setmetatable({ handle = handle }, Handle)
end

-- --- memory -------------------------------------------------------------------------------------

-- What is written at the end is joined when it is read.
local Memory = {}
Memory.__index = Memory

function streams.memory(text)
  return setmetatable({ data = text or "", parts = {}, size = #(text or ""), at = 0 }, Memory)
end

function Memory:join()
  if #self.parts > 0 then
    self.data = self.data .. table.concat(self.parts)
    self.parts = {}
  end
  return self.data
end

function Memory:read(count)
  local out = self:join():sub(self.at + 1, self.at + count)
  self.at = self.at + #out
  return out
end

function Memory:write(text)
  if self.at == self.size then
    self.parts[#self.parts + 1] = text
  else
    local data = self:join()
    self.data = data:sub(1, self.at) .. text .. data:sub(self.at + #text + 1)
  end
  self.at = self.at + #text
  self.size = math.max(self.size, self.at)
  return true
end

function Memory:seek(position)
  if position < 0 or position > self.size then return false end
  self.at = position
  return true
end

function Memory:seek_end() self.at = self.size end
function Memory:tell() return self.at end
function Memory:flush() end
function Memory:close() self.data, self.parts = "", {} end

return streams
