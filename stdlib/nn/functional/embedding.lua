-- stdlib/nn/functional/embedding.lua: embedding and embedding_bag under PyTorch's arguments.
-- Positions count from 1.

local declare = require "moonlet.nn.functional.declare"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local embeddings = {}

-- Scales the rows of `weight` at these positions whose norm is above `max_norm` to it, in place.
local function limit_rows(weight, positions, max_norm, norm_type)
  if not max_norm or positions:numel() == 0 then return end
  local _ <close> = ml.no_grad()
  local at = positions:reshape(-1)
  local rows = weight:detach():index_select(1, at)
  local norms = rows:norm(norm_type, 2, true)
  local limited = ml.where(norms:gt(max_norm), rows * (max_norm / (norms + 1e-7)), rows)
  weight:detach():index_put_({ at }, limited)
end

local read_embedding = declare.reader("embedding(Tensor input, Tensor weight, "
  .. "int? padding_idx=nil, number? max_norm=nil, number norm_type=2, "
  .. "bool scale_grad_by_freq=false, bool sparse=false)")

--- Embedding: looks up rows of a table by index, from 1.
--- > ml.nn.functional.embedding(ml.tensor { 2, 1 }, ml.eye(3))
---   {{0., 1., 0.},
---    {1., 0., 0.}}
---   Tensor (2, 3) float32
---@param input the indices, integers from 1
---@param weight the table, a row for each index
---@param padding_idx a row that gets no gradient; negative numbers count from the last
---@param max_norm rows that are used and whose norm exceeds it are scaled to it, in place, before
---   the look-up
---@param norm_type the exponent p of that norm
---@param scale_grad_by_freq whether a row's gradient is divided by how often the row occurs in the
---   batch
---@param sparse whether the gradient of the weight is `SparseRows`, only of the rows that were used
---@return Tensor
---@shape input (*), weight (rows, d) -> (*, d)
---@formula y_i = W[input_i]
---@error an index below 1 or above `num_embeddings`
function embeddings.embedding(...)
  local input, weight, padding_idx, max_norm, norm_type, by_freq, sparse = read_embedding(...)
  local row = layer.row("embedding", padding_idx, weight.shape[1] or 0) or 0
  limit_rows(weight, input, max_norm, norm_type)
  return ml.embedding(weight, input, row, by_freq, sparse)
end

local read_bag = declare.reader("embedding_bag(Tensor input, Tensor weight, Tensor? offsets=nil, "
  .. "number? max_norm=nil, number norm_type=2, bool scale_grad_by_freq=false, "
  .. 'string mode="mean", bool sparse=false, Tensor? per_sample_weights=nil, '
  .. "bool include_last_offset=false, int? padding_idx=nil)")

--- Embedding bag: sums, means or maxima of rows of a table. Each row of a 2-d input is a bag; a 1-d
--- input is cut into bags at `offsets`. Empty bags give zeros.
--- > ml.nn.functional.embedding_bag(ml.tensor { { 1, 2 } }, ml.eye(3), { mode = "sum" })
---   {{1., 1., 0.}}
---   Tensor (1, 3) float32
---@param input the indices, integers from 1
---@param weight the table, a row for each index
---@param offsets where in a 1-d input each bag begins, from 1
---@param max_norm rows that are used and whose norm exceeds it are scaled to it, in place, before
---   the look-up
---@param norm_type the exponent p of that norm
---@param scale_grad_by_freq whether a row's gradient is divided by how often the row occurs in the
---   batch
---@param mode how the rows of a bag are joined: "sum", "mean" or "max"
---@param sparse whether the gradient of the weight is `SparseRows`, only of the rows that were
---   used; not for the mode "max"
---@param per_sample_weights factors of the rows, in the shape of the input, for the mode "sum"
---@param include_last_offset whether the last offset is one beyond the end, so that it begins no
---   bag
---@param padding_idx a row that takes no part in bags and gets no gradient
---@return Tensor
---@shape input (bags, n), weight (rows, d) -> (bags, d)
---@shape input (n), offsets (bags), weight (rows, d) -> (bags, d)
---@formula y_b = sum_i W[input_bi]
---@error an index below 1 or above `num_embeddings`
function embeddings.embedding_bag(...)
  local input, weight, offsets, max_norm, norm_type, by_freq, mode, sparse, factors, last,
    padding_idx = read_bag(...)
  if factors and factors.shape ~= input.shape then
    options.fail("embedding_bag: 'per_sample_weights' has shape %s, 'input' %s",
      tostring(factors.shape), tostring(input.shape))
  end
  if input.ndim == 2 then
    if offsets then options.fail("embedding_bag: 'offsets' are for a flat 'input'") end
    local bags, size = input.shape[1], input.shape[2]
    offsets = ml.arange(bags, { device = input.device }):sub(1):mul(size):add(1)
    input, factors, last = input:reshape(-1), factors and factors:reshape(-1), false
  elseif input.ndim ~= 1 or not offsets then
    options.fail("embedding_bag: 'input' (bags, n), or (n) with 'offsets', is expected")
  end
  local row = layer.row("embedding_bag", padding_idx, weight.shape[1] or 0) or 0
  limit_rows(weight, input, max_norm, norm_type)
  return ml.embedding_bag(weight, input, offsets, by_freq, mode, factors, last, row, sparse)
end

return embeddings
