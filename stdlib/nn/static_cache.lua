-- stdlib/nn/static_cache.lua: ml.nn.StaticCache: the keys and values of the tokens that a decoder
-- has seen, in memory that does not move, and the drawing of token after token by it.

local class = require "moonlet.class"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local signature = require "moonlet.signature"
local fail = require("moonlet.options").fail

--- The keys and values of the tokens that a decoder has seen, for each of its layers in memory that
--- does not move: attention to them computes those of new tokens alone, and a CUDA graph can record
--- the step. The module's `forward(ids, cache)` asks `cache:positions(steps)`, each layer gives its
--- keys and values to `cache:update(layer, k, v)` and attends to what that returns, and at the end
--- `cache:advance(steps)` is called. To be used inside `ml.no_grad()`.
--- > cache = ml.nn.StaticCache(1, 2, 8, 4)
--- > k, v, options = cache:update(1, ml.ones(1, 2, 3, 4), ml.ones(1, 2, 3, 4))
--- > k.shape, options.is_causal
---   (1, 2, 3, 4)	true
--- > cache:advance(3)
--- > cache.seen
---   3
---@param num_layers integer how many layers have keys and values
---@param num_heads integer heads of each
---@param max_length integer tokens that fit in, as many as the decoder has positions
---@param head_dim integer numbers of a key and of a value
---@param batch_size? integer texts at once
---@param device? string where the memory is
---@param dtype? string of the keys and values
---@field seen integer How many tokens the cache holds.
---@field max_length integer How many it can hold.
---@source Pope et al., 2022: Efficiently scaling transformer inference
local StaticCache = class.strict(class("StaticCache"), { "_position", "_reach", "_mask" })

local reader = signature("nn.StaticCache(int>=1 num_layers, int>=1 num_heads, int>=1 max_length, "
  .. "int>=1 head_dim, int>=1 batch_size=1" .. layer.factory .. ")")

function StaticCache:init(...)
  local o = reader:table(...)
  local sizes = { o.batch_size, o.num_heads, o.max_length, o.head_dim }
  self.max_length, self.seen = o.max_length, 0
  self._layers = {}
  for i = 1, o.num_layers do
    -- Zeros: what a mask hides must still be numbers.
    self._layers[i] = { k = ml.zeros(sizes, { device = o.device, dtype = o.dtype }),
      v = ml.zeros(sizes, { device = o.device, dtype = o.dtype }) }
  end
end

local function check_room(self, what, steps)
  if steps <= self.max_length - self.seen then return end
  fail("%s: %d tokens for a cache that has %d of %d", what, steps, self.seen, self.max_length)
end

local function device_of(self) return self._layers[1].k.device end

local read_positions = signature "StaticCache:positions(int>=1 steps)"

--- The positions of the next tokens, from 1. To be asked before the layers run.
--- > cache = ml.nn.StaticCache(1, 2, 8, 4)
--- > cache:advance(3)
--- > cache:positions(2):tolist()
---   {4, 5}
---@param steps integer how many tokens
---@return moonlet.Tensor positions
---@shape -> (steps)
---@error more tokens than there is room for
function StaticCache:positions(...)
  local steps = read_positions(...)
  check_room(self, "positions", steps)
  if not self._position then
    return ml.arange(self.seen + 1, self.seen + steps, { device = device_of(self) })
  end
  self._mask = ml.arange(1, self._reach, { device = device_of(self) }):le(self._position)
  return self._position
end

local function check_sizes(self, name, x, kept)
  local wanted, got = kept.shape, ml.is_tensor(x) and x.shape
  local fits = got and #got == 4 and got[1] == wanted[1] and got[2] == wanted[2]
    and got[4] == wanted[4]
  if not fits then
    fail("update: '%s' must have shape (%d, %d, steps, %d), got %s", name, wanted[1], wanted[2],
      wanted[4], got and tostring(got) or signature.describe(x))
  end
  check_room(self, "update", got[3])
end

-- Which keys each of some tokens behind others may see.
local function mask_of(self, steps)
  local seen, on = self.seen, { device = device_of(self) }
  return ml.arange(1, seen + steps, on):le(ml.arange(seen + 1, seen + steps, on):unsqueeze(2))
end

local read_update = signature "StaticCache:update(int>=1 layer, Tensor k, Tensor v)"

--- Keeps the keys and values of the next tokens in a layer, and gives those of all tokens up to
--- them, with the options by which `nn.functional.scaled_dot_product_attention` hides later ones.
--- > cache = ml.nn.StaticCache(2, 1, 4, 2)
--- > q, k, v = ml.rand(1, 1, 3, 2), ml.rand(1, 1, 3, 2), ml.rand(1, 1, 3, 2)
--- > keys, values, options = cache:update(2, k, v)
--- > ml.nn.functional.scaled_dot_product_attention(q, keys, values, options).shape
---   (1, 1, 3, 2)
---@param layer integer number of the layer, from 1
---@param k moonlet.Tensor keys of the next tokens
---@param v moonlet.Tensor their values
---@return moonlet.Tensor keys
---@return moonlet.Tensor values
---@return table options `attn_mask` or `is_causal`
---@shape k and v (batch_size, num_heads, steps, head_dim)
---@error other shapes, or more tokens than there is room for
function StaticCache:update(...)
  local number, k, v = read_update(...)
  local kept = self._layers[number]
  if not kept then fail("update: layer %d of %d", number, #self._layers) end
  check_sizes(self, "k", k, kept.k)
  check_sizes(self, "v", v, kept.v)
  local steps, reach = k.shape[3], self._reach or self.seen + k.shape[3]
  if self._position then
    kept.k:index_copy_(3, self._position, k)
    kept.v:index_copy_(3, self._position, v)
  else
    kept.k:narrow(3, self.seen + 1, steps):copy_(k)
    kept.v:narrow(3, self.seen + 1, steps):copy_(v)
  end
  local options = { is_causal = steps > 1 and self.seen == 0 }
  if self._mask then
    options.attn_mask = self._mask
  elseif steps > 1 and self.seen > 0 then
    options.attn_mask = mask_of(self, steps)
  end
  return kept.k:narrow(3, 1, reach), kept.v:narrow(3, 1, reach), options
end

local read_advance = signature "StaticCache:advance(int>=1 steps)"

--- Says that all layers have kept the keys and values of the next tokens.
--- > cache = ml.nn.StaticCache(1, 1, 4, 2)
--- > cache:advance(2)
--- > cache.seen
---   2
---@param steps integer how many tokens
---@error more tokens than there is room for
function StaticCache:advance(...)
  local steps = read_advance(...)
  check_room(self, "advance", steps)
  self.seen = self.seen + steps
end

local read_nothing = signature "StaticCache:reset()"

--- Forgets all tokens; the memory stays where it is.
--- > cache = ml.nn.StaticCache(1, 1, 4, 2)
--- > cache:advance(2)
--- > cache:reset()
--- > cache.seen
---   0
function StaticCache:reset(...)
  read_nothing(...)
  self.seen, self._position, self._reach, self._mask = 0, nil, nil, nil
  for _, kept in ipairs(self._layers) do
    kept.k:zero_()
    kept.v:zero_()
  end
end

-- On a CUDA device a step is recorded once and then done again for each token, in one call: it
-- reads the token, and its position, from memory that it leaves the next ones in. As keys that are
-- not there yet are hidden, not left out, it is recorded anew whenever the text is twice as long.
local function recorded_step(self, draw, new)
  local token, graph = new:clone(), nil
  self._position = ml.tensor({ self.seen + 1 }, { device = token.device })
  self._reach = 0
  local function step()
    token:copy_(draw(token))
    self._position:add_(1)
  end
  return function()
    local seen = self.seen
    if seen + 1 > self._reach then
      -- The first one is not recorded: it makes what is made once.
      self._reach, graph = math.min(math.max(16, 2 * seen), self.max_length), nil
      step()
    else
      graph = graph or ml.cuda.graph(step)
      graph:replay()
    end
    self.seen = seen + 1
    return token:clone()
  end
end

local read_generate = signature "StaticCache:generate(Tensor ids, function draw)"

--- Returns a function that gives the next token of a text at each call, by steps of one token; on a
--- CUDA device they are replays of a CUDA graph. When the cache is full, the last half of the text
--- begins it anew.
--- > net = ml.nn.Embedding(5, 5)
--- > cache = ml.nn.StaticCache(1, 1, 8, 2)
--- > draw = function(ids) cache:advance(#ids) return net(ids)[-1]:argmax():reshape(1) end
--- > next_token = cache:generate(ml.tensor { 2, 3 }, draw)
--- > next_token().shape
---   (1,)
---@param ids moonlet.Tensor the tokens that the text begins with
---@param draw fun(ids: moonlet.Tensor): moonlet.Tensor gives the token behind `ids`, which are
---   those behind what the cache has seen; on a CUDA device it may not wait for it
---@return fun(): moonlet.Tensor next_token
---@shape ids (tokens) -> (1)
---@error no tokens, or more than there is room for
function StaticCache:generate(...)
  local ids, draw = read_generate(...)
  if ids.ndim ~= 1 or #ids == 0 then
    fail("generate: 'ids' must be a vector of tokens, got shape %s", tostring(ids.shape))
  end
  self:reset()
  check_room(self, "generate", #ids)
  local new, step = ids, nil
  return function()
    local token = step and step() or draw(new)
    ids, new = ml.cat { ids, token }, token
    if self.seen == self.max_length then
      self:reset()
      new, step = ids[{ { -math.max(self.max_length // 2, 1), -1 } }], nil
    elseif token.is_cuda and not step then
      step = recorded_step(self, draw, token)
    end
    return token
  end
end

return { StaticCache = StaticCache }
