-- stdlib/nn/parallel.lua: nn.parallel: one module on several CUDA devices, each with a part of the
-- batch.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local parallel = {}

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

local function device_name(where, device)
  return "cuda:" .. ml._cuda._index(device, where)
end

local function device_names(where, devices)
  local out = {}
  for i, device in ipairs(devices) do out[i] = device_name(where, device) end
  if #out == 0 then fail("%s: at least one device is expected", where) end
  return out
end

-- One value for each of the first devices: parts of tensors, tables of parts, the value itself for
-- what is no tensor.
local function scattered(value, names, dim)
  if ml.is_tensor(value) then return ml.cuda.comm.scatter(value, names, nil, dim) end
  local out = {}
  if is_plain(value) and next(value) ~= nil then
    local count, parts = #names, {}
    for key, item in pairs(value) do
      parts[key] = scattered(item, names, dim)
      count = math.min(count, #parts[key])
    end
    for k = 1, count do
      out[k] = {}
      for key, list in pairs(parts) do out[k][key] = list[k] end
    end
    return out
  end
  for k = 1, #names do out[k] = value end
  return out
end

local read_scatter = signature("nn.parallel.scatter(any inputs, table target_gpus, int dim=1)")

--- Splits tensors into parts for several devices, those inside of tables too. What is no tensor is
--- the same for all. There may be fewer parts than devices.
--- > ml.nn.parallel.scatter(ml.ones(4, 2), { 0 })[1].shape  -- needs cuda
---   (4, 2)
---@param inputs any a tensor, a table of tensors, or any value
---@param target_gpus (integer|string)[] the CUDA devices, or their numbers from 0
---@param dim? integer the dimension to split, from 1
---@return table parts one value for each device
---@shape inputs (n, *) -> parts of about (n / devices, *)
function parallel.scatter(...)
  local inputs, devices, dim = read_scatter(...)
  return scattered(inputs, device_names("nn.parallel.scatter", devices), dim)
end

local function gather_tensors(outputs, target, dim)
  if outputs[1].ndim > 0 then return ml.cuda.comm.gather(outputs, dim, target) end
  ml._warn_once("nn.parallel.gather",
    "nn.parallel.gather: the tensors are scalars; they become the elements of a vector")
  local vectors = {}
  for i, t in ipairs(outputs) do vectors[i] = t:reshape(1) end
  return ml.cuda.comm.gather(vectors, 1, target)
end

local function gathered(outputs, count, target, dim)
  local first = outputs[1]
  if first == nil then return nil end
  for i = 2, count do
    if type(outputs[i]) ~= type(first) or ml.is_tensor(outputs[i]) ~= ml.is_tensor(first) then
      fail("nn.parallel.gather: the output of device %d is %s, that of the first %s", i,
        signature.describe(outputs[i]), signature.describe(first))
    end
  end
  if ml.is_tensor(first) then return gather_tensors(outputs, target, dim) end
  if not is_plain(first) then
    fail("nn.parallel.gather: tensors and tables of tensors are expected, got %s",
      signature.describe(first))
  end
  local out = {}
  for key in pairs(first) do
    local parts = {}
    for i = 1, count do parts[i] = outputs[i][key] end
    out[key] = gathered(parts, count, target, dim)
  end
  for i = 2, count do
    for key in pairs(outputs[i]) do
      if first[key] == nil then
        fail("nn.parallel.gather: '%s' is in the output of device %d and not in that of the first",
          tostring(key), i)
      end
    end
  end
  return out
end

local read_gather = signature("nn.parallel.gather(table outputs, "
  .. "int|string target_device, int dim=1)")

--- Joins the outputs of several devices on one: tensors, and those inside of tables. Scalars become
--- the elements of a vector.
--- > ml.nn.parallel.gather({ ml.ones(1, 2):cuda(), ml.zeros(1, 2):cuda() }, 0).shape  -- needs cuda
---   (2, 2)
---@param outputs table an array with the value of each device
---@param target_device integer|string the device of the result; -1 and "cpu" are the CPU
---@param dim? integer the dimension to join, from 1
---@return any
---@shape outputs (n_i, *) -> (sum of n_i, *)
---@error the outputs differ in kind, or are neither tensors nor tables
function parallel.gather(...)
  local outputs, target, dim = read_gather(...)
  return gathered(outputs, #outputs, target, dim)
end

-- The tensors of a module by kind, each once, and where each is among them.
local function tensors_of(network, kind)
  local list, position = {}, {}
  for _, module in ipairs(network:modules()) do
    module:each_field(function(_, value, of_kind)
      if of_kind == kind and not position[value] then
        list[#list + 1] = value
        position[value] = #list
      end
    end)
  end
  return list, position
end

-- The copies on each device; on the first, parameters are views, so that no replica has leaves.
local function copies_of(tensors, names, recorded)
  if #tensors == 0 then
    local none = {}
    for k = 1, #names do none[k] = {} end
    return none
  end
  local copies = ml.cuda.comm.broadcast_coalesced(tensors, names)
  for i, t in ipairs(recorded and copies[1] or {}) do copies[1][i] = t:view_as(t) end
  return copies
end

-- A copy of a module that shares all but its parameters, buffers and modules.
local function shell(module)
  local out = setmetatable({}, getmetatable(module))
  for key, value in next, module do rawset(out, key, value) end
  local registry = rawget(module, "_registry")
  local own = { order = {}, kind = {}, transient = registry.transient }
  for i, key in ipairs(registry.order) do own.order[i], own.kind[key] = key, registry.kind[key] end
  rawset(out, "_registry", own)
  return out
end

-- What was a parameter is a plain tensor from then on.
local function forget(replica, key)
  local registry = rawget(replica, "_registry")
  registry.kind[key] = nil
  for i, name in ipairs(registry.order) do
    if name == key then table.remove(registry.order, i) break end
  end
end

local function replica_of(network, parameters, buffers, placed)
  local made = {}
  for _, module in ipairs(network:modules()) do made[module] = shell(module) end
  for _, module in ipairs(network:modules()) do
    local copy = made[module]
    module:each_field(function(_, value, kind, key)
      if kind == "module" then
        rawset(copy, key, made[value])
      elseif kind == "buffer" then
        rawset(copy, key, buffers[placed.buffers[value]])
      else
        rawset(copy, key, parameters[placed.parameters[value]])
        forget(copy, key)
      end
    end)
  end
  return made[network]
end

local function replicas_of(network, names, detach)
  local parameters, placed_parameters = tensors_of(network, "parameter")
  local buffers, placed_buffers = tensors_of(network, "buffer")
  local placed = { parameters = placed_parameters, buffers = placed_buffers }
  local recorded = ml.is_grad_enabled() and not detach
  local _ <close> = ml.set_grad_enabled(recorded)
  local parameter_copies = copies_of(parameters, names, true)
  local buffer_copies = ml.no_grad(copies_of, buffers, names, false)
  local out = {}
  for k = 1, #names do
    out[k] = replica_of(network, parameter_copies[k], buffer_copies[k], placed)
  end
  return out
end

local read_replicate = signature("nn.parallel.replicate(Module network, table devices, "
  .. "bool detach=false)")

--- Copies of a module on several devices, the first of which is its own. The copies are recorded,
--- so that gradients go to the parameters of the module; `parameters()` of a copy is therefore
--- empty. Buffers on the first device are those of the module.
--- > #ml.nn.parallel.replicate(ml.nn.Linear(2, 1):cuda(), { 0 })  -- needs cuda
---   1
---@param network table the module
---@param devices (integer|string)[] the devices, or their numbers from 0
---@param detach? boolean whether no gradients go back
---@return table[] replicas
function parallel.replicate(...)
  local network, devices, detach = read_replicate(...)
  return replicas_of(network, device_names("nn.parallel.replicate", devices), detach)
end

-- A tensor among the values, or nil.
local function any_tensor(value)
  if ml.is_tensor(value) then return value end
  if not is_plain(value) then return nil end
  for _, item in pairs(value) do
    local found = any_tensor(item)
    if found then return found end
  end
end

local function pack_call(input, named)
  local out = is_plain(input) and #input > 0 and table.move(input, 1, #input, 1, { n = #input })
    or is_plain(input) and next(input) == nil and { n = 0 } or { n = 1, input }
  out.n = math.max(out.n, is_plain(input) and input.n or 0)
  if named ~= nil and next(named) ~= nil then
    out.n = out.n + 1
    out[out.n] = named
  end
  return out
end

-- The device of a call: the one that is given, or that of a tensor in it.
local function device_of_call(i, devices, call)
  if devices then return devices[i] end
  local tensor = any_tensor(call)
  if not tensor then
    fail("nn.parallel.parallel_apply: input %d has no tensor, so 'devices' must say where it "
      .. "runs", i)
  end
  return tensor.is_cuda and tensor.device or -1
end

-- Calls the modules one after the other; the devices work at the same time. Lists of results.
local function apply_all(modules, calls, devices)
  local out = {}
  for i, module in ipairs(modules) do
    local device = device_of_call(i, devices, calls[i])
    local good, result = xpcall(function()
      local _ <close> = ml.cuda.device(device)
      return table.pack(module(table.unpack(calls[i], 1, calls[i].n)))
    end, function(message)
      if type(message) ~= "string" then return message end
      return ("%s (in replica %d, on %s)"):format(message, i, device == -1 and "cpu" or device)
    end)
    if not good then error(result, 0) end
    out[i] = result
  end
  return out
end

local read_apply = signature("nn.parallel.parallel_apply(table modules, table inputs, "
  .. "table? kwargs_tup=nil, table? devices=nil)")

--- Calls each of several modules with its input, on its device. The calls are made one after the
--- other; the devices work at the same time.
--- > modules = { ml.nn.ReLU(), ml.nn.Tanh() }
--- > ml.nn.parallel.parallel_apply(modules, { ml.tensor { -1.0, 1 }, ml.zeros(2) })
---   {{0., 1.}  Tensor (2,) float32, {0., 0.}  Tensor (2,) float32}
---@param modules table[] the modules
---@param inputs table an array of arguments, or one argument, for each module
---@param kwargs_tup? table[] a table of arguments by name for each module
---@param devices? (integer|string)[] the devices of the calls: those of the inputs unless given
---@return any[] outputs the first result of each
---@error the arrays differ in length
function parallel.parallel_apply(...)
  local modules, inputs, named, devices = read_apply(...)
  local where, calls = "nn.parallel.parallel_apply", {}
  for name, list in pairs { inputs = inputs, kwargs_tup = named, devices = devices } do
    if #list ~= #modules then
      fail("%s: there are %d modules and %d of '%s'", where, #modules, #list, name)
    end
  end
  for i, input in ipairs(inputs) do calls[i] = pack_call(input, named and named[i]) end
  local names = devices and device_names(where, devices)
  local out = {}
  for i, results in ipairs(apply_all(modules, calls, names)) do out[i] = results[1] end
  return out
end

local function check_home(module, home)
  for _, kind in ipairs { "parameter", "buffer" } do
    for _, t in ipairs((tensors_of(module, kind))) do
      if t.device ~= home then
        fail("DataParallel: the module must have its parameters and buffers on %s, the first of "
          .. "'device_ids'; one is on %s", home, t.device)
      end
    end
  end
end

-- All results of a call on the parts of its arguments.
local function run(module, names, output, dim, ...)
  check_home(module, names[1])
  local arguments = table.pack(...)
  local parts = {}
  for i = 1, arguments.n do parts[i] = scattered(arguments[i], names, dim) end
  local count = arguments.n == 0 and 1 or #names
  for i = 1, arguments.n do
    if arguments[i] ~= nil then count = math.min(count, #parts[i]) end
  end
  local calls, used = {}, table.move(names, 1, count, 1, {})
  for k = 1, count do
    calls[k] = { n = arguments.n }
    for i = 1, arguments.n do calls[k][i] = parts[i][k] end
  end
  if #names == 1 then return module(table.unpack(calls[1], 1, arguments.n)) end
  local results = apply_all(replicas_of(module, used, false), calls, used)
  local outputs = {}
  for j = 1, results[1].n do
    local list = {}
    for k = 1, count do list[k] = results[k][j] end
    outputs[j] = gathered(list, count, output, dim)
  end
  return table.unpack(outputs, 1, results[1].n)
end

-- Names of the devices, and where the outputs go.
local function positions(where, device_ids, output_device)
  local ids = device_ids or {}
  for i = 1, device_ids and 0 or ml.cuda.device_count() do ids[i] = i - 1 end
  local names = device_names(where, ids)
  return names, output_device == nil and names[1] or output_device
end

local read_data_parallel = signature("nn.parallel.data_parallel(Module module, any inputs, "
  .. "table? device_ids=nil, int|string? output_device=nil, int dim=1, dict? module_kwargs=nil)")

--- Calls a module on several devices at once, each with a part of the batch: `nn.DataParallel` as a
--- function.
--- > net = ml.nn.Linear(2, 1)
--- > ml.nn.parallel.data_parallel(net:cuda(), ml.ones(4, 2):cuda()).shape  -- needs cuda
---   (4, 1)
---@param module table the module, whose parameters and buffers are on the first device
---@param inputs any an array of arguments, or one argument
---@param device_ids? (integer|string)[] the devices, or their numbers from 0: all unless given
---@param output_device? integer|string the device of the results, the first of these unless given;
---   -1 is the CPU
---@param dim? integer the batch's dimension, from 1
---@param module_kwargs? table arguments of the module by name
---@return any ... the module's results
---@shape inputs (n, *) -> as the module's for the whole batch
function parallel.data_parallel(...)
  local module, inputs, ids, output, dim, named = read_data_parallel(...)
  local names, target = positions("nn.parallel.data_parallel", ids, output)
  local call = pack_call(inputs, named)
  return run(module, names, target, dim, table.unpack(call, 1, call.n))
end

local read_class = signature("nn.DataParallel(Module module, table? device_ids=nil, "
  .. "int|string? output_device=nil, int dim=1)")

--- Module that runs another one on several CUDA devices, each with a part of the batch. In each
--- call the module is copied to the devices, the arguments are split along `dim`, and the results
--- joined. Tensors in tables are split too; what is no tensor goes to all. Gradients add up in the
--- module, whose parameters and buffers are on the first device. Without CUDA the module runs as it
--- is. In state dicts its names begin with "module.".
--- > ml.nn.DataParallel(ml.nn.Linear(2, 3)).dim
---   1
---@param module table the module to run
---@param device_ids? (integer|string)[] the devices, or their numbers from 0: all unless given
---@param output_device? integer|string the device of the results, the first of these unless given;
---   -1 is the CPU
---@param dim? integer the batch's dimension, from 1
---@shape inputs (n, *) -> as the module's for the whole batch
---@field module table The module that it runs.
---@field device_ids string[] The devices; none without CUDA.
---@field dim integer The batch's dimension.
local DataParallel = class("DataParallel", Module)
parallel.DataParallel = DataParallel

function DataParallel:init(...)
  local module, ids, output, dim = read_class(...)
  self.module, self.dim, self.device_ids = module, dim, {}
  if not ml.cuda.is_available() then return end
  self.device_ids, self.output_device = positions("DataParallel", ids, output)
  if #self.device_ids == 1 then module:to(self.device_ids[1]) end
end

--- The module's results for the whole batch.
--- > ml.nn.DataParallel(ml.nn.ReLU()):forward(ml.tensor { -1.0, 1 }):cpu()
---   {0., 1.}
---   Tensor (2,) float32
---@param ... any the module's arguments
---@return any ...
function DataParallel:forward(...)
  if #self.device_ids == 0 then return self.module(...) end
  return run(self.module, self.device_ids, self.output_device, self.dim, ...)
end

return options.namespace("nn.parallel", parallel, options.late {
  ["distributed.data_parallel"] = { "DistributedDataParallel" },
})
