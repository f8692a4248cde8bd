-- stdlib/functions.lua: functions of `ml` that are made of ops and storages in Lua: histograms of
-- several dimensions, tensors on files; and those of tables: their order, tuples.

local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local functions = {}

-- --- histogramdd ------------------------------------------------------------------------------

-- The edges for one dimension: those given, or of so many parts of equal width.
local function edges_of(values, bins, range)
  if not ml.is_tensor(bins) then
    local _, edges = ml.histogram(values, bins, { range = range })
    return edges
  end
  if bins.ndim ~= 1 or #bins == 0 or bins.dtype ~= values.dtype then
    fail("histogramdd: edges must be of one dimension and %s, got %s of shape %s", values.dtype,
      bins.dtype, tostring(bins.shape))
  elseif not bins:diff():ge(0):all():item() then
    fail "histogramdd: the edges are in no rising order"
  end
  return bins
end

-- The bins for each dimension: one number for all, or a list of numbers or of edges.
local function bins_of(bins, count)
  if type(bins) == "number" then
    local out = {}
    for d = 1, count do out[d] = bins end
    return out
  end
  if #bins ~= count then
    fail("histogramdd: 'bins' has %d entries for %d dimensions", #bins, count)
  end
  return bins
end

local function check(points, o)
  if points.ndim < 2 or not points:is_floating_point() then
    fail("histogramdd: 'input' must be floating and (..., dimensions), got %s of shape %s",
      points.dtype, tostring(points.shape))
  end
  local count = points:size(-1)
  if o.range and #o.range ~= 2 * count then
    fail("histogramdd: 'range' has %d numbers, two for each of %d dimensions are expected",
      #o.range, count)
  end
  local entries = points:numel() // math.max(count, 1)
  if o.weight and (o.weight:numel() ~= entries or o.weight.dtype ~= points.dtype) then
    fail("histogramdd: 'weight' must hold %d of %s, got %s of shape %s", entries, points.dtype,
      o.weight.dtype, tostring(o.weight.shape))
  end
  return count
end

-- Of each point the part it is in, counted from 1 over all dimensions, and whether it is in one.
local function positions(points, edges)
  local at, inside
  for d, each in ipairs(edges) do
    local x, parts = points:select(2, d):contiguous(), #each - 1
    local own = ml.searchsorted(each, x, { right = true }):sub(1):clamp(1, math.max(parts, 1))
    local within = x:ge(each[1]):logical_and(x:le(each[-1]))
    at = at and (at - 1) * parts + own or own
    inside = inside and inside:logical_and(within) or within
  end
  return at, inside
end

-- Divided by the volumes of the parts and the sum of all.
local function density_of(hist, edges)
  local out = hist / hist:sum()
  for d, each in ipairs(edges) do
    local shape = {}
    for i = 1, #edges do shape[i] = i == d and -1 or 1 end
    out = out / each:diff():to(ml.float64):reshape(shape)
  end
  return out
end

local read_histogramdd = signature("histogramdd(Tensor input, int>=1|table bins, "
  .. "number[]? range=nil, Tensor? weight=nil, bool density=false)")

--- Histogram of points in several dimensions: how many of the rows of `input` fall into each bin of
--- a grid, or the sum of their weights. The last bin of each dimension includes its upper end.
--- > hist = ml.histogramdd(ml.tensor { { 0.0, 0.0 }, { 1.0, 1.0 }, { 1.0, 0.0 } }, { 2, 2 })
--- > hist
---   {{1., 0.},
---    {1., 1.}}
---   Tensor (2, 2) float32
---@param input moonlet.Tensor the points
---@param bins integer|integer[]|moonlet.Tensor[] number of bins of equal width, or for each
---   dimension such a number or ascending edges
---@param range? number[] least and greatest coordinate of each dimension in turn; those of the
---   points unless given
---@param weight? moonlet.Tensor a weight for each point; 1 unless given
---@param density? boolean whether the result is divided by the bins' volumes and the sum of all
---@return moonlet.Tensor hist
---@return moonlet.Tensor[] bin_edges of each dimension
---@shape input (*, d), weight (*) -> hist (bins_1, ..., bins_d), edges of each dimension
---   (bins_i + 1)
function functions.histogramdd(...)
  local o = read_histogramdd:table(...)
  local _ <close> = ml.no_grad()
  local count = check(o.input, o)
  local points, edges, shape, all = o.input:reshape(-1, count), {}, {}, 1
  for d, bins in ipairs(bins_of(o.bins, count)) do
    if not ml.is_tensor(bins) and (math.type(bins) ~= "integer" or bins < 1) then
      fail("histogramdd: 'bins' must hold integers from 1 or edges, got %s",
        signature.describe(bins))
    end
    local range = o.range and { o.range[2 * d - 1], o.range[2 * d] }
    edges[d] = edges_of(points:select(2, d), bins, range)
    shape[d] = #edges[d] - 1
    all = all * shape[d]
  end
  local at, inside = positions(points, edges)
  local each = o.weight and o.weight:reshape(-1):to(ml.float64)
    or ml.ones({ #points }, { dtype = ml.float64, device = points.device })
  local hist = ml.zeros(all, { dtype = ml.float64, device = points.device })
  if all > 0 then hist:index_add_(1, at[inside], each[inside]) end
  hist = hist:reshape(shape)
  if o.density then hist = density_of(hist, edges) end
  return hist:to(points.dtype), edges
end

-- --- from_file --------------------------------------------------------------------------------

-- Makes the file as long as that, by zeros.
local function lengthen(path, bytes)
  local file, message = io.open(path, "ab")
  if not file then fail("from_file: %s", message) end
  local missing = bytes - file:seek "end"
  local ok, problem = true, nil
  while ok and missing > 0 do
    local count = math.min(missing, 1 << 20)
    ok, problem = file:write(("\0"):rep(count))
    missing = missing - count
  end
  local closed, late = file:close()
  if not (ok and closed) then fail("from_file: '%s': %s", path, problem or late) end
end

local read_from_file = signature("from_file(string filename, bool shared=false, int>=0 size=0, "
  .. "string? dtype=nil)")

--- A tensor of one dimension whose memory is that of a file, which is read when elements are used.
--- Changes stay in memory, or with `shared` are written to the file, which is made, or made longer
--- by zeros, where it has fewer elements.
--- > path = os.tmpname()
--- > x = ml.from_file(path, true, 3)
--- > x[2] = 5
--- > ml.from_file(path, false, 3)
---   {0., 5., 0.}
---   Tensor (3,) float32
---@param filename string the file
---@param shared? boolean whether changes are written to the file
---@param size? integer number of elements
---@param dtype? moonlet.dtype the default dtype unless given
---@return moonlet.Tensor
---@shape -> (size)
function functions.from_file(...)
  local path, shared, size, dtype = read_from_file(...)
  local out = ml.empty { 0, dtype = dtype, device = "cpu" }
  if shared then lengthen(path, size * out.itemsize) end
  if size == 0 then return out end
  local ok, storage = pcall(ml.Storage,
    { file = path, dtype = out.dtype, shared = shared, size = size })
  if not ok then fail("from_file: %s", (storage:gsub("^[^\n]-:%d+: ", ""))) end
  return out:set_(storage, 0, { size })
end

-- --- tables -----------------------------------------------------------------------------------

local read_items = signature "items(dict table)"

--- Iterates over the keys and values of a table in their order: of a state dict in that of the
--- modules, of one that `ml.load` read from a `.pt` file in that of the file; further keys follow,
--- sorted. `pairs` has no order.
--- > for name, value in ml.items(ml.nn.Linear(2, 1):state_dict()) do print(name, value.shape) end
---   weight	(1, 2)
---   bias	(1,)
---@param table table a table by name
---@return fun(): any, any
function functions.items(...)
  local dict = read_items(...)
  local keys, i = notes.keys(dict), 0
  return function()
    while i < #keys do
      i = i + 1
      local value = dict[keys[i]]
      if value ~= nil then return keys[i], value end
    end
  end
end

local read_tuple = signature "tuple(table list)"

--- Marks a list as a tuple: `ml.save` writes it to a `.pt` file as a tuple of Python's. In scripts
--- it stays a list. What `ml.load` reads as tuples is marked so.
--- > ml.is_tuple(ml.tuple { 1, 2 })
---   true
---@param list table the list
---@return table list
function functions.tuple(...)
  local list = read_tuple(...)
  notes.set(list, { kind = "tuple" })
  return list
end

local read_is_tuple = signature "is_tuple(any value)"

--- Whether a table is marked as a tuple: by `ml.tuple`, or because `ml.load` read one.
--- > ml.is_tuple { 1, 2 }
---   false
---@param value any any value
---@return boolean
function functions.is_tuple(...)
  local value = read_is_tuple(...)
  local note = type(value) == "table" and notes.of(value)
  return note and note.kind == "tuple" or false
end

return options.namespace("functions", functions)
