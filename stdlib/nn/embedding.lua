-- stdlib/nn/embedding.lua: Embedding and EmbeddingBag: rows of a table by position.

local functions = require "moonlet.nn.functional.embedding"
local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

local layers = {}

local LIMITS = ", number? max_norm=nil, number norm_type=2, bool scale_grad_by_freq=false"

local GIVEN = ", Tensor? _weight=nil, bool _freeze=false"

local function reset(self)
  init.normal_(self.weight)
  if self.padding_idx then init.zeros_(self.weight:detach()[self.padding_idx]) end
end

-- The table of a new layer, and the options that both layers have.
local function set_up(self, name, o)
  for _, option in ipairs { "num_embeddings", "embedding_dim", "max_norm", "norm_type",
    "scale_grad_by_freq", "sparse" } do
    self[option] = o[option]
  end
  self.padding_idx = layer.row(name, o.padding_idx, o.num_embeddings)
  if o._weight then
    local s = o._weight.shape
    if #s ~= 2 or s[1] ~= o.num_embeddings or s[2] ~= o.embedding_dim then
      options.fail("nn.%s: '_weight' has shape %s, (%d, %d) is expected", name, tostring(s),
        o.num_embeddings, o.embedding_dim)
    end
    self.weight = parameter.new(o._weight, not o._freeze)
    return
  end
  self.weight = layer.parameter({ o.num_embeddings, o.embedding_dim }, o)
  self.weight:requires_grad_(not o._freeze)
  reset(self)
end

-- The function that makes such a layer from a table; `read` has its options behind the table.
local function from_pretrained(cls, read)
  return function(...)
    local o = read:table(...)
    local table_of_rows = o.embeddings
    if table_of_rows.ndim ~= 2 then
      options.fail("%s: 'embeddings' has shape %s, (rows, features) is expected", read.where,
        tostring(table_of_rows.shape))
    end
    o._weight, o._freeze, o.embeddings, o.freeze = table_of_rows, o.freeze, nil, nil
    o.num_embeddings, o.embedding_dim = table_of_rows.shape[1], table_of_rows.shape[2]
    return cls(o)
  end
end

-- The options that are not as usual.
local function described(self)
  local parts = { tostring(self.num_embeddings), tostring(self.embedding_dim) }
  for _, option in ipairs { "padding_idx", "max_norm" } do
    if self[option] then parts[#parts + 1] = option .. " " .. self[option] end
  end
  if self.norm_type ~= 2 then parts[#parts + 1] = "norm_type " .. self.norm_type end
  for _, option in ipairs { "scale_grad_by_freq", "sparse" } do
    if self[option] then parts[#parts + 1] = option end
  end
  return parts
end

--- Embedding: looks up rows of a learned table by index, from 1. The rows start from the standard
--- normal distribution.
--- > ml.nn.Embedding(10, 4)(ml.tensor { 1, 10 }).shape
---   (2, 4)
---@param num_embeddings how many rows the table has
---@param embedding_dim the size of each row
---@param padding_idx a row that starts as zeros and gets no gradient; negative numbers count from
---   the last
---@param max_norm rows that are used and whose norm exceeds it are scaled to it, in place, before
---   the look-up
---@param norm_type the exponent p of that norm
---@param scale_grad_by_freq whether a row's gradient is divided by how often the row occurs in the
---   batch
---@param sparse whether the gradient of the weight is `SparseRows`, only of the rows that were used
---@param _weight the table to start from, (num_embeddings, embedding_dim): drawn unless given
---@param _freeze whether the table is kept out of training
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*) integers from 1 to num_embeddings -> (*, embedding_dim)
---@formula y_i = W[input_i]
---@error an index below 1 or above `num_embeddings`
---@field weight moonlet.Tensor The parameter W of shape (num_embeddings, embedding_dim).
layers.Embedding = layer.define("Embedding", "int>=1 num_embeddings, int>=1 embedding_dim, "
  .. "int? padding_idx=nil" .. LIMITS .. ", bool sparse=false"
  .. GIVEN .. layer.factory, function(self, o) set_up(self, "Embedding", o) end)

local make_embedding = from_pretrained(layers.Embedding, signature(
  "nn.Embedding.from_pretrained(Tensor embeddings, bool freeze=true, int? padding_idx=nil" .. LIMITS
  .. ", bool sparse=false)"))

--- Draws the rows anew from the standard normal distribution; that at `padding_idx` is zeros.
function layers.Embedding:reset_parameters() reset(self) end

function layers.Embedding:forward(index)
  if self.max_norm then
    return layer.run(self, functions.embedding, index, self.weight, self.padding_idx, self.max_norm,
      self.norm_type, self.scale_grad_by_freq, self.sparse)
  end
  return layer.run(self, ml.embedding, self.weight, index, self.padding_idx or 0,
    self.scale_grad_by_freq, self.sparse)
end

function layers.Embedding:extra_repr() return table.concat(described(self), ", ") end

--- Embedding layer with the rows of a given tensor, on its memory. The other options are those of
--- the constructor, by name.
--- > ml.nn.Embedding.from_pretrained(ml.eye(3))(ml.tensor { 2 })
---   {{0., 1., 0.}}
---   Tensor (1, 3) float32
---@param ... further options of the constructor
---@param embeddings moonlet.Tensor the table, (num_embeddings, embedding_dim)
---@param freeze? boolean whether the table is kept out of training
---@return moonlet.nn.Embedding
---@shape embeddings (num_embeddings, embedding_dim)
function layers.Embedding.from_pretrained(...) return make_embedding(...) end

--- Embedding bag: sums, means or maxima of rows of a learned table, without the rows in between.
--- Called as `bag(input)` each row of the input is a bag; called as `bag(input, offsets)` the input
--- is one list of indices, in which bag i begins at position offsets[i], from 1.
--- `per_sample_weights`, a third argument with the shape of the input, are factors of the rows, for
--- the mode "sum". Empty bags give zeros.
--- > ml.nn.EmbeddingBag(10, 4)(ml.tensor { 1, 10, 3 }, ml.tensor { 1, 3 }).shape
---   (2, 4)
---@param num_embeddings how many rows the table has
---@param embedding_dim the size of each row
---@param max_norm rows that are used and whose norm exceeds it are scaled to it, in place, before
---   the look-up
---@param norm_type the exponent p of that norm
---@param scale_grad_by_freq whether a row's gradient is divided by how often the row occurs in the
---   batch
---@param mode how the rows of a bag are joined: "sum", "mean" or "max"
---@param sparse whether the gradient of the weight is `SparseRows`, only of the rows that were
---   used; not for the mode "max"
---@param include_last_offset whether the last offset is one beyond the end, so that it begins no
---   bag
---@param padding_idx a row that takes no part in bags and gets no gradient
---@param _weight the table to start from, (num_embeddings, embedding_dim): drawn unless given
---@param _freeze whether the table is kept out of training
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (bags, n) -> (bags, embedding_dim)
---@shape input (n), offsets (bags) -> (bags, embedding_dim)
---@formula y_b = sum_i W[input_bi]
---@error an index below 1 or above `num_embeddings`
---@field weight moonlet.Tensor The parameter W of shape (num_embeddings, embedding_dim).
layers.EmbeddingBag = layer.define("EmbeddingBag", "int>=1 num_embeddings, int>=1 embedding_dim"
  .. LIMITS .. ', string mode="mean", bool sparse=false, bool include_last_offset=false, '
  .. "int? padding_idx=nil" .. GIVEN .. layer.factory,
  function(self, o)
    self.mode, self.include_last_offset = o.mode, o.include_last_offset
    set_up(self, "EmbeddingBag", o)
  end)

local make_bag = from_pretrained(layers.EmbeddingBag, signature(
  "nn.EmbeddingBag.from_pretrained(Tensor embeddings, bool freeze=true" .. LIMITS
  .. ', string mode="mean", bool sparse=false, bool include_last_offset=false, '
  .. "int? padding_idx=nil)"))

--- Embedding bag with the rows of a given tensor, on its memory. The other options are those of the
--- constructor, by name.
--- > ml.nn.EmbeddingBag.from_pretrained(ml.eye(3), { mode = "sum" })(ml.tensor { { 1, 3 } })
---   {{1., 0., 1.}}
---   Tensor (1, 3) float32
---@param ... further options of the constructor
---@param embeddings moonlet.Tensor the table, (num_embeddings, embedding_dim)
---@param freeze? boolean whether the table is kept out of training
---@return moonlet.nn.EmbeddingBag
---@shape embeddings (num_embeddings, embedding_dim)
function layers.EmbeddingBag.from_pretrained(...) return make_bag(...) end

--- Draws the rows anew from the standard normal distribution; that at `padding_idx` is zeros.
function layers.EmbeddingBag:reset_parameters() reset(self) end

function layers.EmbeddingBag:forward(index, offsets, per_sample_weights)
  return layer.run(self, functions.embedding_bag, index, self.weight, offsets, self.max_norm,
    self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
    self.include_last_offset, self.padding_idx)
end

layers.EmbeddingBag._inputs = { "input", "offsets", "per_sample_weights" }

function layers.EmbeddingBag:extra_repr()
  local parts = described(self)
  parts[#parts + 1] = "mode " .. self.mode
  return table.concat(parts, ", ")
end

return layers
