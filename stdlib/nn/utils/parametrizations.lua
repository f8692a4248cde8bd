-- stdlib/nn/utils/parametrizations.lua: nn.utils.parametrizations: weights with norms of their own,
-- with a greatest singular value of 1, or orthogonal.

local class = require "moonlet.class"
local Module = require "moonlet.nn.module"
local ml = require "moonlet"
local norms = require "moonlet.nn.utils.weight_norm"
local options = require "moonlet.options"
local parametrize = require "moonlet.nn.utils.parametrize"
local signature = require "moonlet.signature"
local spectral = require "moonlet.nn.utils.spectral_norm"
local fail = options.fail

local parametrizations = {}

-- The tensor of that name of a module.
local function tensor_of(where, module, name)
  local x = module[name]
  if not ml.is_tensor(x) then
    fail("%s: %s has no parameter or buffer '%s'", where, module:describe(), name)
  end
  return x
end

local function register(module, name, parametrization)
  return parametrize.register_parametrization(module, name, parametrization, { unsafe = true })
end

local WeightNorm = class("_WeightNorm", Module)

function WeightNorm:init(dim) self.dim = dim end

function WeightNorm:forward(g, v) return norms._weight(v, g, self.dim) end

function WeightNorm:right_inverse(weight)
  return { norms._except(weight, self.dim), weight:clone() }
end

local read_weight_norm = signature("nn.utils.parametrizations.weight_norm(Module module, "
  .. 'string name="weight", int|bool dim=1)')

-- States of the older nn.utils.weight_norm have other names.
local function rename_older(name)
  return function(_, state, prefix)
    local g, v = prefix .. name .. "_g", prefix .. name .. "_v"
    if not (state[g] and state[v]) then return end
    local original = prefix .. "parametrizations." .. name .. ".original"
    state[original .. "0"], state[original .. "1"] = state[g], state[v]
    state[g], state[v] = nil, nil
  end
end

--- Weight normalisation as a parametrisation: the weight is computed from norms and direction,
--- which are trained. The norms are `parametrizations.weight.original0`, the direction `original1`.
--- > net = ml.nn.utils.parametrizations.weight_norm(ml.nn.Linear(2, 3))
--- > net.parametrizations.weight.original0.shape
---   (3, 1)
---@param module table the module
---@param name? string the name of the parameter
---@param dim? integer|boolean the dimension whose slices have norms of their own, from 1; false for
---   one norm of all
---@return table module
---@formula w = g v / ||v||
---@source Salimans and Kingma, 2016: Weight normalization
function parametrizations.weight_norm(...)
  local where = "nn.utils.parametrizations.weight_norm"
  local module, name, dim = read_weight_norm(...)
  dim = norms._dim(where, tensor_of(where, module, name), dim)
  register(module, name, WeightNorm(dim))
  module:register_load_state_dict_pre_hook(rename_older(name))
  return module
end

local SpectralNorm = class("_SpectralNorm", Module)

function SpectralNorm:init(weight, count, dim, eps)
  self.dim, self.eps = dim, eps
  if weight.ndim == 1 then return end
  self.n_power_iterations = count
  local matrix = spectral._matrix(weight:detach(), dim)
  local u, v = spectral._start(matrix, eps)
  self:register_buffer("_u", u)
  self:register_buffer("_v", v)
  local FIRST_STEPS = 15
  spectral._iterate(matrix, u, v, FIRST_STEPS, eps)
end

function SpectralNorm:forward(weight)
  if weight.ndim == 1 then return ml.normalize(weight, 2, 1, self.eps) end
  local matrix = spectral._matrix(weight, self.dim)
  if self.training then
    spectral._iterate(matrix, self._u, self._v, self.n_power_iterations, self.eps)
  end
  return spectral._divide(weight, matrix, self._u, self._v)
end

function SpectralNorm.right_inverse(_, value) return value end

local read_spectral_norm = signature("nn.utils.parametrizations.spectral_norm(Module module, "
  .. 'string name="weight", int>=1 n_power_iterations=1, number>=0 eps=1e-12, int? dim=nil)')

--- Spectral normalisation as a parametrisation: the weight is divided by its largest singular
--- value. The singular value is followed by power iteration each time the weight is used in
--- training mode.
--- > net = ml.nn.utils.parametrizations.spectral_norm(ml.nn.Linear(2, 3))
--- > net.weight.shape
---   (3, 2)
---@param module table the module
---@param name? string the name of the parameter
---@param n_power_iterations? integer how many steps of the power iteration each training call makes
---@param eps? number the least norm of the vectors
---@param dim? integer the dimension of the outputs: 1, but 2 for transposed convolutions, unless
---   given
---@return table module
---@formula w = W / sigma(W), sigma(W) = u^T W v
---@source Miyato et al., 2018: Spectral normalization for generative adversarial networks
function parametrizations.spectral_norm(...)
  local where = "nn.utils.parametrizations.spectral_norm"
  local module, name, count, eps, dim = read_spectral_norm(...)
  local weight = tensor_of(where, module, name)
  dim = norms._dim(where, weight, spectral._output_dim(module, dim))
  return register(module, name, SpectralNorm(weight, count, dim, eps))
end

local function eye_like(x, n) return ml.eye(n, { dtype = x.dtype, device = x.device }) end

local function is_orthogonal(q)
  local gram = ml.matmul(q:transpose(-2, -1), q)
  local step = 10 * q.shape[q.ndim - 1] * ml.finfo(q.dtype).eps
  return (gram - eye_like(q, q.shape[q.ndim])):abs():max():item() <= step
end

local function make_orthogonal(x)
  local q, r = ml.linalg.qr(x)
  return q * r:diagonal(0, -2, -1):sgn():unsqueeze(-2)
end

local Orthogonal = class("_Orthogonal", Module)

function Orthogonal:init(weight, map, use_trivialization)
  self.map, self.use_trivialization = map, use_trivialization
  rawset(self, "size", weight.shape)
  if use_trivialization then
    self:register_buffer("base", nil)
  elseif map ~= "householder" then
    -- Nothing says which skew matrix stands behind an orthogonal one.
    rawset(self, "right_inverse", false)
  end
end

-- The orthogonal matrix of a skew one, of which `x` (..., n, k) has the lower half.
local function of_skew(x, map, n, k)
  x = x:tril()
  if n ~= k then
    local size = x.shape:totable()
    size[#size] = n - k
    x = ml.cat({ x, ml.zeros(size, { dtype = x.dtype, device = x.device }) }, -1)
  end
  local a = x - x:transpose(-2, -1)
  local q
  if map == "matrix_exp" then
    q = ml.linalg.matrix_exp(a)
  else
    local id = eye_like(a, n)
    q = ml.linalg.solve(id - a * 0.5, id + a * 0.5)
  end
  return n == k and q or q:narrow(-1, 1, k)
end

-- The product of the reflections whose vectors stand below the diagonal of `x`, where signs are.
local function of_reflections(x)
  local a = x:tril(-1)
  local tau = 2 / (1 + (a * a):sum(-2))
  local signs = x:diagonal(0, -2, -1):detach():trunc()
  return ml.linalg.householder_product(a, tau) * signs:unsqueeze(-2)
end

function Orthogonal:forward(x)
  local n, k = x.shape[x.ndim - 1], x.shape[x.ndim]
  local turned = n < k
  if turned then x, n, k = x:transpose(-2, -1), k, n end
  local q = self.map == "householder" and of_reflections(x) or of_skew(x, self.map, n, k)
  if self.use_trivialization then q = ml.matmul(self.base, q) end
  return turned and q:transpose(-2, -1) or q
end

-- A matrix from which the map gives the identity's columns, and `base` for what they are to be.
local function trivial(self, q, n, k, like)
  if n ~= k then
    local size = q.shape:totable()
    size[#size] = n - k
    q = make_orthogonal(ml.cat({ q, ml.randn(size, { dtype = q.dtype, device = q.device }) }, -1))
  elseif is_orthogonal(q) then
    q = q:clone()
  else
    q = make_orthogonal(q)
  end
  self.base = q
  local rows, columns = like.shape[like.ndim - 1], like.shape[like.ndim]
  return ml.zeros_like(like) - ml.eye(rows, columns, { dtype = like.dtype, device = like.device })
end

function Orthogonal:right_inverse(q)
  if q.shape ~= self.size then
    fail("orthogonal: a tensor of shape %s is expected, got %s", tostring(self.size),
      tostring(q.shape))
  end
  local _ <close> = ml.no_grad()
  local like, n, k = q, q.shape[q.ndim - 1], q.shape[q.ndim]
  local turned = n < k
  if turned then q, n, k = q:transpose(-2, -1), k, n end
  if self.use_trivialization then return trivial(self, q, n, k, like) end
  local a, tau = ml.geqrf(q)
  local diagonal = a:diagonal(0, -2, -1):sign()
  diagonal = ml.where(tau:eq(0), -diagonal, diagonal)
  a = a:clone()
  a:diagonal(0, -2, -1):copy_(diagonal)
  return turned and a:transpose(-2, -1) or a
end

signature.add_choice("OrthogonalMap", { "matrix_exp", "cayley", "householder" })
local read_orthogonal = signature("nn.utils.parametrizations.orthogonal(Module module, "
  .. 'string name="weight", OrthogonalMap? orthogonal_map=nil, bool use_trivialization=true)')

--- Orthogonal parametrisation: the columns of the weight are orthonormal, or where there are more
--- columns than rows its rows.
--- > net = ml.nn.utils.parametrizations.orthogonal(ml.nn.Linear(2, 2))
--- > (net.weight:matmul(net.weight:t()) - ml.eye(2)):abs():max():item() < 1e-5
---   true
---@param module table the module
---@param name? string the name of the parameter
---@param orthogonal_map? string "matrix_exp" (for square weights unless given), "cayley" or
---   "householder"
---@param use_trivialization? boolean whether the start is kept as a buffer, by which the map's
---   result is multiplied
---@return table module
---@shape weight (*, m, n)
---@formula "matrix_exp": Q = exp(A), where A = -A^T
---@formula "cayley": Q = (I - A / 2)^-1 (I + A / 2), where A = -A^T
---@formula "householder": Q = (I - tau_1 v_1 v_1^T) ... (I - tau_k v_k v_k^T)
---@source Lezcano-Casado, 2019: Trivializations for gradient-based optimization on manifolds
function parametrizations.orthogonal(...)
  local where = "nn.utils.parametrizations.orthogonal"
  local module, name, map, use_trivialization = read_orthogonal(...)
  local weight = tensor_of(where, module, name)
  if weight.ndim < 2 then
    fail("%s: a matrix or a batch of matrices is expected, got shape %s", where,
      tostring(weight.shape))
  end
  local square = weight.shape[weight.ndim] == weight.shape[weight.ndim - 1]
  map = map or square and "matrix_exp" or "householder"
  return register(module, name, Orthogonal(weight, map, use_trivialization))
end

return options.namespace("nn.utils.parametrizations", parametrizations)
