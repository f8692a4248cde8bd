-- tests/fuzz/composition_points.lua: where compositions of derivatives are looked at: the points that a
-- function's arguments are moved to, and the ways in which the arguments are parts of leaves.

local ml = require "moonlet"

local points = {}

local function random(n) return math.random(n) end

-- Points ------------------------------------------------------------------------------------------

-- x with the elements at those positions of its flat form set.
local function with(x, value, ...)
  if x:numel() == 0 then return x end
  local flat = x:reshape(-1):clone()
  for _, at in ipairs { ... } do flat[at] = value end
  return flat:reshape(x.shape)
end

local function any(x) return random(math.max(x:numel(), 1)) end

local function is_matrix(x) return x:dim() >= 2 and x:size(-1) == x:size(-2) end

-- Square matrices of one rank fewer, others with equal rows.
local function with_equal_rows(x)
  if x:dim() < 2 or x:size(-2) < 2 then return x:numel() > 0 and with(x, x:reshape(-1)[1]:item(), any(x)) or x end
  local out = x:clone()
  out:select(-2, -1):copy_(out:select(-2, 1))
  return out
end

-- Each takes one argument and all of them.
points.POINTS = {
  { "generic", function(x) return x end },
  { "a zero", function(x) return with(x, 0, any(x)) end },
  { "ones and zeros", function(x) return x:gt(0):to(x.dtype) end },
  { "generic", function(x) return x * 0.9 end },
  { "two zeros", function(x) return with(x, 0, 1, any(x), math.max(x:numel(), 1)) end },
  { "whole numbers", function(x) return (x * 1.5):round() end },
  { "an infinity", function(x) return with(x, math.huge, any(x)) end },
  { "zeros", function(x) return ml.zeros_like(x) end },
  { "equal elements", function(x) return x:numel() > 0 and ml.full_like(x, x:reshape(-1)[1]:item()) or x end },
  { "equal arguments", function(x, first)
    return x.shape == first.shape and first or x
  end },
  { "minus infinity", function(x) return with(x, -math.huge, any(x), any(x)) end },
  { "equal rows", with_equal_rows },
  { "signs", function(x) return x:sign() end },
  { "the identity", function(x)
    if not is_matrix(x) then return with(x, 1, any(x)) end
    return ml.eye(x:size(-1), { dtype = x.dtype }):expand(x.shape):clone()
  end },
  { "minus infinities", function(x)
    if x:dim() == 0 or x:numel() == 0 then return x end
    local out = x:clone()
    out:select(1, 1):fill_(-math.huge)
    return out
  end },
}

-- Layouts -----------------------------------------------------------------------------------------

-- Each gives the leaf for an argument, and the function that takes the argument out of the leaf.
local LAYOUTS = {}

function LAYOUTS.plain(x)
  return x, function(leaf) return leaf end
end

function LAYOUTS.sliced(x)
  if x:dim() == 0 then
    return ml.stack({ x + 0.5, x }, 1), function(leaf) return leaf[2] end
  end
  return ml.stack({ x, x + 0.5 }, -1), function(leaf) return leaf:select(-1, 1) end
end

function LAYOUTS.narrowed(x)
  if x:dim() == 0 then return LAYOUTS.sliced(x) end
  local n = x:size(1)
  local first = math.min(n, 1)
  local leaf = ml.cat({ x:narrow(1, 1, first), x, x:narrow(1, 1, first) }, 1)
  return leaf, function(whole) return whole:narrow(1, first + 1, n) end
end

function LAYOUTS.transposed(x)
  if x:dim() < 2 then return LAYOUTS.sliced(x) end
  return x:transpose(1, -1):contiguous(), function(leaf) return leaf:transpose(1, -1) end
end

function LAYOUTS.expanded(x)
  if x:dim() == 0 or x:numel() == 0 then return LAYOUTS.sliced(x) end
  local d = random(x:dim())
  local shape = x.shape
  return x:narrow(d, 1, 1):clone(), function(leaf) return leaf:expand(shape) end
end

-- Every argument is a part of one leaf, as packed weights are.
local function packed(xs)
  local flat, positions, total = {}, {}, 0
  for i, x in ipairs(xs) do
    flat[i], positions[i] = x:reshape(-1), { total + 1, x:numel(), x.shape }
    total = total + x:numel()
  end
  return { ml.cat(flat, 1) }, function(leaves)
    local out = {}
    for i, p in ipairs(positions) do out[i] = leaves[1]:narrow(1, p[1], p[2]):view(p[3]) end
    return out
  end
end

-- Arguments of one shape are one leaf.
local function shared(xs)
  local leaves, of = {}, {}
  for i, x in ipairs(xs) do
    for k, leaf in ipairs(leaves) do
      if leaf.shape == x.shape then of[i] = of[i] or k end
    end
    if not of[i] then
      leaves[#leaves + 1] = x
      of[i] = #leaves
    end
  end
  return leaves, function(list)
    local out = {}
    for i, k in ipairs(of) do out[i] = list[k] end
    return out
  end
end

points.LAYOUTS = { "plain", "sliced", "batched", "expanded", "in place", "packed", "transposed", "shared", "narrowed",
  "in place in a slice", "some" }

--- The leaves of the arguments `xs` in that layout, and the function from leaves to arguments.
function points.laid_out(layout, xs)
  if layout == "packed" then return packed(xs) end
  if layout == "shared" then return shared(xs) end
  local each = LAYOUTS[layout] or LAYOUTS.plain
  local leaves, parts = {}, {}
  for i, x in ipairs(xs) do leaves[i], parts[i] = each(x) end
  return leaves, function(list)
    local out = {}
    for i, part in ipairs(parts) do out[i] = part(list[i]) end
    return out
  end
end

--- The arguments `xs` at a point.
function points.moved(point, xs)
  local out = {}
  for i, x in ipairs(xs) do out[i] = point[2](x, xs[1]):detach():clone() end
  return out
end

return points
