-- stdlib/data/io.lua: arrays from IDX files (the format of MNIST), gzip too.

local io = require "moonlet.io"
local signature = require "moonlet.signature"

local files = {}

local read_idx = signature "data.read_idx(any? path=nil, int>=1? max_bytes=nil)"

--- An IDX file as a tensor of the file's shape and type. Reading takes at most `max_bytes`, as in
--- `ml.load`.
---@param path string
---@param max_bytes? integer
---@return Tensor
function files.read_idx(...) return io.read_idx(read_idx(...)) end

return files
