-- stdlib/record_ops.lua: `moonlet --record-ops FILE script.lua`: the ops that a run has called, for
-- a library that has no others (the build option ops).

local ml = require "moonlet"
local system = require "moonlet.system"

local record_ops = {}

local function write(path, rows)
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  system.write_file(path, table.concat(names, "\n") .. (#names > 0 and "\n" or ""), "record_ops")
end

--- Runs a function and writes the ops that it has called, one a line: composites and what these
--- are made of, those of `backward` and of optimisers; also when it ends by an error or `os.exit`.
---@param path string the file to write
---@param f function what is run
---@param ... any what it gets
---@return any ... its results
function record_ops.run(path, f, ...)
  local rows = {}
  local _ <close> = setmetatable({}, { __close = function() write(path, rows) end })
  return ml.override(function(op, arguments, call)
    rows[op.row or op.name] = true
    return call(arguments)
  end, f, ...)
end

return record_ops
