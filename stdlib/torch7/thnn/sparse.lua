-- stdlib/torch7/thnn/sparse.lua: THNN's products with sparse inputs: SparseLinear, whose inputs are
-- triples (row, column, value) or pairs for each row, and IndexLinear, whose are keys and values.

local base = require "moonlet.torch7.thnn.base"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"

local M, give = base.M, base.give

local out = {}

-- --- SparseLinear --------------------------------------------------------------------------------

local function check_columns(at, values, count)
  local used = M.ne(values, 0)
  local columns = M.masked_fill(at, M.logical_not(used), 1)
  if M.numel(columns) > 0 then
    local least, most = M.item(M.amin(columns)), M.item(M.amax(columns))
    if least < 1 or most > count then
      base.fail("SparseLinear: index %d is not between 1 and %d", least < 1 and least or most,
        count)
    end
  end
  return columns
end

-- Rows, columns and values of (nnz, 3).
local function triples(input, columns)
  if M.dim(input) ~= 2 or M.size(input, 2) ~= 3 then
    base.fail "SparseLinear: an input of nnz x 3 is expected"
  end
  local values = M.select(input, 2, 3)
  local at = M.long(input)
  return M.select(at, 2, 1), check_columns(M.select(at, 2, 2), values, columns), values
end

-- The same of (rows, nnz, 2).
local function pairs_of(input, columns)
  if M.dim(input) ~= 3 or M.size(input, 3) ~= 2 then
    base.fail "SparseLinear: an input of batch x nnz x 2 is expected"
  end
  local n, nnz = M.size(input, 1), M.size(input, 2)
  local values = M.reshape(M.select(input, 3, 2), { n * nnz })
  local at = M.reshape(M.long(M.select(input, 3, 1)), { n * nnz })
  local rows = ml.arange(1, n):repeat_interleave(nnz)
  return rows, check_columns(at, values, columns), values
end

-- output = bias + the weighted columns of weight, added up by rows.
local function product(output, weight, bias, rows, columns, values)
  local parts = M.mul_(M.t(M.index_select(weight, 2, columns)), M.unsqueeze(values, 2))
  M.copy_(output, bias)
  M.index_add_(output, 1, rows, parts)
  return output
end

local function accumulate(gradOutput, gradWeight, gradBias, weight, decay, scale, rows, columns,
    values)
  local parts = M.mul_(M.index_select(gradOutput, 1, rows), M.unsqueeze(values, 2))
  M.index_add_(gradWeight, 2, columns, M.t(parts), scale or 1)
  M.add_(gradBias, M.sum(gradOutput, { 1 }), scale or 1)
  if decay and decay ~= 0 then M.add_(gradWeight, weight, decay) end
end

-- The columns that come with a value, each once.
local function used(columns, values) return M.unique(M.masked_select(columns, M.ne(values, 0))) end

for prefix, read in pairs { SparseLinear_ = triples, SparseLinear_legacy = pairs_of } do
  local legacy = read == pairs_of
  local function name(action)
    return prefix .. (legacy and action:gsub("^%l", string.upper) or action)
  end
  out[name "updateOutput"] = function(input, output, weight, bias)
    local rows, columns, values = read(input, M.size(weight, 2))
    if legacy then output:resize(M.size(input, 1), M.size(weight, 1)) end
    return product(output, weight, bias, rows, columns, values)
  end
  out[name "accGradParameters"] = function(input, gradOutput, gradWeight, gradBias, weight, _,
    decay,
      scale)
    local rows, columns, values = read(input, M.size(weight, 2))
    return accumulate(M.reshape(gradOutput, { -1, M.size(weight, 1) }), gradWeight, gradBias,
      weight,
      decay, scale, rows, columns, values)
  end
  out[name "zeroGradParameters"] = function(gradWeight, gradBias, lastInput)
    local _, columns, values = read(lastInput, M.size(gradWeight, 2))
    M.zero_(gradBias)
    local at = used(columns, values)
    if M.numel(at) > 0 then M.index_fill_(gradWeight, 2, at, 0) end
  end
  out[name "updateParameters"] = function(weight, bias, gradWeight, gradBias, lastInput, rate)
    local _, columns, values = read(lastInput, M.size(weight, 2))
    local at = used(columns, values)
    if M.numel(at) == 0 then return end
    M.add_(bias, gradBias, -rate)
    M.index_add_(weight, 2, at, M.index_select(gradWeight, 2, at), -rate)
  end
end

-- For CUDA it frees what was kept between calls; here nothing is.
out.SparseLinear_cudaClearState = function() end

-- --- IndexLinear ---------------------------------------------------------------------------------

-- Columns of a row of the weight before the weights themselves, where values are normalized: the
-- largest magnitude of its key, its reciprocal, the factor of the learning rate and a bias.
local MOST, INVERSE, RATE, BIAS = 1, 2, 3, 4

-- The row of each key.
local function rows_of(sizes)
  local flat = M.reshape(sizes, { -1 })
  return M.repeat_interleave(core.wrap(ml.arange(1, M.size(flat, 1)), getmetatable(flat)), flat)
end

local function check_keys(keys, values)
  if M.dim(keys) ~= 1 or M.dim(values) ~= 1 or M.size(keys, 1) ~= M.size(values, 1) then
    base.fail "IndexLinear: as many keys as values are expected, as vectors"
  end
end

-- Notes the largest magnitude of each key in order, and gives the values normalized by what was
-- known
-- at each.
local function normalize(values, at, weight, train)
  local of_values, of_keys, known = M.tolist(values), M.tolist(at), {}
  local result = {}
  for i, key in ipairs(of_keys) do
    local row = known[key]
    if not row then
      row = M.tolist(M.narrow(M.select(weight, 1, key), 1, 1, BIAS))
      known[key] = row
    end
    local value = of_values[i]
    local size = math.abs(value)
    if train then
      if size > row[MOST] then row[MOST], row[INVERSE] = size, 1 / size end
      row[RATE] = 1
    end
    local sign = value > 0 and 1 or value < 0 and -1 or 0
    result[i] = (size > row[MOST] and sign or value * row[INVERSE]) + row[BIAS]
  end
  if train then
    for key, row in pairs(known) do
      M.copy_(M.narrow(M.select(weight, 1, key), 1, 1, BIAS), M.new_tensor(weight, row))
    end
  end
  return M.new_tensor(values, result)
end

out.IndexLinear_updateOutput = function(keys, offset, values, sizes, _, output, weight, bias,
    normalized, train)
  check_keys(keys, values)
  local at = M.add(keys, base.whole(offset) + 1)
  local extra = M.size(weight, 2) - M.size(bias, 1)
  local factors = values
  if extra > 0 then
    factors = normalize(values, at, weight, train == 1 or train == true)
    give(normalized, M.clone(factors))
  end
  local parts = M.index_select(weight, 1, at)
  if extra > 0 then parts = M.narrow(parts, 2, extra + 1, M.size(bias, 1)) end
  output:resize(M.size(sizes, 1), M.size(bias, 1))
  M.copy_(output, bias)
  return M.index_add_(output, 1, rows_of(sizes), M.mul(parts, M.unsqueeze(factors, 2)))
end

-- Of each key the gradient of its bias, where values are normalized, and of its weights.
local function key_gradients(values, sizes, gradOutput, outputs, scale)
  local g = M.reshape(gradOutput, { -1, outputs })
  local parts = M.mul_(M.index_select(g, 1, rows_of(sizes)), scale or 1)
  return parts, M.mul(parts, M.unsqueeze(values, 2)), g
end

out.IndexLinear_accGradParameters = function(keys, _, values, sizes, _, gradOutput, gradWeight,
    gradBias, weight, bias, _, _, scale)
  check_keys(keys, values)
  local outputs = M.size(bias, 1)
  local parts, weighted, g = key_gradients(values, sizes, gradOutput, outputs, scale)
  local extra = M.size(weight, 2) > outputs
  local width = extra and 2 * outputs or outputs
  gradWeight:resize(M.size(keys, 1), width)
  if extra then M.copy_(M.narrow(gradWeight, 2, 1, outputs), parts) end
  M.copy_(M.narrow(gradWeight, 2, width - outputs + 1, outputs), weighted)
  M.add_(gradBias, M.sum(g, { 1 }), scale or 1)
end

-- One key's step after the other, as a key may come more than once.
local function step_keys(weight, outputs, at, gradients, of_bias, rate, decay)
  local extra = M.size(weight, 2) - outputs
  for i, key in ipairs(M.tolist(at)) do
    local row = M.select(weight, 1, key)
    local weights = M.narrow(row, 1, extra + 1, outputs)
    local factor = 1
    if extra > 0 then
      factor = row[RATE]
      row[BIAS] = row[BIAS] - M.item(M.dot(M.select(of_bias, 1, i), weights)) * rate * factor
    end
    if decay ~= 0 then M.mul_(weights, 1 - decay * factor) end
    M.add_(weights, M.select(gradients, 1, i), -rate * factor)
  end
end

out.IndexLinear_updateParameters = function(gradWeight, gradBias, weight, bias, keys, _, offset,
    decay, rate)
  local outputs = M.size(bias, 1)
  M.add_(bias, gradBias, -rate)
  local at = M.add(keys, base.whole(offset) + 1)
  if M.size(weight, 2) == outputs and (decay or 0) == 0 then
    return M.index_add_(weight, 1, at, M.reshape(gradWeight, { -1, outputs }), -rate)
  end
  local extra = M.size(weight, 2) > outputs
  local g = M.reshape(gradWeight, { M.size(keys, 1), -1 })
  local width = M.size(g, 2)
  return step_keys(weight, outputs, at, M.narrow(g, 2, width - outputs + 1, outputs),
    extra and M.narrow(g, 2, 1, outputs), rate, decay or 0)
end

out.IndexLinear_accUpdateGradParameters = function(keys, offset, values, sizes, _, gradOutput,
    weight, bias, decay, scale)
  check_keys(keys, values)
  local outputs = M.size(bias, 1)
  local parts, weighted, g = key_gradients(values, sizes, gradOutput, outputs, 1)
  M.add_(bias, M.sum(g, { 1 }), -(scale or 1))
  return step_keys(weight, outputs, M.add(keys, base.whole(offset) + 1), weighted, parts,
    scale or 1,
    decay or 0)
end

return out
