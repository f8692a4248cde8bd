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

--- The rows of `weight` at the positions in `input`, from 1. The row at `padding_idx` gets no
--- gradient; `max_norm` first limits the `norm_type`-norm of the rows used, in place;
--- `scale_grad_by_freq` divides the gradient of a row by how often it comes; with `sparse` that of
--- the weight, if it is a leaf, is `SparseRows`.
---@return Tensor
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

--- Sums, means or greatest elements (`mode`) of the rows of `weight` at the positions in each bag:
--- the rows of `input`, or parts of it that begin at the positions `offsets`. `sparse` is that of
--- `embedding`, not for the mode "max".
---@return Tensor
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
