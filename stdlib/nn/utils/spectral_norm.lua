-- stdlib/nn/utils/spectral_norm.lua: nn.utils.spectral_norm, the older form of
-- nn.utils.parametrizations.spectral_norm, and the power iteration that both take.

local computed = require "moonlet.nn.utils.computed"
local ml = require "moonlet"
local norms = require "moonlet.nn.utils.weight_norm"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

local spectral = {}

--- `weight` as a matrix whose rows are the slices along `dim`.
---@param weight moonlet.Tensor
---@param dim integer
---@return moonlet.Tensor
function spectral._matrix(weight, dim)
  if dim ~= 1 then weight = weight:transpose(1, dim) end
  if weight.ndim == 1 then return weight:unsqueeze(2) end
  return weight:flatten(2)
end

--- Moves `u` and `v` towards the first singular vectors of a matrix, in place and off the tape.
---@param matrix moonlet.Tensor
---@param u moonlet.Tensor
---@param v moonlet.Tensor
---@param count integer steps
---@param eps number
function spectral._iterate(matrix, u, v, count, eps)
  local _ <close> = ml.no_grad()
  matrix = matrix:detach()
  for _ = 1, count do
    u:copy_(ml.normalize(ml.mv(matrix, v), 2, 1, eps))
    v:copy_(ml.normalize(ml.mv(matrix:t(), u), 2, 1, eps))
  end
end

--- Two vectors to start from, for a matrix.
---@param matrix moonlet.Tensor
---@param eps number
---@return moonlet.Tensor u
---@return moonlet.Tensor v
function spectral._start(matrix, eps)
  local like = { dtype = matrix.dtype, device = matrix.device }
  local _ <close> = ml.no_grad()
  return ml.normalize(ml.randn({ matrix.shape[1] }, like), 2, 1, eps),
    ml.normalize(ml.randn({ matrix.shape[2] }, like), 2, 1, eps)
end

--- The dimension that a module's weight has its outputs in.
---@param module table
---@param dim? integer
---@return integer
function spectral._output_dim(module, dim)
  if dim then return dim end
  return module.__name and module.__name:find "^ConvTranspose" and 2 or 1
end

--- `weight` divided by its greatest singular value, that of the vectors `u` and `v`.
---@param weight moonlet.Tensor
---@param matrix moonlet.Tensor
---@param u moonlet.Tensor
---@param v moonlet.Tensor
---@return moonlet.Tensor
function spectral._divide(weight, matrix, u, v)
  return weight / (u:clone() * ml.mv(matrix, v:clone())):sum()
end

local KIND = "spectral_norm"
local read = signature('nn.utils.spectral_norm(Module module, string name="weight", '
  .. "int>=1 n_power_iterations=1, number>=0 eps=1e-12, int? dim=nil)")

local function compute_with(name)
  return function(self, record)
    local weight = self[name .. "_orig"]
    local matrix = spectral._matrix(weight, record.dim)
    local u, v = self[name .. "_u"], self[name .. "_v"]
    -- This form begins with `v`.
    if self.training then spectral._iterate(matrix:t(), v, u, record.count, record.eps) end
    return spectral._divide(weight, matrix, u, v)
  end
end

--- Spectral normalisation: divides a parameter by its largest singular value before each call. The
--- singular value is followed by power iteration in training mode; the parameter becomes
--- `weight_orig`. Newer scripts use `parametrizations.spectral_norm`.
--- > ml.nn.utils.spectral_norm(ml.nn.Linear(2, 3)).weight_u.shape
---   (3,)
---@param module table the module
---@param name? string the name of the parameter
---@param n_power_iterations? integer how many steps of the power iteration each training call makes
---@param eps? number the least norm of the vectors
---@param dim? integer the dimension of the outputs: 1, but 2 for transposed convolutions, unless
---   given
---@return table module
---@formula w = W / sigma(W), sigma(W) = u^T W v
---@source Miyato et al., 2018: Spectral normalization for generative adversarial networks
function spectral.spectral_norm(...)
  local module, name, count, eps, dim = read(...)
  local where = "nn.utils.spectral_norm"
  local weight = computed.parameter_of(where, module, name)
  dim = norms._dim(where, weight, spectral._output_dim(module, dim))
  module:_forget(name)
  local u, v = spectral._start(spectral._matrix(weight:detach(), dim), eps)
  module[name .. "_orig"] = weight
  module:register_buffer(name .. "_u", u)
  module:register_buffer(name .. "_v", v)
  computed.install(module, name, { kind = KIND, first = weight:detach(), dim = dim,
    count = count, eps = eps,
    compute = compute_with(name) })
  return module
end

local read_remove = signature 'nn.utils.remove_spectral_norm(Module module, string name="weight")'

--- Undoes `spectral_norm`: the weight is a parameter again, with its present value.
--- > net = ml.nn.utils.spectral_norm(ml.nn.Linear(2, 3))
--- > ml.nn.utils.remove_spectral_norm(net)
---   Linear(2 -> 3)         9
---   9 parameters
---@param module table the module
---@param name? string the name of the parameter
---@return table module
---@error the parameter has no spectral normalisation
function spectral.remove_spectral_norm(...)
  local module, name = read_remove(...)
  local record = computed.remove("nn.utils.remove_spectral_norm", module, name, KIND)
  local weight = module[name .. "_orig"]
  local _ <close> = ml.no_grad()
  local divided = spectral._divide(weight, spectral._matrix(weight, record.dim),
    module[name .. "_u"], module[name .. "_v"])
  for _, field in ipairs { "_orig", "_u", "_v" } do module:_forget(name .. field) end
  module[name] = parameter.new(divided)
  return module
end

return spectral
