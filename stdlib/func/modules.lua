-- stdlib/func/modules.lua: networks as functions of their parameters.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail
require "moonlet.nn.module"

local modules = {}

-- The module that has the parameter or buffer of that name, and its key there.
local function position_of(net, name)
  local path, last = name:match "^(.*)%.([^.]+)$"
  local owner = path and net:get_submodule(path) or net
  local key = last or name
  local kinds = owner._registry.kind
  if not kinds[key] and tonumber(key) then key = math.tointeger(tonumber(key)) + 1 end
  if kinds[key] ~= "parameter" and kinds[key] ~= "buffer" then
    fail("func.functional_call: the module has no parameter or buffer '%s'", name)
  end
  return owner, key
end

-- The names of the same tensor in several places, by each of them.
local function tied_names(net)
  local by_tensor, tied = {}, {}
  local function note(name, tensor)
    local names = by_tensor[tensor] or {}
    by_tensor[tensor] = names
    names[#names + 1] = name
    tied[name] = names
  end
  for name, tensor in net:named_parameters { remove_duplicate = false } do note(name, tensor) end
  for name, tensor in net:named_buffers { remove_duplicate = false } do note(name, tensor) end
  return tied
end

-- All given tensors by name, also under the other names of tied ones.
local function complete(net, given, tie_weights)
  local out = {}
  for name, tensor in pairs(given) do
    if not ml.is_tensor(tensor) then
      fail("func.functional_call: '%s' must be a tensor, got %s", tostring(name), type(tensor))
    end
    out[name] = tensor
  end
  if not tie_weights then return out end
  local tied = tied_names(net)
  for name, tensor in pairs(given) do
    for _, other in ipairs(tied[name] or {}) do
      if out[other] and given[other] and given[other] ~= tensor then
        fail("func.functional_call: '%s' and '%s' are the same tensor of the module, two are given",
          name, other)
      end
      out[other] = tensor
    end
  end
  return out
end

local read_call = signature([[func.functional_call(Module module, table parameters, any args=nil,
    dict? kwargs=nil, bool tie_weights=true, bool strict=false)]])

--- Calls `module` with other tensors in the place of its parameters and buffers: `parameters` holds
--- them by the names of state dicts, or is an array of such tables. `args` is its argument, or an
--- array of several. What is not given stays the module's own, or with `strict` is an error. The
--- module is as before afterwards, also after an error. As `torch.func.functional_call`.
--- > net = ml.nn.Linear(2, 1)
--- > p = { weight = ml.ones(1, 2), bias = ml.zeros(1) }
--- > return ml.func.functional_call(net, p, ml.ones(2))
---@param module table
---@param parameters table<string, moonlet.Tensor>|table[]
---@param args? any
---@param options? {kwargs?: table, tie_weights?: boolean, strict?: boolean}
---@return any ... its results
function modules.functional_call(...)
  local net, parameters, args, kwargs, tie_weights, strict = read_call(...)
  local given = parameters
  if #parameters > 0 then
    given = {}
    for _, each in ipairs(parameters) do
      for name, tensor in pairs(each) do
        if given[name] then fail("func.functional_call: '%s' is given twice", name) end
        given[name] = tensor
      end
    end
  end
  local all = complete(net, given, tie_weights)
  if strict then
    for name in pairs(tied_names(net)) do
      if not all[name] then fail("func.functional_call: '%s' is not given", name) end
    end
  end
  local before = {}
  local _ <close> = setmetatable({}, { __close = function()
    for _, each in ipairs(before) do rawset(each[1], each[2], each[3]) end
  end })
  for name, tensor in pairs(all) do
    local owner, key = position_of(net, name)
    before[#before + 1] = { owner, key, rawget(owner, key), tensor }
  end
  for _, each in ipairs(before) do rawset(each[1], each[2], each[4]) end
  local arguments = args == nil and {} or args
  if ml.is_tensor(args) or type(args) ~= "table" or getmetatable(args) then arguments = { args } end
  if kwargs then arguments = { table.unpack(arguments), kwargs } end
  local results = table.pack(net(table.unpack(arguments)))
  return table.unpack(results, 1, results.n)
end

local read_stack = signature "func.stack_module_state(any models)"

--- The parameters and buffers of modules of one kind, stacked along a new first dimension: for a
--- `func.vmap` over an ensemble by `func.functional_call`. Returns two tables by name. As
--- `torch.func.stack_module_state`.
--- > parameters, buffers = ml.func.stack_module_state { ml.nn.Linear(2, 1), ml.nn.Linear(2, 1) }
--- > return parameters.weight.shape
---@param models table[] modules
---@return table<string, moonlet.Tensor> parameters leaves that require grad
---@return table<string, moonlet.Tensor> buffers
function modules.stack_module_state(...)
  local models = read_stack(...)
  if type(models) ~= "table" or #models == 0 then
    fail "func.stack_module_state: an array of modules is expected"
  end
  local function stacked(each_name)
    local lists, order = {}, {}
    for i, net in ipairs(models) do
      for name, tensor in each_name(net) do
        if i == 1 then lists[name], order[#order + 1] = {}, name end
        if not lists[name] or #lists[name] ~= i - 1 then
          fail("func.stack_module_state: module %d has '%s', and another has not", i, name)
        end
        lists[name][i] = tensor:detach()
      end
    end
    local out = {}
    for _, name in ipairs(order) do
      if #lists[name] ~= #models then
        fail("func.stack_module_state: '%s' is not in all modules", name)
      end
      out[name] = ml.stack(lists[name], 1)
    end
    return out
  end
  local parameters = stacked(function(net) return net:named_parameters() end)
  for name, tensor in models[1]:named_parameters() do
    parameters[name]:requires_grad_(tensor.requires_grad)
  end
  return parameters, stacked(function(net) return net:named_buffers() end)
end

local read_replace = signature "func.replace_all_batch_norm_modules_(Module root)"

--- Takes the running statistics from all batch norms in `root`, which then normalise by the batch
--- that they get, in `eval` too: inside `func.vmap` they cannot be changed for each sample. Returns
--- `root`. As `torch.func.replace_all_batch_norm_modules_`.
--- > net = ml.nn.Sequential(ml.nn.Conv2d(1, 2, 3), ml.nn.BatchNorm2d(2))
--- > return ml.func.replace_all_batch_norm_modules_(net)[2].track_running_stats
---@param root moonlet.nn.Module
---@return moonlet.nn.Module root
function modules.replace_all_batch_norm_modules_(...)
  local root = read_replace(...)
  local nn = ml.nn
  local kinds = { nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d }
  for _, net in ipairs(root:modules()) do
    for _, kind in ipairs(kinds) do
      if class.is_instance(net, kind) and net.track_running_stats then
        net.running_mean, net.running_var, net.num_batches_tracked = nil, nil, nil
        net.track_running_stats = false
      end
    end
  end
  return root
end

return modules
