-- stdlib/torch7/shape.lua: functions that fill tensors by position, join, gather and scatter, and
-- give other views of Torch7's tensors.

local calls = require "moonlet.torch7.calls"
local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local storages = require "moonlet.torch7.storage"

local M, like, into, number, fail = core.methods, core.like, core.into, core.number, core.fail
local classes = ml._classes

local floating = core.of("float16", "float32", "float64")

local function define(name, spec, f, kinds)
  kinds = kinds or {}
  calls.define(kinds.classes, name, spec, f, kinds)
end

-- A native tensor as a result in the class.
local function result(r, mt, native)
  return into(r, core.as(M.to(native, mt.__options.device), mt))
end

-- Writes the elements into r as it is where it has as many; else it is resized.
local function fill_in_order(r, mt, native)
  if r and M.numel(r) == M.numel(native) and M.numel(native) > 0 then
    return M.copy_(r, M.reshape(native, classes.sizes(r)))
  end
  return result(r, mt, native)
end

-- --- by position --------------------------------------------------------------------------------

for name, value in pairs { zeros = 0, ones = 1 } do
  define(name, "r z", function(mt, r, sizes)
    if r == nil then r = core.empty(mt) end
    return M.fill_(core.resize(r, sizes), value)
  end, { inplace = true })
end

define("eye", "r n n?", function(mt, r, rows, columns)
  return result(r, mt, ml.eye(rows, columns or rows, mt.__options))
end, { inplace = true })

-- All of first, first + step, ... up to last.
define("range", "r n n n=1", function(mt, r, first, last, step)
  if step == 0 or (last - first) * step < 0 then
    fail("torch.range: %s to %s is no range with step %s", first, last, step)
  end
  local count = math.floor((last - first) / step) + 1
  local positions = ml.arange(0, count - 1, { dtype = "float64" })
  return fill_in_order(r, mt, positions:mul(step):add(first))
end, { inplace = true })

define("linspace", "r n n n=100", function(mt, r, first, last, count)
  if count == 1 and first ~= last then
    fail "torch.linspace: one point between two distinct ends"
  end
  return fill_in_order(r, mt, ml.linspace(first, last, count, { dtype = "float64" }))
end, { classes = floating, inplace = true })

define("logspace", "r n n n=100", function(mt, r, first, last, count)
  if count == 1 and first ~= last then
    fail "torch.logspace: one point between two distinct ends"
  end
  local exponents = ml.linspace(first, last, count, { dtype = "float64" })
  return fill_in_order(r, mt, ml.pow(ml.tensor(10.0, { dtype = "float64" }), exponents))
end, { classes = floating, inplace = true })

define("diag", "r? t n=0", function(_, r, x, k)
  return into(r, M.contiguous(M.clone(M.diag(x, k))))
end)
for _, name in ipairs { "tril", "triu" } do
  define(name, "r? t n=0", function(_, r, x, k) return into(r, M[name](x, k)) end)
end

-- --- joining ------------------------------------------------------------------------------------

-- The sizes of x with `rank` dimensions, those behind being 1.
local function padded(x, rank)
  local sizes = core.sizes(x)
  for d = #sizes + 1, rank do sizes[d] = 1 end
  return sizes
end

local function join(mt, r, parts, dim)
  local kept, rank = {}, 0
  for _, part in ipairs(parts) do
    if getmetatable(part) ~= mt then fail "torch.cat: tensors of one type are expected" end
    rank = math.max(rank, core.dim(part))
    if M.numel(part) > 0 then kept[#kept + 1] = part end
  end
  if #kept == 0 then return into(r, core.empty(mt)) end
  if dim == -1 then dim = rank end
  if dim < 1 then fail("torch.cat: dimension %s is out of range", dim) end
  rank = math.max(rank, dim)
  for i, part in ipairs(kept) do
    if core.dim(part) < rank then kept[i] = M.reshape(part, padded(part, rank)) end
  end
  return into(r, core.wrap(ml.cat(kept, dim), mt))
end

define("cat", "r? t t n=-1|r? a n=-1", {
  function(mt, r, a, b, dim) return join(mt, r, { a, b }, dim) end,
  function(mt, r, parts, dim) return join(mt, r, parts, dim) end,
})

-- --- gathering ----------------------------------------------------------------------------------

local function longs(positions) return M.to(positions, "int64") end

define("index", "r? t n p", function(_, r, x, dim, positions)
  return into(r, M.index_select(x, core.dimension(x, dim, "index"), longs(positions)))
end)

define("indexCopy", "r n p t", function(_, r, dim, positions, source)
  return M.index_copy_(r, core.dimension(r, dim, "indexCopy"), longs(positions), source)
end, { inplace = true })
define("indexAdd", "r n p t", function(_, r, dim, positions, source)
  return M.index_add_(r, core.dimension(r, dim, "indexAdd"), longs(positions), source)
end, { inplace = true })
define("indexFill", "r n p n", function(mt, r, dim, positions, value)
  return M.index_fill_(r, core.dimension(r, dim, "indexFill"), longs(positions), number(mt, value))
end, { inplace = true })

local function mask_of(x, mask, name)
  return M.to(like(x, mask, name), "bool")
end

define("maskedSelect", "r? t B", function(_, r, x, mask)
  return into(r, M.masked_select(x, mask_of(x, mask, "maskedSelect")))
end)
define("maskedFill", "r B n", function(mt, r, mask, value)
  return M.masked_fill_(r, mask_of(r, mask, "maskedFill"), number(mt, value))
end, { inplace = true })
define("maskedCopy", "r B t", function(_, r, mask, source)
  return M.masked_scatter_(r, mask_of(r, mask, "maskedCopy"), source)
end, { inplace = true })

define("gather", "r? t n p", function(_, r, x, dim, positions)
  return into(r, M.gather(x, core.dimension(x, dim, "gather"), longs(positions)))
end)
define("scatter", "r n p t|r n p n", {
  function(_, r, dim, positions, source)
    return M.scatter_(r, core.dimension(r, dim, "scatter"), longs(positions), source)
  end,
  function(mt, r, dim, positions, value)
    return M.scatter_(r, core.dimension(r, dim, "scatter"), longs(positions), number(mt, value))
  end,
}, { inplace = true })
define("scatterAdd", "r n p t", function(_, r, dim, positions, source)
  return M.scatter_add_(r, core.dimension(r, dim, "scatterAdd"), longs(positions), source)
end, { inplace = true })

define("reshape", "r? t z", function(_, r, x, sizes)
  return into(r, M.contiguous(M.clone(M.reshape(x, core.checked(sizes)))))
end)

-- --- views --------------------------------------------------------------------------------------

-- Makes r show what the view shows, which may be another name of a tensor of the script's.
local function show(r, view)
  if r == nil then return view end
  return r:set(view)
end

local function element_or(x, squeezed)
  if core.dim(squeezed) == 1 and M.numel(squeezed) == 1 and squeezed ~= x then
    return core.item(squeezed)
  end
  return squeezed
end

define("squeeze", "r? t|r? t n", {
  function(_, r, x)
    local sizes = {}
    for _, size in ipairs(core.sizes(x)) do
      if size ~= 1 then sizes[#sizes + 1] = size end
    end
    local view = M.squeeze(x)
    if #sizes == 0 and M.numel(x) == 1 then view = M.reshape(view, { 1 }) end
    local out = show(r, view)
    if core.dim(out) == 1 and M.numel(out) == 1 then return core.item(out) end
    return out
  end,
  function(_, r, x, dim)
    dim = core.dimension(x, dim, "squeeze")
    local had_more = core.dim(x) > 1
    local view = M.size(x, dim) == 1 and had_more and M.squeeze(x, dim) or x
    local out = show(r, view)
    return had_more and out or element_or(x, out)
  end,
})

-- Sizes from numbers or a LongStorage.
local function sizes_from(first, ...)
  if class.typename(first) == "torch.LongStorage" then return first:totable() end
  local sizes = { first, ... }
  for i, size in ipairs(sizes) do
    sizes[i] = math.tointeger(size) or fail("a size is a whole number, got %s", tostring(size))
  end
  return sizes
end

-- Splits (result, x, ...) and (x, ...): the second argument of the former is a tensor.
local function with_result(a, b, ...)
  if core.is_tensor(b) then return a, b, ... end
  return nil, a, b, ...
end

local Tensor = {}

function Tensor.expand(...)
  local function run(r, x, ...)
    local sizes, own = sizes_from(...), core.sizes(x)
    if #sizes ~= #own then fail "the number of dimensions provided must equal tensor:dim()" end
    for d, size in ipairs(sizes) do
      if own[d] ~= size and own[d] ~= 1 then
        fail "incorrect size: only supporting singleton expansion (size=1)"
      end
    end
    return show(r, M.expand(x, sizes))
  end
  return run(with_result(...))
end

function Tensor.expandAs(a, b, c)
  core.expect(c or b, "tensor", "template", "expandAs")
  if c then return Tensor.expand(a, b, c:size()) end
  return Tensor.expand(a, b:size())
end

-- Sizes with -1 for the one that the others leave.
local function complete(sizes, count)
  local known, open = 1, nil
  for i, size in ipairs(sizes) do
    if size == -1 then
      if open then fail "torch.view: only one dimension can be -1" end
      open = i
    else
      known = known * size
    end
  end
  if open then
    if count % known ~= 0 then
      fail("torch.view: %d elements cannot be divided by %d", count, known)
    end
    sizes[open] = count // known
  end
  return sizes
end

function Tensor.view(...)
  local function run(r, x, ...)
    if not M.is_contiguous(x) then fail "torch.view: a contiguous tensor is expected" end
    local count = M.numel(x)
    local sizes = complete(sizes_from(...), count)
    local given = 1
    for _, size in ipairs(sizes) do given = given * size end
    if given ~= count then
      fail("Wrong size for view. Input size: %s. Output size: %s",
        table.concat(core.sizes(x), "x"), table.concat(sizes, "x"))
    end
    local view = M.view(x, core.checked(sizes))
    return r and classes.take(r, view) or view
  end
  return run(with_result(...))
end

function Tensor.viewAs(a, b, c)
  core.expect(c or b, "tensor", "template", "viewAs")
  if c then return Tensor.view(a, b, c:size()) end
  return Tensor.view(a, b:size())
end

function Tensor.repeatTensor(...)
  local function run(r, x, ...)
    local times, rank = sizes_from(...), core.dim(x)
    if #times < rank then
      fail("torch.repeatTensor: at least %d numbers are expected, got %d", rank, #times)
    end
    return into(r, M.tile(x, times))
  end
  return run(with_result(...))
end

-- Splits (list, x, ...) and (x, ...): a list that is given gets the parts instead of a new one.
local function with_list(a, ...)
  if type(a) ~= "table" then return {}, a, ... end
  for i = #a, 1, -1 do a[i] = nil end
  return a, ...
end

function Tensor.split(...)
  local out, x, size, dim = with_list(...)
  core.expect(core.expect(x, "tensor", "x", "split") and size, "number", "size", "split")
  if size < 1 then fail("torch.split: a size of at least 1 is expected, got %s", size) end
  dim = dim or 1
  local all_of = x:size(dim)
  for first = 1, all_of, size do
    out[#out + 1] = x:narrow(dim, first, math.min(size, all_of - first + 1))
  end
  return out
end

function Tensor.chunk(...)
  local out, x, count, dim = with_list(...)
  core.expect(core.expect(x, "tensor", "x", "chunk") and count, "number", "count", "chunk")
  if count < 1 then fail("torch.chunk: a count of at least 1 is expected, got %s", count) end
  dim = dim or 1
  return Tensor.split(out, x, math.ceil(x:size(dim) / count), dim)
end

function Tensor.totable(x)
  return M.numel(x) == 0 and {} or M.tolist(x)
end

function Tensor.permute(x, ...)
  local order, seen = { ... }, {}
  if #order ~= core.dim(x) then fail "torch.permute: invalid permutation" end
  for i, d in ipairs(order) do
    order[i] = core.dimension(x, d, "permute")
    if seen[d] then fail "torch.permute: invalid permutation" end
    seen[d] = true
  end
  return M.permute(x, order)
end

for name, f in pairs(Tensor) do
  core.each_class(function(mt) mt[name] = f end)
  if name ~= "totable" then namespace[name] = f end
end

function namespace.isTensor(x) return core.is_tensor(x) end
function namespace.isStorage(x) return type(x) == "userdata" and storages.is(x) end
core.each_class(function(mt) mt.isTensor = namespace.isTensor end)

define("numel", "t", function(_, x) return M.numel(x) end)
