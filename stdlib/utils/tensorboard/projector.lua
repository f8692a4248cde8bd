-- stdlib/utils/tensorboard/projector.lua: the files from which TensorBoard's projector shows points
-- of many dimensions: their numbers, labels and pictures, and a list of all of them.

local images = require "moonlet.utils.tensorboard.images"
local ml = require "moonlet"
local system = require "moonlet.system"
local fail = require("moonlet.options").fail

local projector = {}

-- A new file, complete or not there at all.
local function write(where, path, text)
  local file, message = io.open(path .. ".part", "wb")
  if not file then fail("%s: %s", where, message) end
  local ok, problem = file:write(text)
  local closed, late = file:close()
  if not (ok and closed) then fail("%s: '%s': %s", where, path, problem or late) end
  local moved, reason = os.rename(path .. ".part", path)
  if not moved then fail("%s: %s", where, reason) end
end

local function one_line(where, value)
  local text = tostring(value)
  if text:find "[\t\r\n]" then
    fail("%s: a label has a tab or a line break in it: %q", where, text)
  end
  return text
end

-- The lines of labels: one each, or with a header a row of them each.
local function label_lines(where, metadata, header)
  local lines = {}
  if header then lines[1] = header end
  for _, label in ipairs(metadata) do lines[#lines + 1] = label end
  for i, line in ipairs(lines) do
    if not header then
      lines[i] = one_line(where, line)
    else
      if type(line) ~= "table" or #line ~= #header then
        fail("%s: with 'metadata_header' each of 'metadata' is an array of %d values", where,
          #header)
      end
      local columns = {}
      for k, value in ipairs(line) do columns[k] = one_line(where, value) end
      lines[i] = table.concat(columns, "\t")
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- All pictures in one that is as wide as high, so many in each row as there are rows.
local function sprite(where, pictures)
  local columns = math.ceil(math.sqrt(pictures:size(1)))
  local grid = images.grid(where, pictures, "NCHW", columns, "label_img")
  if grid:size(1) == 1 then grid = grid:expand(3, grid:size(2), grid:size(3)) end
  local side = math.max(grid:size(2), grid:size(3))
  local square = ml.zeros { 3, side, side, dtype = grid.dtype, device = grid.device }
  square[{ {}, { 1, grid:size(2) }, { 1, grid:size(3) } }]:copy_(grid)
  return (images.png(where, square, "CHW"))
end

-- Rows of numbers that read back as they were.
local function rows_of(mat)
  local format = mat.dtype == ml.float64 and "%.17g" or "%.9g"
  local lines = {}
  for i, row in ipairs(mat:totable()) do
    for k, value in ipairs(row) do
      row[k] = math.type(value) == "integer" and tostring(value) or format:format(value)
    end
    lines[i] = table.concat(row, "\t")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function check(where, o)
  if o.mat:dim() ~= 2 then
    fail("%s: 'mat' must have 2 dimensions, got shape %s", where, tostring(o.mat.shape))
  elseif o.mat:is_complex() then
    fail("%s: 'mat' must not be complex", where)
  elseif o.metadata and #o.metadata ~= o.mat:size(1) then
    fail("%s: 'metadata' has %d labels, 'mat' %d points", where, #o.metadata, o.mat:size(1))
  elseif o.metadata_header and not o.metadata then
    fail("%s: 'metadata_header' wants 'metadata'", where)
  elseif o.label_img and (o.label_img:dim() ~= 4 or o.label_img:size(1) ~= o.mat:size(1)) then
    fail("%s: 'label_img' must be (%d, channels, height, width), got shape %s", where,
      o.mat:size(1), tostring(o.label_img.shape))
  elseif o.label_img and o.label_img:size(2) ~= 1 and o.label_img:size(2) ~= 3 then
    fail("%s: 'label_img' must have 1 or 3 channels, got %d", where, o.label_img:size(2))
  end
end

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

--- Writes the files of one embedding into a folder of the run's, and gives its entry in the list.
---@param where string
---@param log_dir string
---@param o table mat, metadata, label_img, global_step, tag, metadata_header
---@return string entry
function projector.write(where, log_dir, o)
  check(where, o)
  local step = ("%05d"):format(o.global_step or 0)
  local name = o.tag:gsub("[%%/\\]", function(c) return ("%%%02x"):format(c:byte()) end)
  local inner = step .. "/" .. name
  local folder = log_dir .. "/" .. inner
  system.make_folder(folder, where)
  local entry = { ("  tensor_name: %s"):format(quoted(o.tag .. ":" .. step)) }
  if o.metadata then
    write(where, folder .. "/metadata.tsv", label_lines(where, o.metadata, o.metadata_header))
    entry[#entry + 1] = ("  metadata_path: %s"):format(quoted(inner .. "/metadata.tsv"))
  end
  if o.label_img then
    write(where, folder .. "/sprite.png", sprite(where, o.label_img))
    entry[#entry + 1] = ("  sprite {\n    image_path: %s\n    single_image_dim: %d\n"
      .. "    single_image_dim: %d\n  }"):format(quoted(inner .. "/sprite.png"),
      o.label_img:size(4), o.label_img:size(3))
  end
  entry[#entry + 1] = ("  tensor_path: %s"):format(quoted(inner .. "/tensors.tsv"))
  write(where, folder .. "/tensors.tsv", rows_of(o.mat:detach():to { device = "cpu" }))
  return ("embeddings {\n%s\n}\n"):format(table.concat(entry, "\n"))
end

--- Writes the list of all embeddings of a run.
---@param where string
---@param log_dir string
---@param entries string[]
function projector.write_list(where, log_dir, entries)
  write(where, log_dir .. "/projector_config.pbtxt", table.concat(entries))
end

return projector
