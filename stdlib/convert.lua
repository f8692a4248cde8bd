-- stdlib/convert.lua: the command `moonlet convert`: the weights of a model of Torch7's in a file
-- of another kind, under the names that a model of `ml.nn` made alike gives them; or a checkpoint
-- that several ranks have written, as one file.

local ml = require "moonlet"
local options = require "moonlet.options"
local system = require "moonlet.system"

local convert = {}

local USAGE = [[
usage: moonlet convert [--dtype DTYPE] MODEL.t7 OUTPUT
       moonlet convert [--dtype DTYPE] [--key NAME] FOLDER OUTPUT
Writes the weights and buffers of a model of Torch7's nn as a state dict, whose names are those of
an nn.Sequential with a counterpart for each module; or what ml.distributed.checkpoint has saved in
a folder, with whole tensors. OUTPUT ends in .safetensors, .pt or another ending that ml.save knows.
  --dtype DTYPE  of all weights, such as float32
  --key NAME     of the table in a checkpoint that is written alone, such as model
]]

local function fail(format, ...) error(("convert: " .. format):format(...), 0) end

-- Modules of modules, which are numbered from 0.
local CONTAINERS = { Sequential = true, Concat = true, ConcatTable = true, DepthConcat = true,
  Parallel = true, ParallelTable = true, MapTable = true, Bottle = true }

-- --- weights in another order -------------------------------------------------------------------

local function as_is(x) return x end

-- A convolution whose weights are a matrix: a row for each plane that it gives.
local function planes(x, module)
  if x:dim() ~= 2 then return x end
  return x:reshape(module.nOutputPlane, module.nInputPlane, module.kH, module.kW)
end

-- Frames lie one after another in a row; here each input channel has its frames.
local function frames(x, module)
  return x:reshape(module.outputFrameSize, module.kW, module.inputFrameSize):transpose(2, 3)
end

local WEIGHTS = { weight = as_is, bias = as_is }
local NORM = { weight = as_is, bias = as_is, running_mean = as_is, running_var = as_is }

-- The fields of each class that are weights or buffers.
local CLASSES = {
  Linear = WEIGHTS,
  LookupTable = { weight = as_is },
  PReLU = { weight = as_is },
  SpatialConvolution = { weight = planes, bias = as_is },
  SpatialConvolutionMM = { weight = planes, bias = as_is },
  SpatialDilatedConvolution = { weight = planes, bias = as_is },
  SpatialFullConvolution = WEIGHTS,
  VolumetricConvolution = WEIGHTS,
  VolumetricFullConvolution = WEIGHTS,
  TemporalConvolution = { weight = frames, bias = as_is },
  BatchNormalization = NORM,
  SpatialBatchNormalization = NORM,
  VolumetricBatchNormalization = NORM,
  Bilinear = WEIGHTS,
}

-- --- modules ------------------------------------------------------------------------------------

local function class_of(module)
  local name = type(module) == "table" and module.__typename
  return name and (name:match "^c?u?d?nn%.(%w+)$" or name) or nil
end

-- Files before 2015 have the inverse of the deviation.
local function with_variance(module)
  if not module.running_var and module.running_std then
    local eps = module.eps or 1e-5
    module.running_var = module.running_std:pow(-2):sub(eps)
  end
  return module
end

local add

local function add_weights(out, module, class, prefix)
  with_variance(module)
  for field, laid_out in pairs(CLASSES[class]) do
    local value = module[field]
    if ml.is_tensor(value) and value:numel() > 0 then
      out[prefix .. field] = laid_out(value, module):contiguous()
    end
  end
  if CLASSES[class] == NORM then
    out[prefix .. "num_batches_tracked"] = ml.tensor(0, { dtype = "int64" })
  end
end

function add(out, module, prefix)
  local class = class_of(module)
  if not class then fail("%s is no module of Torch7's", prefix == "" and "the value" or prefix) end
  if CLASSES[class] then
    add_weights(out, module, class, prefix)
  elseif CONTAINERS[class] then
    for i, child in ipairs(module.modules or {}) do add(out, child, prefix .. i - 1 .. ".") end
  elseif ml.is_tensor(module.weight) or module.modules then
    fail("%s of class %s has no counterpart in ml.nn", prefix == "" and "the model" or prefix,
      module.__typename)
  end
end

--- The weights of a model that `ml.load` has read, by name.
---@param model table
---@return table<string, Tensor>
function convert.state_dict(model)
  local out = {}
  add(out, model, "")
  if next(out) == nil then fail "the model has no weights" end
  return out
end

-- --- the command --------------------------------------------------------------------------------

local function read_arguments(words)
  local paths, dtype, key, at = {}, nil, nil, 1
  while at <= #words do
    local word = words[at]
    if word == "--key" then
      at = at + 1
      key = words[at] or fail "a value is missing behind '--key'"
    elseif word == "--dtype" then
      at = at + 1
      dtype = words[at] or fail "a value is missing behind '--dtype'"
      if not pcall(ml.empty, 0, { dtype = dtype }) then fail("'%s' is no dtype", dtype) end
    elseif word:sub(1, 1) == "-" then
      fail("unrecognized option '%s'\n%s", word, USAGE)
    else
      paths[#paths + 1] = word
    end
    at = at + 1
  end
  if #paths ~= 2 then fail("a model and an output are expected\n%s", USAGE) end
  return paths[1], paths[2], dtype, key
end

-- The tensors in nested tables in another dtype; how many there are.
local function cast(value, dtype)
  local count = 0
  for key, item in pairs(value) do
    if ml.is_tensor(item) then
      if dtype and item.dtype:find "^float" then value[key] = item:to(dtype) end
      count = count + 1
    elseif type(item) == "table" then
      count = count + cast(item, dtype)
    end
  end
  return count
end

-- The state dict that a file or folder has.
local function read_input(input, key)
  local folder = input:gsub("(.)/+$", "%1")
  if system.exists(folder) ~= "directory" then
    if key then fail "'--key' is for the folder of a checkpoint" end
    return convert.state_dict(ml.load(input))
  end
  local value = require("moonlet.distributed.checkpoint.read").all("convert", folder)
  if key == nil then return value end
  if type(value[key]) ~= "table" then fail("the checkpoint has no table '%s'", key) end
  return value[key]
end

--- Runs the command on the words behind its name.
---@param words string[]
---@return boolean
function convert.command(words)
  if words[1] == "--help" or words[1] == "-h" then
    io.write(USAGE)
    return true
  end
  local ok, problem = pcall(function()
    local input, output, dtype, key = read_arguments(words)
    local state = read_input(input, key)
    local count = cast(state, dtype)
    ml.save(output, state)
    print(("%s: %d tensors"):format(output, count))
  end)
  if not ok then options.report(problem) end
  return ok
end

return convert
