-- stdlib/nn/linear.lua: Linear, Embedding and Identity.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

--- `x` times the transposed weight plus bias: `(..., in_features)` to `(..., out_features)`.
layers.Linear = layer.define("Linear", layer.with_factory {
  { "in_features" }, { "out_features" }, { "bias", true },
}, function(self, o)
  self.in_features = options.integer("Linear", "in_features", o.in_features, 0)
  self.out_features = options.integer("Linear", "out_features", o.out_features, 0)
  self.weight = layer.parameter({ o.out_features, o.in_features }, o)
  if options.boolean("Linear", "bias", o.bias) then
    self.bias = layer.parameter({ o.out_features }, o)
  end
  self:reset_parameters()
end)

function layers.Linear:reset_parameters()
  local bound = 1 / math.sqrt(math.max(self.in_features, 1))
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

function layers.Linear:forward(x)
  return layer.run(self, ml.linear, x, self.weight, self.bias)
end

function layers.Linear:extra_repr()
  return ("%d -> %d%s"):format(self.in_features, self.out_features,
    self.bias and "" or ", no bias")
end

--- Rows of a table of `num_embeddings` vectors, by position from 1: `(...)` to
--- `(..., embedding_dim)`. The row at `padding_idx` starts as zeros and is not trained.
layers.Embedding = layer.define("Embedding", layer.with_factory {
  { "num_embeddings" }, { "embedding_dim" }, { "padding_idx", options.none },
}, function(self, o)
  self.num_embeddings = options.integer("Embedding", "num_embeddings", o.num_embeddings, 1)
  self.embedding_dim = options.integer("Embedding", "embedding_dim", o.embedding_dim, 1)
  self.padding_idx = o.padding_idx
  if o.padding_idx then
    options.integer("Embedding", "padding_idx", o.padding_idx, 1)
    if o.padding_idx > o.num_embeddings then
      options.fail("Embedding: 'padding_idx' %d is past the %d rows", o.padding_idx,
        o.num_embeddings)
    end
  end
  self.weight = layer.parameter({ o.num_embeddings, o.embedding_dim }, o)
  init.normal_(self.weight)
  if o.padding_idx then init.zeros_(self.weight:detach()[o.padding_idx]) end
end)

function layers.Embedding:forward(index)
  return layer.run(self, ml.embedding, self.weight, index, self.padding_idx or 0)
end

function layers.Embedding:extra_repr()
  return ("%d, %d"):format(self.num_embeddings, self.embedding_dim)
end

--- Gives back what it gets.
layers.Identity = class("Identity", Module)

function layers.Identity:init() end

function layers.Identity:forward(...) return ... end

return layers
