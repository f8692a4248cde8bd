-- stdlib/distributed/tensor/parallelize.lua: shards the layers of a module over the ranks of a
-- group, by a plan.

local class = require "moonlet.class"
local options = require "moonlet.options"
local parts = require "moonlet.distributed.tensor.parts"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local streams = require "moonlet.distributed.tensor.streams"
local styles = require "moonlet.distributed.tensor.styles"
require "moonlet.distributed.device_mesh"  -- for the type DeviceMesh
local fail = options.fail

local parallelize = {}

-- Whether the name of a module is one that a plan has, in which "*" stands for one part of it.
local function fits(name, pattern)
  local lua = pattern:gsub("[%p]", "%%%0"):gsub("%%%*", "[^.]*")
  return name:find("^" .. lua .. "$") ~= nil
end

-- { name, module, style } in the order of the modules, which is the same on all ranks.
local function matches(module, plan)
  if class.is_instance(plan, styles._ParallelStyle) then return { { "", module, plan } } end
  local out, used, names = {}, {}, {}
  for name in pairs(plan) do
    if type(name) ~= "string" then
      fail("parallelize_module: 'parallelize_plan' has styles by names of modules, got the key %s",
        signature.describe(name))
    elseif not class.is_instance(plan[name], styles._ParallelStyle) then
      fail("parallelize_module: the plan for '%s' must be a style, got %s", name,
        signature.describe(plan[name]))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for name, each in module:named_modules() do
    for _, pattern in ipairs(names) do
      if fits(name, pattern) then
        out[#out + 1], used[pattern] = { name, each, plan[pattern] }, true
      end
    end
  end
  for _, name in ipairs(names) do
    if not used[name] then
      local known = {}
      for each in module:named_modules() do known[#known + 1] = each end
      fail("parallelize_module: there is no module '%s'%s", name,
        options.did_you_mean(name, known))
    end
  end
  return out
end

-- Who has each parameter, as names.
local function owners_of(module)
  local out = {}
  for name, each in module:named_modules() do
    each:each_field(function(field, value, kind)
      if kind == "parameter" then
        out[value] = out[value] or {}
        table.insert(out[value], name == "" and field or name .. "." .. field)
      end
    end)
  end
  return out
end

-- A parameter that is sharded in one module must not be whole in another.
local function check_shared(before, module, context)
  local after = owners_of(module)
  for whole, known in pairs(context.sharded) do
    local names = before[whole]
    table.sort(names)
    if #names > #(after[known.tensor] or {}) then
      fail("parallelize_module: '%s' share a parameter, and the plan parts it only for some of "
        .. "them", table.concat(names, "' and '"))
    end
  end
end

-- What is not sharded must be the same on all ranks.
local function share_rest(module, group, source)
  local rest = {}
  for _, each in ipairs(module:modules()) do
    each:each_field(function(_, value, kind, key)
      if kind ~= "module" and not parts.placement(each, key) then rest[#rest + 1] = value end
    end)
  end
  parts.share(rest, group, source)
end

local function check_device(module, mesh)
  for name, p in module:named_parameters() do
    local there = p.device:match "^[^:]*"
    if there ~= mesh.device_type then
      fail("parallelize_module: '%s' is on %s, the mesh is of %s", name, p.device, mesh.device_type)
    end
  end
end

local read = signature('distributed.tensor.parallel.parallelize_module(Module module, '
  .. 'DeviceMesh device_mesh, ParallelStyle|dict parallelize_plan, int>=0|bool src_data_rank=0)')

--- Shares the work of layers out over the ranks of a mesh of one dimension: each keeps its part of
--- their parameters, and what the layers compute is what one process would, to rounding. All ranks
--- must compute the same otherwise: inputs, losses and random numbers are the same on each, which
--- all then draw from the generator of the first rank. Optimisers are made afterwards.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 6), ml.nn.ReLU(), ml.nn.Linear(6, 4))
--- > net = tp.parallelize_module(net, mesh, { ["0"] = tp.ColwiseParallel(),
---     ["2"] = tp.RowwiseParallel() })
--- > net(ml.ones(2, 4)).shape
---   (2, 4)
--- > ml.distributed.destroy_process_group()
---@param module table the module, which is changed
---@param device_mesh table the ranks that share it: a mesh of one dimension, such as `mesh.tp`
---@param parallelize_plan table a style for the module, or one for each of the modules below by
---   name, such as `{ ["blocks.*.linear1"] = tp.ColwiseParallel() }`, where `*` stands for any one
---   part of a name
---@param src_data_rank? integer|boolean the position in the mesh, from 0, of the rank whose
---   parameters, buffers and generator all get; false for no message: then they must be the same
---@return table module
---@error a mesh of several dimensions, a name that no module has, a style that does not fit
---@source Shoeybi et al., 2019: Megatron-LM, training multi-billion parameter language models
function parallelize.parallelize_module(...)
  local module, mesh, plan, source = read(...)
  if mesh.ndim ~= 1 then
    fail("parallelize_module: 'device_mesh' must have one dimension, got %s; mesh.NAME is one of "
      .. "several", tostring(mesh))
  elseif source == true then
    fail "parallelize_module: 'src_data_rank' must be a position in the mesh or false, got true"
  end
  local group = state.group_of("parallelize_module", mesh:get_group())
  if source and source >= group.size then
    fail("parallelize_module: 'src_data_rank' must be from 0 to %d, got %d", group.size - 1, source)
  end
  local list = matches(module, plan)
  check_device(module, mesh)
  local context = { sharded = {}, source = source and group.ranks[source + 1] }
  local before = owners_of(module)
  for _, each in ipairs(list) do
    context.name = each[1] == "" and class.name(class.of(module)) or each[1]
    each[3]:apply(each[2], group, context)
  end
  check_shared(before, module, context)
  if context.source then
    share_rest(module, group, context.source)
    streams.share(group, context.source)
  end
  return module
end

return options.namespace("distributed.tensor.parallelize", parallelize)
