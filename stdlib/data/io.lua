-- stdlib/data/io.lua: tables of numbers from CSV files and arrays from IDX files (the format of
-- MNIST), gzip too.

local io = require "moonlet.io"
local signature = require "moonlet.signature"

local files = {}

local read_csv = signature('data.read_csv(any? path=nil, bool header=false, string separator=",", '
  .. "string? dtype=nil, int>=1? max_bytes=nil)")

--- A CSV file of numbers as a `(rows, columns)` tensor. Options: `header` (false; true takes the
--- names of the columns from the first line), `separator` (","), `dtype` (the default dtype),
--- `max_bytes`, what reading may take, as in `ml.load`.
--- A bad or missing field and a line of another length are errors that name the line and column;
--- `data.read_table` reads files with text or missing fields.
---@param path string
---@param header? boolean
---@param separator? string
---@param dtype? string
---@param max_bytes? integer
---@return Tensor values
---@return string[]? names
function files.read_csv(...) return io.read_csv(read_csv(...)) end

local write_csv = signature("data.write_csv(string path, Tensor tensor, string[]? header=nil, "
  .. 'string separator=",")')

--- Writes a tensor of one or two dimensions as CSV, whole or not at all. Options: `header` (an
--- array of names, one for each column), `separator` (",").
---@param path string
---@param tensor Tensor
---@param header? string[]
---@param separator? string
function files.write_csv(...) io.write_csv(write_csv(...)) end

local read_idx = signature "data.read_idx(any? path=nil, int>=1? max_bytes=nil)"

--- An IDX file as a tensor of the file's shape and type. Reading takes at most `max_bytes`, as in
--- `ml.load`.
---@param path string
---@param max_bytes? integer
---@return Tensor
function files.read_idx(...) return io.read_idx(read_idx(...)) end

return files
