-- stdlib/utils/tensorboard/histogram.lua: the histograms that TensorBoard shows.

local ml = require "moonlet"
local fail = require("moonlet.options").fail

-- Bins whose edges grow by a tenth on both sides of zero, from 1e-12 to 1e20.
local function default_edges()
  local rising, value = {}, 1e-12
  while value < 1e20 do
    rising[#rising + 1] = value
    value = value * 1.1
  end
  local out = {}
  for i = #rising, 1, -1 do out[#out + 1] = -rising[i] end
  out[#out + 1] = 0.0
  return table.move(rising, 1, #rising, #out + 1, out)
end

-- The widths of bins for `n` values from `low` to `high`, by the names that NumPy has.
local WIDTHS = {}

function WIDTHS.sqrt(v) return v.range / math.sqrt(v.n) end
function WIDTHS.sturges(v) return v.range / (math.log(v.n, 2) + 1) end
function WIDTHS.rice(v) return v.range / (2 * v.n ^ (1 / 3)) end
function WIDTHS.scott(v)
  return (24 * math.sqrt(math.pi) / v.n) ^ (1 / 3) * v.values:std({ correction = 0 }):item()
end
function WIDTHS.fd(v)
  local quarters = v.values:quantile(ml.tensor({ 0.25, 0.75 }, { dtype = ml.float64 }))
  return 2 * (quarters[2] - quarters[1]):item() / v.n ^ (1 / 3)
end
function WIDTHS.doane(v)
  local n, spread = v.n, v.values:std({ correction = 0 }):item()
  if n <= 2 or spread == 0 then return 0 end
  local skewness = ((v.values - v.values:mean()) / spread):pow(3):mean():item()
  local error_of_it = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
  return v.range / (1 + math.log(n, 2) + math.log(1 + math.abs(skewness) / error_of_it, 2))
end
-- The number of bins with the least estimate of the error by leaving one out (Stone, 1984).
function WIDTHS.stone(v)
  if v.n <= 1 or v.range == 0 then return 0 end
  local best, least = nil, math.huge
  for bins = 1, math.max(100, math.floor(math.sqrt(v.n))) do
    local shares = v.values:histogram(bins, { range = { v.low, v.high } }) / v.n
    local risk = (2 - (v.n + 1) * shares:dot(shares):item()) / (v.range / bins)
    if risk < least then best, least = bins, risk end
  end
  return v.range / best
end
function WIDTHS.auto(v)
  return math.min(math.max(WIDTHS.fd(v), WIDTHS.sqrt(v) / 2), WIDTHS.sturges(v))
end

local MOST_BINS = 100000

-- The number of equal bins that a name stands for.
local function bins_by_name(where, name, v, whole)
  local width = v.range == 0 and 0 or WIDTHS[name](v)
  if width == 0 then return 1 end
  if whole and width < 1 then width = 1 end
  local bins = math.ceil(v.range / width)
  if bins > MOST_BINS then
    fail("%s: '%s' makes %d bins, at most %d are written", where, name, bins, MOST_BINS)
  end
  return bins
end

local known

-- `bins` as edges: "tensorflow", a number of equal bins, or the edges themselves.
local function edges_of(where, bins, low, high)
  if bins == "tensorflow" then
    known = known or default_edges()
    return known
  elseif type(bins) == "number" then
    if low == high then low, high = low - 0.5, high + 0.5 end
    local out = {}
    for i = 0, bins do out[i + 1] = low + (high - low) * (i / bins) end
    out[bins + 1] = high
    return out
  end
  if #bins < 2 then fail("%s: 'bins' needs two edges at least", where) end
  for i = 2, #bins do
    if bins[i] < bins[i - 1] then fail("%s: the edges in 'bins' must rise", where) end
  end
  return bins
end

-- How many values are in each bin; the last includes its upper edge.
local function count(values, edges)
  local limits, bins = ml.tensor(edges, { dtype = ml.float64 }), #edges - 1
  local inside = values:ge(edges[1]):logical_and(values:le(edges[#edges]))
  local at = ml.searchsorted(limits, values[inside], { right = true }) - 1
  return at:clamp { max = bins }:bincount { minlength = bins }:totable()
end

-- Neighbouring bins joined, so that there are about `most`.
local function joined(counts, edges, most)
  local together = #counts // most
  local out, limits = {}, {}
  for first = 1, #counts, together do
    local sum = 0
    for i = first, math.min(first + together - 1, #counts) do sum = sum + counts[i] end
    out[#out + 1], limits[#limits + 1] = sum, edges[first]
  end
  limits[#limits + 1] = edges[#edges]
  return out, limits
end

-- What has values in it, with an empty bin in front, as only upper edges are written.
local function trimmed(counts, edges)
  local first, last = 1, #counts
  while first < last and counts[first] == 0 do first = first + 1 end
  while last > first and counts[last] == 0 do last = last - 1 end
  local out, limits = { first > 1 and counts[first - 1] or 0 }, { edges[first] }
  for i = first, last do
    out[#out + 1], limits[#limits + 1] = counts[i], edges[i + 1]
  end
  return out, limits
end

--- The histogram of a tensor, as `messages.histogram` takes it.
---@param where string
---@param x moonlet.Tensor
---@param bins any
---@param max_bins? integer
---@return table
return function(where, x, bins, max_bins)
  if x:is_complex() then fail("%s: 'values' must not be complex", where) end
  local values = x:detach():to { device = "cpu", dtype = ml.float64 }:reshape(-1)
  if #values == 0 then fail("%s: 'values' has no element", where) end
  if not values:isfinite():all():item() then
    fail("%s: 'values' has a NaN or an infinity", where)
  end
  local low, high = values:aminmax()
  low, high = low:item(), high:item()
  if WIDTHS[bins] then
    local of = { values = values, n = #values, low = low, high = high, range = high - low }
    bins = bins_by_name(where, bins, of, not x:is_floating_point())
  end
  local edges = edges_of(where, bins, low, high)
  local counts = count(values, edges)
  if max_bins and #counts > max_bins then counts, edges = joined(counts, edges, max_bins) end
  counts, edges = trimmed(counts, edges)
  return { min = low, max = high, num = #values, sum = values:sum():item(),
    sum_squares = values:square():sum():item(), limits = edges, counts = counts }
end
