-- stdlib/cuda/graphed.lua: make_graphed_callables: functions and modules whose forward and backward
-- passes are replays of graphs, in a script that is otherwise as it was.

local Module = require "moonlet.nn.module"
local graphs = require "moonlet.cuda.graphs"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local WHERE = "cuda.make_graphed_callables"
local graphed = {}

-- --- one function --------------------------------------------------------------------------------

-- What is known of a function: `inputs` are its sample arguments, of which the graphs have copies
-- of their own, and the parameters behind them; `leaves` are those that want a gradient.
local Pass = {}
Pass.__index = Pass

local function new_pass(f, sample)
  local self = setmetatable({ f = f, count = #sample, inputs = {}, leaves = {} }, Pass)
  for i, x in ipairs(sample) do
    if not ml.is_tensor(x) or not x.is_cuda then
      options.fail("%s: sample argument %d must be a tensor on a CUDA device", WHERE, i)
    end
    self.inputs[i] = x:detach():clone():requires_grad_(x.requires_grad)
  end
  if Module.is_module(f) then
    self.f = function(...) return f:forward(...) end
    for _, p in ipairs(f:parameters()) do self.inputs[#self.inputs + 1] = p end
  end
  for _, x in ipairs(self.inputs) do
    if x.requires_grad then self.leaves[#self.leaves + 1] = x end
  end
  return self
end

-- The results, and those that are differentiable.
function Pass:run()
  local results, recorded = table.pack(self.f(table.unpack(self.inputs, 1, self.count))), {}
  for i = 1, results.n do
    if not ml.is_tensor(results[i]) then
      options.fail("%s: result %d is no tensor but %s", WHERE, i, type(results[i]))
    end
    if results[i].requires_grad then recorded[#recorded + 1] = results[i] end
  end
  return results, recorded
end

function Pass:gradients(recorded, cotangents)
  return ml.grad(recorded, self.leaves, { grad_outputs = cotangents,
    allow_unused = self.allow_unused })
end

-- What the first runs make (handles, plans, choices of algorithms) is then there.
function Pass:warm_up(times)
  for _ = 1, times do
    local _, recorded = self:run()
    if #recorded > 0 and #self.leaves > 0 then
      local ones = {}
      for i, y in ipairs(recorded) do ones[i] = ml.ones_like(y) end
      self:gradients(recorded, ones)
    end
  end
end

function Pass:capture_forward(pool)
  self.forward, self.results, self.recorded = graphs.graph(function() return self:run() end, pool)
end

function Pass:capture_backward(pool)
  if #self.recorded == 0 or #self.leaves == 0 then return end
  self.cotangents = {}
  for i, y in ipairs(self.recorded) do self.cotangents[i] = ml.empty_like(y) end
  self.backward, self.found = graphs.graph(function()
    return table.pack(self:gradients(self.recorded, self.cotangents))
  end, pool)
end

-- --- calls ---------------------------------------------------------------------------------------

function Pass:check(args)
  if args.n ~= self.count then
    options.fail("graphed callable: %d arguments are expected, as in the sample, got %d",
      self.count, args.n)
  end
  for i = 1, self.count do
    local x, sample = args[i], self.inputs[i]
    if not ml.is_tensor(x) then
      options.fail("graphed callable: argument %d must be a tensor, got %s", i, type(x))
    end
    if x.shape ~= sample.shape or x.dtype ~= sample.dtype or x.device ~= sample.device then
      options.fail("graphed callable: argument %d is %s of %s on %s, the sample was %s of %s on %s",
        i, x.shape, x.dtype, x.device, sample.shape, sample.dtype, sample.device)
    end
    if x.requires_grad and not sample.requires_grad then
      options.fail("graphed callable: argument %d requires grad, which the sample did not", i)
    end
  end
end

-- The differentiable function that replays.
function Pass:as_function()
  return ml.autograd.Function {
    name = "Graphed",
    forward = function(ctx, ...)
      local args = { ... }
      for i = 1, self.count do self.inputs[i]:copy_(args[i]) end
      self.forward:replay()
      local out = {}
      for i = 1, self.results.n do out[i] = self.results[i]:detach() end
      local constant = {}
      for i = 1, self.results.n do
        if not self.results[i].requires_grad then constant[#constant + 1] = out[i] end
      end
      if #constant > 0 then ctx:mark_non_differentiable(table.unpack(constant)) end
      return table.unpack(out, 1, self.results.n)
    end,
    backward = ml.autograd.once_differentiable(function(_, ...)
      local given, k = { ... }, 0
      for i = 1, self.results.n do
        if self.results[i].requires_grad then
          k = k + 1
          if given[i] then self.cotangents[k]:copy_(given[i]) else self.cotangents[k]:zero_() end
        end
      end
      self.backward:replay()
      -- Copies: the next replay writes there, and a gradient may be kept as it is.
      local out, position = {}, 0
      for i, x in ipairs(self.inputs) do
        if x.requires_grad then
          position = position + 1
          out[i] = self.found[position] and self.found[position]:clone()
        end
      end
      return table.unpack(out, 1, #self.inputs)
    end),
  }
end

local function replaying(pass)
  local call = pass:as_function()
  return function(...)
    local args = table.pack(...)
    pass:check(args)
    return call(table.unpack(table.move(pass.inputs, pass.count + 1, #pass.inputs, pass.count + 1,
      args), 1, #pass.inputs))
  end
end

-- A module stays what it is, with another forward while it is in the mode of the capture.
local function install(net, run)
  local training, eager = net.training, net.forward
  net.forward = function(self, ...)
    if self.training == training then return run(...) end
    return eager(self, ...)
  end
  return net
end

-- --- the public function -------------------------------------------------------------------------

local read = signature("cuda.make_graphed_callables(any callables, any[] sample_args, "
  .. "int>=1 num_warmup_iters=3, bool allow_unused_input=false, int>=1? pool=nil)")

--- Functions, or modules, whose forward pass is recorded as one CUDA graph and whose backward pass
--- is another. A call replays them, within a script that cannot be recorded as a whole. Each call
--- takes tensors of the shapes, dtypes and devices of the samples; its results are overwritten by
--- the next one, and cannot be differentiated twice. A module is returned itself: its `forward`
--- replays while `training` is what it was, and its parameters get gradients, but hooks of modules
--- inside it are not called.
--- > x = ml.ones(2, { device = "cuda", requires_grad = true })  -- needs cuda
--- > f = ml.cuda.make_graphed_callables(function(x) return x * 2 end, { x })
--- > f(x):tolist()
---   {2.0, 2.0}
---@param callables function|Module|table a function or module, or an array of them, which are
---   called in that order later
---@param sample_args table an array of sample arguments, tensors of a CUDA device, or an array
---   of such arrays
---@param num_warmup_iters? integer number of runs before the recording
---@param allow_unused_input? boolean whether arguments or parameters may get no gradient
---@param pool? integer the memory to use: `g:pool()` of a graph, or `graph_pool_handle()`
---@return function|Module|table one, or an array
function graphed.make_graphed_callables(...)
  local callables, samples, times, allow_unused, pool = read(...)
  local single = options.is_callable(callables)
  if single then callables, samples = { callables }, { samples } end
  if type(callables) ~= "table" or #callables == 0 or #callables ~= #samples then
    options.fail("%s: 'callables' must be a function, a module, or an array of them with as many "
      .. "arrays in 'sample_args'", WHERE)
  end
  pool = pool or graphs.graph_pool_handle()
  local passes, out = {}, {}
  for i, f in ipairs(callables) do
    if not options.is_callable(f) or type(samples[i]) ~= "table" then
      options.fail("%s: callable %d must be a function or a module, with an array of tensors",
        WHERE, i)
    end
    passes[i] = new_pass(f, samples[i])
    passes[i].allow_unused = allow_unused
  end
  local _ <close> = ml.enable_grad()
  for _, pass in ipairs(passes) do pass:warm_up(times) end
  ml.cuda.synchronize()
  for _, pass in ipairs(passes) do pass:capture_forward(pool) end
  for i = #passes, 1, -1 do passes[i]:capture_backward(pool) end
  for i, pass in ipairs(passes) do
    local run = replaying(pass)
    out[i] = Module.is_module(callables[i]) and install(callables[i], run) or run
  end
  return single and out[1] or out
end

return graphed
