-- stdlib/torch7/optim/logger.lua: optim.Logger, which writes numbers by name as lines of a file.

local Logger = {}
Logger.__index = Logger

--- A logger into the file `path`; without one it only keeps what it is given.
local function new(_, path, with_time)
  local self = setmetatable({ symbols = {}, names = nil, empty = true, time = with_time }, Logger)
  if path then
    local file, message = io.open(path, "w")
    if not file then error(("Logger: cannot write %s: %s"):format(path, message), 2) end
    self.file = file
  end
  return self
end

local function write(self, words)
  if not self.file then return end
  if self.time then table.insert(words, 1, os.date "%Y-%m-%d %H:%M:%S") end
  self.file:write(table.concat(words, "\t"), "\n")
  self.file:flush()
end

local function heading(self, names)
  self.names, self.empty = names, false
  for _, name in ipairs(names) do self.symbols[name] = {} end
  local words = { table.unpack(names) }
  write(self, words)
end

--- The names of columns, for values that come as lists.
function Logger:setNames(names)
  heading(self, names)
  return self
end

local function shown(value)
  return type(value) == "number" and ("%.4e"):format(value) or tostring(value)
end

--- Adds a line: values by name, or a list in the order of the names.
function Logger:add(values)
  if not self.names then
    local names = {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names)
    heading(self, names)
  end
  local words = {}
  for i, name in ipairs(self.names) do
    local value = values[name]
    if value == nil then value = values[i] end
    if value == nil then error(("Logger: a value of %s is expected"):format(tostring(name)), 2) end
    table.insert(self.symbols[name], value)
    words[i] = shown(value)
  end
  write(self, words)
end

--- Which style a plot would have; there are no plots here.
function Logger:style(styles)
  self.styles = styles
  return self
end

function Logger:close()
  if self.file then self.file:close() end
  self.file = nil
end

return setmetatable({}, { __call = new, __index = Logger })
