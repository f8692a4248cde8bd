-- stdlib/autograd/picture.lua: the graph of a tensor as text: a tree for the terminal, and in
-- Graphviz's language.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local signature = require "moonlet.signature"

local picture = {}

-- The node behind a tensor, an edge or a node.
local function node_of(where, value)
  if ml.is_tensor(value) then
    if not value.requires_grad then fail("%s: the tensor does not require grad", where) end
    return (ml._gradient_edge(value))
  end
  if type(value) == "table" and value.node then return value.node end
  if getmetatable(value) == "Node" then return value end
  fail("%s: a tensor, a node or an edge is expected, got %s", where, signature.describe(value))
end

local function label(node)
  local leaf = node.variable
  return leaf and ("%s %s %s"):format(node.name, leaf.shape, leaf.dtype) or node.name
end

-- The nodes that several edges lead to, as keys.
local function shared_nodes(root)
  local seen, shared, queue = { [root] = true }, {}, { root }
  while #queue > 0 do
    local node = table.remove(queue)
    for _, edge in ipairs(node.next_functions) do
      local to = edge[1]
      if to and seen[to] then
        shared[to] = true
      elseif to then
        seen[to] = true
        queue[#queue + 1] = to
      end
    end
  end
  return shared
end

local function add_node(lines, node, state, first, rest, depth)
  local number = state.numbers[node]
  local text = first .. label(node)
  if number then
    lines[#lines + 1] = ("%s #%d, as above"):format(text, number)
    return
  end
  if state.shared[node] then
    state.count = state.count + 1
    state.numbers[node] = state.count
    text = ("%s #%d"):format(text, state.count)
  end
  lines[#lines + 1] = text
  local children = {}
  for _, edge in ipairs(node.next_functions) do
    if edge[1] then children[#children + 1] = edge[1] end
  end
  if depth == 0 then
    if #children > 0 then lines[#lines + 1] = rest .. "└─ ..." end
    return
  end
  for i, child in ipairs(children) do
    local last = i == #children
    add_node(lines, child, state, rest .. (last and "└─ " or "├─ "),
      rest .. (last and "   " or "│  "), depth - 1)
  end
end

local read_tree = signature("graph.tree(any y, int>=0 depth=32)", "tree")

--- The graph behind a tensor as text, a node on each line and below it those it passes gradients
--- to. A node that several others lead to has a number and is shown in full once.
--- > w = ml.ones(2, { requires_grad = true })
--- > print(ml.autograd.graph.tree((w * w):sum()))
---   SumBackward
---   └─ MulBackward
---      ├─ AccumulateGrad (2,) float32 #1
---      └─ AccumulateGrad (2,) float32 #1, as above
---@param y moonlet.Tensor|moonlet.Node|table a tensor, a node or an edge
---@param options? {depth?: integer}
---@param options.depth? integer how many steps are shown; dots stand for the rest (default 32)
---@return string
---@shape y (*)
---@see autograd.graph.to_dot
function picture.tree(...)
  local y, depth = read_tree(...)
  local root, lines = node_of("tree", y), {}
  add_node(lines, root, { shared = shared_nodes(root), numbers = {}, count = 0 }, "", "", depth)
  return table.concat(lines, "\n")
end

--- The graph behind a tensor in the language of Graphviz, with arrows in the direction of
--- gradients; `dot -Tsvg` draws it.
--- > w = ml.ones(2, { requires_grad = true })
--- > ml.autograd.graph.to_dot(w:sum()):match("digraph")
---   digraph
---@param y moonlet.Tensor|moonlet.Node|table a tensor, a node or an edge
---@return string
---@shape y (*)
---@see autograd.graph.tree
function picture.to_dot(y)
  local root = node_of("to_dot", y)
  local numbers, queue, at = { [root] = 1 }, { root }, 1
  local lines, arrows = { "digraph {", "  node [shape=box, fontname=monospace]" }, {}
  while at <= #queue do
    local node = queue[at]
    local style = node.variable and ", style=filled" or ""
    lines[#lines + 1] = ("  n%d [label=%q%s]"):format(at, label(node), style)
    for _, edge in ipairs(node.next_functions) do
      local to = edge[1]
      if to then
        if not numbers[to] then
          queue[#queue + 1] = to
          numbers[to] = #queue
        end
        arrows[#arrows + 1] = ("  n%d -> n%d"):format(at, numbers[to])
      end
    end
    at = at + 1
  end
  table.move(arrows, 1, #arrows, #lines + 1, lines)
  lines[#lines + 1] = "}\n"
  return table.concat(lines, "\n")
end

return picture
