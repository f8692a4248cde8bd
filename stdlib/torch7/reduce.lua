-- stdlib/torch7/reduce.lua: sums, extremes and norms of Torch7's tensors, comparisons, sorting.
-- What is reduced along a dimension keeps it with size 1.

local calls = require "moonlet.torch7.calls"
local core = require "moonlet.torch7.core"
local namespace = require "moonlet.torch7.namespace"

local M, like, into, number = core.methods, core.like, core.into, core.number

local floating = core.of("float16", "float32", "float64")

local function define(name, spec, f, kinds)
  kinds = kinds or {}
  calls.define(kinds.classes, name, spec, f, kinds)
end

local function dim_of(x, dim, name) return core.dimension(x, dim, name) end

local function check_elements(x, name)
  if M.numel(x) == 0 then core.fail("torch.%s: the tensor has no elements", name) end
end

-- --- sums ---------------------------------------------------------------------------------------

for _, name in ipairs { "sum", "prod", "mean" } do
  local empty = name == "prod" and 1 or 0
  define(name, "t|r? t n", {
    function(mt, x)
      if M.numel(x) == 0 then return empty end
      if name == "mean" and not core.is_floating(mt) then x = M.to(x, "float64") end
      -- Torch7 adds floats up in double.
      if mt.__dtype == "float32" or mt.__dtype == "float16" then x = M.to(x, "float64") end
      return core.item(M[name](x))
    end,
    function(mt, r, x, dim)
      local source = name == "mean" and not core.is_floating(mt) and M.to(x, "float64") or x
      return into(r, core.as(M[name](source, dim_of(x, dim, name), true), mt))
    end,
  })
end

for _, name in ipairs { "cumsum", "cumprod" } do
  define(name, "r? t n=1", function(mt, r, x, dim)
    return into(r, core.as(M[name](x, dim_of(x, dim, name)), mt))
  end)
end

for _, name in ipairs { "var", "std" } do
  define(name, "t b=false|r? t n b=false", {
    function(_, x, biased)
      return core.item(M[name](M.to(x, "float64"), {}, biased and 0 or 1))
    end,
    function(_, r, x, dim, biased)
      return into(r, M[name](x, { dim_of(x, dim, name) }, biased and 0 or 1, true))
    end,
  }, { classes = floating })
end

define("norm", "t n=2|r? t n n", {
  function(_, x, p) return core.item(M.norm(M.to(x, "float64"), p)) end,
  function(_, r, x, p, dim) return into(r, M.norm(x, p, dim_of(x, dim, "norm"), true)) end,
}, { classes = floating })

define("renorm", "r t=r n n n", function(_, r, x, p, dim, most)
  return into(r, M.renorm(x, p, dim_of(x, dim, "renorm"), most))
end, { classes = floating, inplace = true })

define("dist", "t t n=2", function(_, x, y, p)
  return core.item(M.dist(M.to(x, "float64"), M.to(like(x, y, "dist"), "float64"), p))
end, { classes = floating })

define("trace", "t", function(_, x) return core.item(M.trace(x)) end)

define("dot", "t t", function(mt, x, y)
  y = like(x, y, "dot")
  if mt.__dtype ~= "float64" then
    local wide = core.is_floating(mt) and "float64" or "int64"
    x, y = M.to(x, wide), M.to(y, wide)
  end
  return core.item(M.dot(M.reshape(x, { -1 }), M.reshape(y, { -1 })))
end)

define("equal", "t t", function(_, x, y)
  return x:isSameSizeAs(y) and (M.numel(x) == 0 or M.equal(x, y))
end)

for _, name in ipairs { "all", "any" } do
  define(name, "t", function(_, x) return core.item(M[name](x)) ~= 0 end,
    { classes = core.of "uint8" })
end

define("cross", "r? t t n=0", function(_, r, x, y, dim)
  y = like(x, y, "cross")
  if dim == 0 then
    for d, size in ipairs(core.sizes(x)) do
      if size == 3 then dim = d break end
    end
    if dim == 0 then core.fail "torch.cross: no dimension has size 3" end
  end
  return into(r, M.cross(x, y, dim_of(x, dim, "cross")))
end)

-- --- values and positions -----------------------------------------------------------------------

-- Gives values and positions to the results. With an index tensor as the only result it is that of
-- the positions.
local function pair(r, i, values, positions)
  return into(r, values), into(i, positions)
end

for _, name in ipairs { "min", "max" } do
  define(name, "t|r? i? t n", {
    function(_, x)
      check_elements(x, name)
      return core.item(M[name](x))
    end,
    function(_, r, i, x, dim)
      return pair(r, i, M[name](x, dim_of(x, dim, name), true))
    end,
  })
end

local function last_dim(x, dim, name)
  return dim_of(x, dim or core.dim(x), name)
end

define("sort", "r? i? t n? b=false", function(_, r, i, x, dim, descending)
  return pair(r, i, M.sort(x, last_dim(x, dim, "sort"), descending))
end)

define("topk", "r? i? t n=1 n? b=false b=false", function(_, r, i, x, k, dim, largest, sorted)
  return pair(r, i, M.topk(x, k, last_dim(x, dim, "topk"), largest, sorted))
end)

define("kthvalue", "r? i? t n n?", function(_, r, i, x, k, dim)
  return pair(r, i, M.kthvalue(x, k, last_dim(x, dim, "kthvalue"), true))
end)

define("median", "r? i? t n?", function(_, r, i, x, dim)
  dim = last_dim(x, dim, "median")
  return pair(r, i, M.kthvalue(x, (M.size(x, dim) + 1) // 2, dim, true))
end)

define("mode", "r? i? t n?", function(_, r, i, x, dim)
  return pair(r, i, M.mode(x, last_dim(x, dim, "mode"), true))
end)

define("nonzero", "i? t", function(mt, i, x)
  return into(i, core.as(M.nonzero(x), mt.__family.int64))
end)

-- --- comparisons --------------------------------------------------------------------------------

for _, name in ipairs { "lt", "gt", "le", "ge", "eq", "ne" } do
  local function compare(x, y)
    return core.as(M[name](x, y), getmetatable(x).__family.uint8)
  end
  local function with_number(_, r, x, value) return into(r, compare(x, value)) end
  local function with_tensor(_, r, x, y) return into(r, compare(x, like(x, y, name))) end
  define(name, "B? t n|r t n|B? t t|r t t", { with_number, with_number, with_tensor, with_tensor })
end

-- --- counting -----------------------------------------------------------------------------------

local function bounds(x, least, most)
  if least == most then return core.item(M.min(x)), core.item(M.max(x)) end
  return least, most
end

define("histc", "r? t n=100 n=0 n=0", function(_, r, x, bins, least, most)
  return into(r, M.histc(M.reshape(x, { -1 }), bins, bounds(x, least, most)))
end, { classes = floating })

define("bhistc", "r? t n=100 n=0 n=0", function(mt, r, x, bins, least, most)
  if core.dim(x) > 2 then core.fail "torch.bhistc: a tensor of 1 or 2 dimensions is expected" end
  if core.dim(x) == 1 then x = M.unsqueeze(x, 1) end
  least, most = bounds(x, least, most)
  local out = core.zeros(mt, { M.size(x, 1), bins })
  for row = 1, M.size(x, 1) do
    M.copy_(M.select(out, 1, row), M.histc(M.select(x, 1, row), bins, least, most))
  end
  return into(r, out)
end, { classes = floating })

define("match", "r? t t n=1", function(_, r, a, b, gain)
  a, b = M.reshape(a, { M.size(a, 1), -1 }), M.reshape(b, { M.size(b, 1), -1 })
  local squares = M.sum(M.pow(M.sub(M.unsqueeze(a, 2), M.unsqueeze(b, 1)), 2), 3)
  return into(r, M.mul(squares, number(getmetatable(a), gain)))
end)

function namespace.totable(x)
  if not namespace.isTensor(x) and not namespace.isStorage(x) then
    core.fail "torch.totable: a storage or a tensor is expected"
  end
  return x:totable()
end
