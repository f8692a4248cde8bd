-- stdlib/distributed/device_mesh.lua: ml.distributed.DeviceMesh: ranks in a grid, each of whose
-- dimensions has process groups of its own, so that one way of training goes along each.

local class = require "moonlet.class"
local groups = require "moonlet.distributed.groups"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local meshes = {}

local read_class = signature('DeviceMesh(string device_type, any mesh, '
  .. 'string[]? mesh_dim_names=nil)')

--- Ranks in a grid. `mesh.dp`, or `mesh["dp"]`, is the part along the dimension of that name in
--- which this rank is, and `mesh[{ "dp", "tp" }]` the one along several, in their order. Dimensions
--- count from 1, ranks and coordinates from 0. `ml.distributed.init_device_mesh` makes one of all
--- ranks; all ranks must make the same ones, also those that are not in it.
--- > ml.distributed.init_process_group()
--- > mesh = ml.distributed.DeviceMesh("cpu", { { 0 } }, { mesh_dim_names = { "dp", "tp" } })
--- > mesh.tp:size()
---   1
--- > ml.distributed.destroy_process_group()
---@param device_type string where tensors are that are trained over it: "cpu" or "cuda"
---@param mesh table|moonlet.Tensor the ranks, from 0, in nested arrays; they grow along each
---   dimension
---@param mesh_dim_names? string[] a name for each dimension
---@field device_type string Where tensors are.
---@field shape integer[] How many ranks there are along each dimension.
---@field ndim integer How many dimensions it has.
---@field mesh moonlet.Tensor The ranks.
---@error ranks that are not there, are given twice or do not grow, names that cannot be
---@see distributed.init_device_mesh
local DeviceMesh = class "DeviceMesh"
meshes.DeviceMesh = DeviceMesh

signature.add_type("DeviceMesh", "a device mesh", function(value)
  return class.is_instance(value, DeviceMesh) and value or nil
end)

-- What belongs to each mesh beside its fields.
local parts = setmetatable({}, { __mode = "k" })

-- --- the grid -----------------------------------------------------------------------------------

-- How far apart neighbours along each dimension are in the list of ranks.
local function strides_of(shape)
  local out, step = {}, 1
  for d = #shape, 1, -1 do out[d], step = step, step * shape[d] end
  return out
end

-- The coordinates, from 0, of the position in the list of ranks, from 0.
local function coordinate_at(position, shape)
  local out = {}
  for d, stride in ipairs(strides_of(shape)) do
    out[d] = position // stride % shape[d]
  end
  return out
end

-- The lines of ranks along a dimension, in their order.
local function lines_along(d, ranks, shape)
  local stride, out = strides_of(shape)[d], {}
  for position = 0, #ranks - 1 do
    if position // stride % shape[d] == 0 then
      local line = {}
      for i = 0, shape[d] - 1 do line[i + 1] = ranks[position + i * stride + 1] end
      out[#out + 1] = line
    end
  end
  return out
end

local function text_of(shape) return ("(%s)"):format(table.concat(shape, ", ")) end

local function check_ranks(where, ranks, shape)
  local world, taken = state.world, {}
  for _, rank in ipairs(ranks) do
    if rank < 0 or rank >= world.size then
      fail("%s: a rank must be from 0 to %d, got %d", where, world.size - 1, rank)
    elseif taken[rank] then
      fail("%s: rank %d is given twice", where, rank)
    end
    taken[rank] = true
  end
  for d = 1, #shape do
    for _, line in ipairs(lines_along(d, ranks, shape)) do
      for i = 2, #line do
        if line[i] < line[i - 1] then
          fail("%s: ranks must grow along each dimension, got %d behind %d in dimension %d", where,
            line[i], line[i - 1], d)
        end
      end
    end
  end
end

local function check_names(where, names, shape)
  if not names then return end
  if #names ~= #shape then
    fail("%s: 'mesh_dim_names' must have a name for each of the %d dimensions, got %d", where,
      #shape, #names)
  end
  local taken = {}
  for _, name in ipairs(names) do
    if taken[name] then fail("%s: 'mesh_dim_names' has '%s' twice", where, name) end
    taken[name] = true
    if name == "" or DeviceMesh[name] ~= nil or name:find "^_" or name == "shape"
        or name == "ndim" or name == "mesh" or name == "device_type" then
      fail("%s: 'mesh_dim_names' has '%s', which is no name of a dimension%s", where, name,
        name ~= "" and not name:find "^_" and ": it is a field of meshes" or "")
    end
  end
end

-- A type of devices, which must be there.
local function check_device(where, device_type)
  local known, problem = pcall(ml.empty, { 0 }, { device = device_type })
  if device_type:find(":", 1, true) or not known then
    fail("%s: 'device_type' must be a type of devices that is there, such as cpu, got '%s'%s",
      where, device_type, known and "" or ": " .. tostring(problem):gsub("^[^\n]-:%d+: ", ""))
  end
end

-- --- making one ---------------------------------------------------------------------------------

-- This rank's group along a dimension. All ranks make the groups of all lines, in one order.
local function group_along(d, ranks, shape)
  local own = nil
  for _, line in ipairs(lines_along(d, ranks, shape)) do
    local group = #line == state.world.size and state.world or groups.new_group(line)
    if group.rank >= 0 then own = group end
  end
  return own
end

local function set_up(self, device_type, ranks, shape, names, group_list)
  local here
  for i, rank in ipairs(ranks) do
    if rank == state.world.rank then here = coordinate_at(i - 1, shape) end
  end
  rawset(self, "device_type", device_type)
  rawset(self, "shape", shape)
  rawset(self, "ndim", #shape)
  rawset(self, "mesh", ml.tensor(ranks, { dtype = ml.int64 }):view(shape))
  parts[self] = { ranks = ranks, names = names, coordinate = here, groups = group_list,
    below = {} }
end

local function make(self, where, device_type, ranks, shape, names)
  check_device(where, device_type)
  check_ranks(where, ranks, shape)
  check_names(where, names, shape)
  local list = {}
  for d = 1, #shape do list[d] = group_along(d, ranks, shape) or false end
  set_up(self, device_type, ranks, shape, names, list)
end

function DeviceMesh:init(...)
  local device_type, mesh, names = read_class(...)
  state.group_of "DeviceMesh"
  local known, ranks = pcall(ml.tensor, mesh, { dtype = ml.int64 })
  if ml.is_tensor(mesh) then known, ranks = true, mesh end
  if not known or ranks:is_floating_point() or ranks:dim() == 0 or ranks:numel() == 0 then
    fail "DeviceMesh: 'mesh' must have ranks in nested arrays of equal lengths"
  end
  make(self, "DeviceMesh", device_type, ranks:long():reshape(-1):tolist(), ranks.shape:totable(),
    names)
end

local read_init = signature('init_device_mesh(string device_type, int[]>=1 mesh_shape, '
  .. 'string[]? mesh_dim_names=nil)')

--- Ranks in a grid, the last dimension of which are neighbours: with `{ 2, 2 }` the ranks 0 and 1
--- are the first row, 2 and 3 the second one. All ranks must call it. It calls
--- `init_process_group`, unless that has been done.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 }, { mesh_dim_names = { "dp", "tp" } })
--- > mesh
---   DeviceMesh of cpu: dp 1, tp 1
--- > ml.distributed.destroy_process_group()
---@param device_type string where tensors are that are trained over it: "cpu" or "cuda"
---@param mesh_shape integer[] how many ranks there are along each dimension
---@param mesh_dim_names? string[] a name for each dimension
---@return table mesh
---@error a grid of another number of ranks than there are
---@see distributed.DeviceMesh
function meshes.init_device_mesh(...)
  local device_type, shape, names = read_init(...)
  shape = table.move(shape, 1, #shape, 1, {})
  if #shape == 0 then
    fail "init_device_mesh: 'mesh_shape' must have at least one dimension, got none"
  end
  check_device("init_device_mesh", device_type)
  check_names("init_device_mesh", names, shape)
  if not state.world then groups.init_process_group() end
  local count, ranks = 1, {}
  for _, size in ipairs(shape) do count = count * size end
  if count ~= state.world.size then
    fail("init_device_mesh: a mesh of %s has %d ranks, there are %d", text_of(shape), count,
      state.world.size)
  end
  for i = 1, count do ranks[i] = i - 1 end
  local self = setmetatable({}, DeviceMesh)
  make(self, "init_device_mesh", device_type, ranks, shape, names)
  return self
end

-- --- what there is ------------------------------------------------------------------------------

-- The dimension that an argument names, from 1.
local function dimension(self, where, given)
  local part = parts[self]
  if given == nil then
    if #self.shape == 1 then return 1 end
    fail("%s: 'mesh_dim' must be given for a mesh of %d dimensions", where, #self.shape)
  end
  if type(given) == "string" then
    for d, name in ipairs(part.names or {}) do
      if name == given then return d end
    end
    fail("%s: the mesh has no dimension '%s'%s (it has %s)", where, given,
      options.did_you_mean(given, part.names or {}), part.names
      and table.concat(part.names, ", ") or "no names")
  end
  if given < 1 or given > #self.shape then
    fail("%s: 'mesh_dim' must be from 1 to %d, got %d", where, #self.shape, given)
  end
  return given
end

local function part_here(self, where)
  local part = parts[self]
  if not part.coordinate then
    fail("%s: rank %d is none of the mesh's, which are %s", where,
      state.world and state.world.rank or -1, table.concat(part.ranks, ", "))
  end
  return part
end

local read_group = signature "DeviceMesh:get_group(int|string? mesh_dim=nil)"

--- The process group of the line along a dimension in which this rank is.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 }, { mesh_dim_names = { "dp", "tp" } })
--- > mesh:get_group("tp")
---   ProcessGroup of 1 rank
--- > ml.distributed.destroy_process_group()
---@param mesh_dim? integer|string the dimension, from 1, or its name; needed unless there is only
---   one
---@return table group
---@error a dimension that is not there, a rank that is not in the mesh
function DeviceMesh:get_group(...)
  local d = dimension(self, "DeviceMesh:get_group", (read_group(...)))
  return part_here(self, "DeviceMesh:get_group").groups[d]
end

--- The process groups of all dimensions, in their order.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 })
--- > #mesh:get_all_groups()
---   2
--- > ml.distributed.destroy_process_group()
---@return table[] groups
---@error a rank that is not in the mesh
function DeviceMesh:get_all_groups()
  local list = part_here(self, "DeviceMesh:get_all_groups").groups
  return table.move(list, 1, #list, 1, {})
end

local read_size = signature "DeviceMesh:size(int|string? mesh_dim=nil)"

--- How many ranks there are along a dimension, or in all.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 }, { mesh_dim_names = { "dp", "tp" } })
--- > mesh:size(), mesh:size(2), mesh:size("dp")
---   1	1	1
--- > ml.distributed.destroy_process_group()
---@param mesh_dim? integer|string the dimension, from 1, or its name; all unless given
---@return integer
function DeviceMesh:size(...)
  local given = read_size(...)
  if given == nil then return #parts[self].ranks end
  return self.shape[dimension(self, "DeviceMesh:size", given)]
end

local read_local = signature "DeviceMesh:get_local_rank(int|string? mesh_dim=nil)"

--- This rank's coordinate along a dimension, from 0: its position in the group there.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 }, { mesh_dim_names = { "dp", "tp" } })
--- > mesh:get_local_rank("tp")
---   0
--- > ml.distributed.destroy_process_group()
---@param mesh_dim? integer|string the dimension, from 1, or its name; needed unless there is only
---   one
---@return integer
---@error a dimension that is not there, a rank that is not in the mesh
function DeviceMesh:get_local_rank(...)
  local d = dimension(self, "DeviceMesh:get_local_rank", (read_local(...)))
  return part_here(self, "DeviceMesh:get_local_rank").coordinate[d]
end

--- This rank's coordinates, from 0; nil when it is not in the mesh.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1, 1 })
--- > table.concat(mesh:get_coordinate(), " ")
---   0 0
--- > ml.distributed.destroy_process_group()
---@return integer[]?
function DeviceMesh:get_coordinate()
  local here = parts[self].coordinate
  return here and table.move(here, 1, #here, 1, {})
end

--- The names of the dimensions, or nil.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 }, { mesh_dim_names = { "dp" } })
--- > mesh:get_dim_names()[1]
---   dp
--- > ml.distributed.destroy_process_group()
---@return string[]?
function DeviceMesh:get_dim_names()
  local names = parts[self].names
  return names and table.move(names, 1, #names, 1, {})
end

-- The part of the mesh along those dimensions in which this rank is.
local function part_along(self, dims)
  local part = part_here(self, "DeviceMesh")
  local key = table.concat(dims, " ")
  if part.below[key] then return part.below[key] end
  local strides, start = strides_of(self.shape), 0
  local shape, names, list, wanted = {}, part.names and {}, {}, {}
  for i, d in ipairs(dims) do
    shape[i], list[i], wanted[d] = self.shape[d], part.groups[d], true
    if names then names[i] = part.names[d] end
  end
  for d = 1, #self.shape do
    if not wanted[d] then start = start + part.coordinate[d] * strides[d] end
  end
  local count, ranks = 1, {}
  for _, size in ipairs(shape) do count = count * size end
  for i = 0, count - 1 do
    local at = start
    for k, c in ipairs(coordinate_at(i, shape)) do at = at + c * strides[dims[k]] end
    ranks[i + 1] = part.ranks[at + 1]
  end
  local out = setmetatable({}, DeviceMesh)
  set_up(out, self.device_type, ranks, shape, names, list)
  part.below[key] = out
  return out
end

function DeviceMesh.__index(self, key)
  local value = DeviceMesh[key]
  if value ~= nil or not parts[self] then return value end
  if type(key) == "string" and key:find "^_" then return nil end
  local dims = {}
  for i, each in ipairs(type(key) == "table" and key or { key }) do
    if type(each) ~= "string" then
      fail("DeviceMesh: a dimension is named by a string, got %s", type(each))
    end
    dims[i] = dimension(self, "DeviceMesh", each)
    if i > 1 and dims[i] <= dims[i - 1] then
      fail("DeviceMesh: '%s' does not stand behind '%s' in the mesh", each, key[i - 1])
    end
  end
  if #dims == 0 then fail "DeviceMesh: at least one dimension must be named" end
  return part_along(self, dims)
end

function DeviceMesh.__newindex(_, key)
  fail("DeviceMesh: '%s' cannot be set: a mesh stays as it is", tostring(key))
end

function DeviceMesh:__tostring()
  local names, words = parts[self].names or {}, {}
  for d, size in ipairs(self.shape) do
    words[d] = names[d] and ("%s %d"):format(names[d], size) or tostring(size)
  end
  return ("DeviceMesh of %s: %s"):format(self.device_type, table.concat(words, ", "))
end

return options.namespace("distributed.device_mesh", meshes)
