-- interp/meta/sparse.lua: gradients of embeddings that hold the rows that were used, for editors,
-- help() and the reference.

--- The gradient of a weight that only `sparse` embeddings used: the rows that were used, where a
--- tensor of the weight's shape would be zeros for the most part. `optim.SGD`, `optim.Adagrad` and
--- `optim.SparseAdam` take it. Ops do not: `g:to_dense()` is a tensor. Where the weight is used
--- otherwise too, is no leaf or has hooks that see its gradient, in `ml.grad` and with
--- `create_graph`, the gradient is a tensor.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:coalesce():indices()
---   {{2, 4}}
---   Tensor (1, 2) int64
---@class moonlet.SparseRows
---@field shape moonlet.Shape The sizes of the dense tensor.
---@field dtype moonlet.dtype The type of the elements.
---@field device string Where the memory is: "cpu", "cuda:0".
---@field ndim integer The number of dimensions, 2.
---@field is_sparse boolean True, where it is false for a tensor.
---@field is_cuda boolean Whether it is on a CUDA device.
---@field requires_grad boolean False: it is no part of a graph.
local SparseRows = {}

--- The indices of the rows, from 1, in the order in which they came. Until `g:coalesce()` one may
--- come several times.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:indices()
---   {{4, 2, 4}}
---   Tensor (1, 3) int64
---@return moonlet.Tensor
---@shape -> (1, n)
function SparseRows:indices() end

--- The same as `g:indices()`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:_indices()
---   {{4, 2, 4}}
---   Tensor (1, 3) int64
---@return moonlet.Tensor
---@shape -> (1, n)
function SparseRows:_indices() end

--- The rows at these indices, not a copy. Those of one index add up.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:values()
---   {{1., 1.},
---    {1., 1.},
---    {1., 1.}}
---   Tensor (3, 2) float32
---@return moonlet.Tensor
---@shape -> (n, features)
function SparseRows:values() end

--- The same as `g:values()`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:_values()
---   {{1., 1.},
---    {1., 1.},
---    {1., 1.}}
---   Tensor (3, 2) float32
---@return moonlet.Tensor
---@shape -> (n, features)
function SparseRows:_values() end

--- The number of rows.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:_nnz()
---   3
---@return integer
function SparseRows:_nnz() end

--- The same gradient as a tensor.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:to_dense()
---   {{0., 0.},
---    {1., 1.},
---    {0., 0.},
---    {2., 2.},
---    {0., 0.}}
---   Tensor (5, 2) float32
---@return moonlet.Tensor
---@shape -> (rows, features)
function SparseRows:to_dense() end

--- The same gradient with each index once, in ascending order; itself when it is so already.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:coalesce():values()
---   {{1., 1.},
---    {2., 2.}}
---   Tensor (2, 2) float32
---@return moonlet.SparseRows
function SparseRows:coalesce() end

--- Whether each index is known to come once, in ascending order.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:is_coalesced()
---   false
---@return boolean
function SparseRows:is_coalesced() end

--- The sizes of the dense tensor, or one of them.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:size(), g:size(1)
---   (5, 2)	5
---@param dim? integer dimension, counted from 1; negative ones count from the last
---@return moonlet.Shape|integer
function SparseRows:size(dim) end

--- The number of dimensions, 2.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:dim()
---   2
---@return integer
function SparseRows:dim() end

--- The number of elements of the dense tensor.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:numel()
---   10
---@return integer
function SparseRows:numel() end

--- The number of dimensions that the indices are for, 1.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:sparse_dim()
---   1
---@return integer
function SparseRows:sparse_dim() end

--- The number of dimensions of a row, 1.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:dense_dim()
---   1
---@return integer
function SparseRows:dense_dim() end

--- A copy with memory of its own.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:clone():_nnz()
---   3
---@return moonlet.SparseRows
function SparseRows:clone() end

--- Another gradient on the same values; it keeps its rows when backward adds some to `g`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:detach():_nnz()
---   3
---@return moonlet.SparseRows
function SparseRows:detach() end

--- Multiplies all values by a factor. Returns `g`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:mul_(0.5):values()
---   {{0.5000, 0.5000},
---    {0.5000, 0.5000},
---    {0.5000, 0.5000}}
---   Tensor (3, 2) float32
---@param factor number|moonlet.Tensor a number, or a tensor of one element
---@return moonlet.SparseRows g
function SparseRows:mul_(factor) end

--- Removes all rows, so that the gradient is 0. Returns `g`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:zero_():_nnz()
---   0
---@return moonlet.SparseRows g
function SparseRows:zero_() end

--- The gradient converted to a dtype and copied to a device; the arguments are those of `x:to`.
--- > embedding = ml.nn.Embedding(5, 2, { sparse = true })
--- > embedding(ml.tensor { 4, 2, 4 }):sum():backward()
--- > g = embedding.weight.grad
--- > g:to("float64").dtype
---   float64
---@param ... any a dtype, a device, a tensor whose both are taken, or a table of options
---@return moonlet.SparseRows
---@see to
function SparseRows:to(...) end
