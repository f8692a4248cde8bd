-- stdlib/autograd/graph.lua: ml.autograd.graph: the graph that the tape records: its nodes and
-- edges, hooks of several tensors, and how tensors are saved for gradients.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"
local memory = require "moonlet.autograd.saved"
local picture = require "moonlet.autograd.picture"

local graph = {}
for name, f in pairs(memory) do graph[name] = f end
for name, f in pairs(picture) do graph[name] = f end

local Edge = {}

function Edge.__eq(a, b)
  return rawequal(getmetatable(a), getmetatable(b)) and a.node == b.node
    and a.output_nr == b.output_nr
end

function Edge:__tostring() return ("edge to %s, output %d"):format(self.node, self.output_nr) end
Edge.__metatable = "GradientEdge"

local read_edge = signature("graph.get_gradient_edge(Tensor tensor)", "get_gradient_edge")

--- The edge of a tensor in the graph, without the tensor: `{ node =, output_nr = }`, outputs
--- counted from 1. The node of a leaf is its "AccumulateGrad". `ml.grad`, `ml.autograd.backward`
--- and `backward` take edges in place of tensors, so that the data need not be kept for them.
--- > w = ml.ones(2, { requires_grad = true })
--- > ml.autograd.graph.get_gradient_edge(w * 2)
---   edge to MulBackward, output 1
---@param tensor moonlet.Tensor a tensor that requires grad
---@return {node: moonlet.Node, output_nr: integer}
---@shape tensor (*)
function graph.get_gradient_edge(...)
  local node, output = ml._gradient_edge((read_edge(...)))
  return setmetatable({ node = node, output_nr = output }, Edge)
end

local read_increment = signature("graph.increment_version(Tensor|Tensor[] tensors)",
  "increment_version")

--- Counts an in-place change that the tape could not see, as of memory shared with other programs:
--- a backward that needs the old values is then an error.
--- > x = ml.ones(2)
--- > ml.autograd.graph.increment_version(x)
--- > x._version
---   2
---@param tensors moonlet.Tensor|moonlet.Tensor[] the tensors that were changed
---@shape tensors (*)
---@see Tensor._version
function graph.increment_version(...)
  local tensors = read_increment(...)
  if ml.is_tensor(tensors) then tensors = { tensors } end
  for _, t in ipairs(tensors) do ml._increment_version(t) end
end

-- Collects the gradients of one backward, and gives them when all that it computes are there. The
-- tensors are held weakly: their hooks keep those that a backward may still reach.
local function collect_all(tensors, f)
  local weak = setmetatable(table.move(tensors, 1, #tensors, 1, {}), { __mode = "v" })
  local count, backward, missing, gradients = #tensors, nil, 0, nil
  return function(i, g)
    local running = ml._running_backward()
    if backward ~= running then
      backward, missing, gradients = running, 0, { n = count }
      for k = 1, count do
        if weak[k] and ml._is_computed_now(weak[k]) then missing = missing + 1 end
      end
    end
    gradients[i] = g
    missing = missing - 1
    if missing == 0 then
      local whole = gradients
      backward, gradients = nil, nil
      f(whole)
    end
  end
end

local function first_of(f)
  local last
  return function(_, g)
    local running = ml._running_backward()
    if last == running then return end
    last = running
    f(g)
  end
end

signature.add_choice("HookMode", { "all", "any" })
local read_multi = signature("graph.register_multi_grad_hook(Tensor[] tensors, function hook, "
  .. "HookMode mode=\"all\")", "register_multi_grad_hook")

--- Registers a hook that is called once in each backward. With `mode` "all" it is called when the
--- gradients of all tensors that this backward computes are there, with an array of them that has
--- nil for the others and its length in `n`; with "any" with the first one. What it returns is
--- ignored. `handle.remove()` removes it.
--- > a, b = ml.ones(2, { requires_grad = true }), ml.ones(2, { requires_grad = true })
--- > hook = function(grads) print(grads[2]) end
--- > handle = ml.autograd.graph.register_multi_grad_hook({ a, b }, hook)
--- > (a * b * 3):sum():backward()
---   {3., 3.}
---   Tensor (2,) float32
---@param tensors moonlet.Tensor[] tensors that require grad
---@param hook fun(gradients: table) gets the gradients
---@param options? {mode?: "all"|"any"}
---@param options.mode? "all"|"any" "all" (unless given) or "any"
---@return {remove: fun()} handle
---@shape tensors (*), gradients (*)
---@see Tensor.register_hook
function graph.register_multi_grad_hook(...)
  local tensors, hook, mode = read_multi(...)
  if #tensors == 0 then fail "register_multi_grad_hook: a tensor is expected, got none" end
  for i, t in ipairs(tensors) do
    if not t.requires_grad then
      fail("register_multi_grad_hook: tensor %d does not require grad", i)
    end
  end
  local note = mode == "all" and collect_all(tensors, hook) or first_of(hook)
  local handles = {}
  for i, t in ipairs(tensors) do
    handles[i] = t:register_hook(function(g) note(i, g) end)
  end
  return ml._handle(function()
    for _, handle in ipairs(handles) do handle.remove() end
  end)
end

return namespace("autograd.graph", graph)
