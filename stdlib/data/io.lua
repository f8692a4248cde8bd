-- stdlib/data/io.lua: arrays from IDX files (the format of MNIST), gzip too.

local io = require "moonlet.io"
local signature = require "moonlet.signature"

local files = {}

local read_idx = signature "data.read_idx(any? path=nil, int>=1? max_bytes=nil)"

--- Reads a file of the IDX format, that of MNIST, as a tensor of the file's shape and type; also
--- gzipped.
--- > path = os.tmpname()
--- > file = io.open(path, "wb")
--- > _ = file:write("\0\0\8\1\0\0\0\3abc") and file:close()
--- > ml.data.read_idx(path)
---   {97, 98, 99}
---   Tensor (3,) uint8
---@param path string the file
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@return Tensor
---@shape -> the shape in the file
function files.read_idx(...) return io.read_idx(read_idx(...)) end

return files
