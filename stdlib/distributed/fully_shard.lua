-- stdlib/distributed/fully_shard.lua: ml.distributed.fully_shard: modules whose parameters, with
-- their gradients and the states of their optimisers, are sharded over the ranks. What one
-- module does is in shard_group.lua; here is when it does it, around forward and backward.

local ShardGroup = require "moonlet.distributed.shard_group"
local class = require "moonlet.class"
local ml = require "moonlet"
local norms = require "moonlet.distributed.norms"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local passes = require "moonlet.distributed.passes"
local shards = require "moonlet.distributed.shards"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"

require "moonlet.distributed.device_mesh"  -- for the type DeviceMesh

local fail = options.fail

local sharding = {}

-- What fully_shard knows of each module.
local parts = setmetatable({}, { __mode = "k" })
-- Parameters that shards have taken the fields of, by the name of the module.
local taken = setmetatable({}, { __mode = "k" })

-- What modules get of FSDPModule.
local METHODS = { "unshard", "reshard", "set_requires_gradient_sync", "set_reshard_after_forward",
  "set_gradient_divide_factor" }

-- --- the policy ---------------------------------------------------------------------------------

local read_policy = signature('MixedPrecisionPolicy(string? param_dtype=nil, '
  .. 'string? reduce_dtype=nil, string? output_dtype=nil, bool cast_forward_inputs=true)')

--- In which dtypes a module that `fully_shard` has sharded computes. Its shards, and the states
--- of optimisers, stay in their own.
--- > ml.distributed.MixedPrecisionPolicy({ param_dtype = ml.bfloat16 }).param_dtype
---   bfloat16
---@param param_dtype? string of the gathered parameters, and so of what is computed
---@param reduce_dtype? string in which gradients are added up; that of the parameters unless given
---@param output_dtype? string of the module's results; as they come unless given
---@param cast_forward_inputs? boolean whether floating arguments are made `param_dtype`
---@field param_dtype string? Of the gathered parameters.
---@field reduce_dtype string? In which gradients are added up.
---@field output_dtype string? Of the results.
---@field cast_forward_inputs boolean Whether arguments are cast.
local MixedPrecisionPolicy = class "MixedPrecisionPolicy"
sharding.MixedPrecisionPolicy = MixedPrecisionPolicy

function MixedPrecisionPolicy:init(...)
  self.param_dtype, self.reduce_dtype, self.output_dtype, self.cast_forward_inputs =
    read_policy(...)
  for _, name in ipairs { "param_dtype", "reduce_dtype", "output_dtype" } do
    local dtype = self[name]
    local known, x = pcall(ml.empty, 0, { dtype = dtype })
    if dtype and not (known and x:is_floating_point()) then
      fail("MixedPrecisionPolicy: '%s' must be a floating dtype, got %s", name, dtype)
    end
  end
end

signature.add_type("MixedPrecisionPolicy", "a MixedPrecisionPolicy", function(value)
  return class.is_instance(value, MixedPrecisionPolicy) and value or nil
end)

-- Floating tensors of a value, also those in plain tables, in that dtype.
local function cast(value, dtype)
  if ml.is_tensor(value) then
    return value:is_floating_point() and value:to { dtype = dtype } or value
  elseif type(value) ~= "table" or getmetatable(value) ~= nil then
    return value
  end
  local out = {}
  for key, item in pairs(value) do out[key] = cast(item, dtype) end
  return out
end

local function cast_all(values, dtype)
  if not dtype then return values end
  local out = { n = values.n }
  for i = 1, values.n do out[i] = cast(values[i], dtype) end
  return out
end

-- --- around forward -----------------------------------------------------------------------------

local function hook_outputs(value, f)
  if ml.is_tensor(value) then
    if value.requires_grad and not value.is_leaf then value:register_hook(function() f() end) end
  elseif type(value) == "table" and getmetatable(value) == nil then
    for _, item in pairs(value) do hook_outputs(item, f) end
  end
end

local function before(module, ...)
  local part = parts[module]
  part.depth = part.depth + 1
  if part.depth > 1 then return end
  local inputs = table.pack(...)
  local policy = part.policy
  if policy.cast_forward_inputs then inputs = cast_all(inputs, policy.param_dtype) end
  passes.enter(part, inputs)
  return table.unpack(inputs, 1, inputs.n)
end

local function after(module, _, ...)
  local part = parts[module]
  if part.depth == 0 then return end  -- another hook has failed before this module began
  part.depth = part.depth - 1
  if part.depth > 0 then return end
  local outputs = cast_all(table.pack(...), part.policy.output_dtype)
  passes.leave(part, function(begin)
    for i = 1, outputs.n do hook_outputs(outputs[i], begin) end
  end)
  return table.unpack(outputs, 1, outputs.n)
end

-- --- making -------------------------------------------------------------------------------------

-- The parameters of a module and of those below it that are not sharded by themselves: each
-- once, with all its owners.
local function entries_of(module)
  local entries, by_tensor, seen = {}, {}, {}
  local function visit(owner, prefix)
    if seen[owner] or owner ~= module and parts[owner] then return end
    seen[owner] = true
    owner:each_field(function(name, value, kind, key)
      if kind == "module" then return visit(value, prefix .. name .. ".") end
      if kind ~= "parameter" then return end
      local entry = by_tensor[value]
      if not entry then
        entry = { name = prefix .. name, tensor = value, owners = {} }
        by_tensor[value], entries[#entries + 1] = entry, entry
      end
      table.insert(entry.owners, { owner, key })
    end)
  end
  visit(module, "")
  return entries
end

local function check_entries(entries, module, group)
  for _, entry in ipairs(entries) do
    local p = entry.tensor
    if parameter.is_uninitialized(p) then
      fail("fully_shard: the parameter '%s' has no shape yet; run the module once before",
        entry.name)
    elseif p:dim() == 0 then
      fail("fully_shard: the parameter '%s' has no dimension to be sharded along; give it the "
        .. "shape (1)", entry.name)
    elseif taken[p] then
      fail("fully_shard: the parameter '%s' is also one of '%s', which has been sharded by "
        .. "itself; shard the module that holds both instead", entry.name, taken[p])
    elseif shards.of(p) and (shards.of(p).outer or shards.of(p).group == group) then
      fail("fully_shard: the parameter '%s' of %s is a shard already", entry.name,
        module:describe())
    end
  end
end

-- All ranks must shard the same parameters.
local function check_ranks(entries, group)
  local lines, all = {}, {}
  for i, entry in ipairs(entries) do
    local p = entry.tensor
    lines[i] = ("%s: %s (%s)%s"):format(entry.name, p.dtype, table.concat(p.shape, ", "),
      p.requires_grad and "" or ", fixed")
  end
  objects.all_gather_object(all, lines, { group = group })
  for r, other in ipairs(all) do
    for i = 1, math.max(#lines, #other) do
      if lines[i] ~= other[i] then
        fail("fully_shard: the module is another one on rank %d: it has %s, here it is %s",
          group.ranks[r], other[i] or "nothing more", lines[i] or "at its end")
      end
    end
  end
end

local function group_of(mesh, group)
  if mesh == nil then return state.group_of("fully_shard", group) end
  if group then fail "fully_shard: 'mesh' and 'group' both say which ranks; give one" end
  if mesh.ndim ~= 1 then
    fail("fully_shard: 'mesh' must have one dimension, got %d; take one of them, mesh[name]",
      mesh.ndim)
  end
  return state.group_of("fully_shard", mesh:get_group())
end

local function make_group(module, entries, part)
  part.group = ShardGroup(entries, { name = module:describe(), group = part.ranks,
    policy = part.policy })
  for _, entry in ipairs(entries) do taken[entry.tensor] = module:describe() end
  for _, item in ipairs(part.group.items) do
    norms.add(item.shard, part.ranks, item.spec.outer and item.spec.outer.group)
  end
end

local function add_hooks(module, part)
  module:register_forward_pre_hook(before, { prepend = true })
  module:register_forward_hook(after, { always_call = true })
  local function reshard()
    if part.group and part.depth == 0 then part.group:reshard() end
  end
  module:register_state_dict_pre_hook(reshard)
  module:register_load_state_dict_pre_hook(reshard)
  module:register_state_dict_post_hook(function(_, destination, prefix)
    local above = prefix:gsub("%.$", "")
    for name, value in module:named_parameters(above, { remove_duplicate = false }) do
      local spec = shards.of(value)
      if spec and ml.is_tensor(destination[name]) then shards.note(destination[name], spec) end
    end
  end)
end

local read_shard = signature('fully_shard(Module module, DeviceMesh? mesh=nil, Group? group=nil, '
  .. 'bool? reshard_after_forward=nil, MixedPrecisionPolicy? mp_policy=nil)')

--- Shares the parameters of a module out over the ranks: each has a part of every parameter, of its
--- gradient, and so of the states of an optimiser that is made afterwards. The whole parameters are
--- there while the module runs: they are gathered before its forward (those of the module that
--- comes next meanwhile), given back, gathered again when backward comes to it; then gradients are
--- averaged over the ranks and each gets its part of them. Call it for blocks of a model first and
--- for the model last: those of a block are gathered together, and the model takes what is left.
--- Each rank gives its part of the data, and must begin with the same parameters. The module gets
--- the methods of `FSDPModule`, and parts along the first dimension as its parameters. With one
--- rank they stay whole.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.Linear(3, 1))
--- > for _, block in ipairs(net) do ml.distributed.fully_shard(block) end
--- > ml.distributed.fully_shard(net) == net
---   true
--- > ml.distributed.destroy_process_group()
---@param module table the module, which is changed
---@param mesh? table a mesh of one dimension, whose ranks share; all ranks unless given
---@param group? table the same as a group
---@param reshard_after_forward? boolean whether the whole parameters are given back between forward
---   and backward; unless given, all but those of the outermost module are
---@param mp_policy? table a `MixedPrecisionPolicy`: the dtypes that it computes in
---@return table module
---@error modules that differ by rank, parameters without dimensions or shared with another module
---@source Zhao et al., 2023: PyTorch FSDP, experiences on scaling fully sharded data parallel
---@see distributed.FSDPModule
function sharding.fully_shard(...)
  local module, mesh, group, reshards, policy = read_shard(...)
  group = group_of(mesh, group)
  if parts[module] then
    fail("fully_shard: the parameters of %s have been sharded already", module:describe())
  end
  policy = policy or MixedPrecisionPolicy()
  local entries = entries_of(module)
  check_entries(entries, module, group)
  local part = { policy = policy, ranks = group, reshards = reshards, depth = 0, module = module }
  if group.size > 1 then check_ranks(entries, group) end
  parts[module] = part
  local plain = group.size == 1 and not policy.param_dtype
  if not plain and #entries > 0 then make_group(module, entries, part) end
  if not plain or policy.output_dtype then add_hooks(module, part) end
  passes.added(part, parts)
  for _, name in ipairs(METHODS) do rawset(module, name, sharding.FSDPModule[name]) end
  return module
end

-- --- methods ------------------------------------------------------------------------------------

--- What modules can do that `fully_shard` has sharded, beside what they could before.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:unshard()
--- > net.weight.shape
---   (1, 2)
--- > net:reshard()
--- > ml.distributed.destroy_process_group()
---@see distributed.fully_shard
local FSDPModule = class "FSDPModule"
sharding.FSDPModule = FSDPModule

function FSDPModule:init() fail "FSDPModule: fully_shard gives modules its methods" end

local function part_of(module, method)
  return parts[module] or fail("%s: a module that fully_shard has sharded is expected, got %s",
    method, signature.describe(module))
end

-- A gather that goes on.
local Handle = {}
Handle.__index = Handle
Handle.__name = "UnshardHandle"

function Handle:wait()
  local group = self.group
  self.group = nil
  if group then group:unshard() end
end

local read_unshard = signature "FSDPModule:unshard(bool async_op=false)"

--- Gathers the whole parameters of this module, without those of modules below that are sharded
--- by themselves; they stay until its next forward or backward is done, or `reshard`. Changes made
--- to them are lost. All ranks must call it.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:unshard({ async_op = true }):wait()
--- > ml.distributed.destroy_process_group()
---@param async_op? boolean whether a handle is returned at once, whose `wait` puts them in place
---@return table? handle with `async_op`
function FSDPModule:unshard(...)
  local async = read_unshard(...)
  local group = part_of(self, "unshard").group
  if group then
    group.held = true
    group:prefetch()
  end
  local handle = setmetatable({ group = group }, Handle)
  if async then return handle end
  handle:wait()
end

--- Gives the whole parameters of this module back, and has its shards in their place.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:reshard()
--- > ml.distributed.destroy_process_group()
function FSDPModule:reshard()
  local group = part_of(self, "reshard").group
  if group then group:reshard() end
end

-- The parts of a module and, with `recurse`, of those below it.
local function each_part(module, method, recurse, f)
  f(part_of(module, method))
  for _, below in ipairs(recurse and module:modules() or {}) do
    if below ~= module and parts[below] then f(parts[below]) end
  end
end

local read_sync = signature('FSDPModule:set_requires_gradient_sync(bool requires_gradient_sync, '
  .. 'bool recurse=true)')

--- Whether backward adds gradients up over the ranks. While it does not, they add up on each rank
--- as those of whole parameters, and the next backward that does sends the sums: to accumulate
--- gradients over several batches.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:set_requires_gradient_sync(false)
--- > ml.distributed.destroy_process_group()
---@param requires_gradient_sync boolean whether it does
---@param recurse? boolean whether modules below are told, too
function FSDPModule:set_requires_gradient_sync(...)
  local syncs, recurse = read_sync(...)
  each_part(self, "set_requires_gradient_sync", recurse, function(part)
    if part.group then part.group.syncs = syncs end
  end)
end

local read_reshard = signature('FSDPModule:set_reshard_after_forward(bool reshard_after_forward, '
  .. 'bool recurse=true)')

--- Whether the whole parameters are given back between forward and backward.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:set_reshard_after_forward(true)
--- > ml.distributed.destroy_process_group()
---@param reshard_after_forward boolean whether they are
---@param recurse? boolean whether modules below are told, too
function FSDPModule:set_reshard_after_forward(...)
  local reshards, recurse = read_reshard(...)
  each_part(self, "set_reshard_after_forward", recurse,
    function(part) part.reshards = reshards end)
end

local read_factor = signature "FSDPModule:set_gradient_divide_factor(number>0 factor)"

--- By what the sums of gradients over the ranks are divided: their number unless this is called.
--- > ml.distributed.init_process_group()
--- > net = ml.distributed.fully_shard(ml.nn.Linear(2, 1))
--- > net:set_gradient_divide_factor(1)
--- > ml.distributed.destroy_process_group()
---@param factor number the divisor
function FSDPModule:set_gradient_divide_factor(...)
  local factor = read_factor(...)
  local part = part_of(self, "set_gradient_divide_factor")
  if part.group then part.group.divisor = factor end
end

return options.namespace("distributed.fully_shard", sharding)
