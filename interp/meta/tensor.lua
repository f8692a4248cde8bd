-- interp/meta/tensor.lua: the fields of tensors and their methods that are no ops, for editors,
-- help() and the reference.

--- An array of numbers of one dtype on one device, a view of a storage. `x:sum(1)` and every other
--- op whose first argument is a tensor is a method; `x:add_(1)` works in place. `x[i]`, `x[{ i, j }]`,
--- `x[{ { 2, 5 }, {} }]` and `x["2:5, :"]` index it, from 1 and with both ends; index tensors and
--- masks too, and all of them in assignments. `#x` is the size of the first dimension, `==` is
--- identity (`x:eq(y)` compares elements), and `+ - * / // % ^ & | ~ << >>` work element by element.
--- > x = ml.ones(2, 3)
--- > x[{ {}, 1 }] = 5
---@class moonlet.Tensor
---@field shape moonlet.Shape The sizes of the dimensions. It prints as (2, 3); `#x.shape` is the number of dimensions.
---@field dtype moonlet.dtype The kind of the elements, such as "float32".
---@field device string Where the elements are: "cpu", "cuda:0".
---@field grad moonlet.Tensor|moonlet.SparseRows? What backward has added up for a leaf that requires grad, or for a result after `x:retain_grad()`; nil before, and where it was set to nil. It can be assigned. Of a weight that only `sparse` embeddings used it is `SparseRows`.
---@field requires_grad boolean Whether backward computes a gradient for it. Leaves of a floating or complex dtype can be assigned it.
---@field grad_fn moonlet.Node? The node of the graph that made it; nil for a leaf. It prints as its name, such as "MulBackward", which is `x.grad_fn.name`.
---@field is_leaf boolean Whether no recorded op made it.
---@field ndim integer The number of dimensions, as `x:dim()`.
---@field T moonlet.Tensor A matrix transposed: a view. Other shapes are an error; `x:transpose(a, b)` takes any.
---@field mT moonlet.Tensor The matrices in the last two dimensions transposed: a view.
---@field H moonlet.Tensor A matrix transposed, and its conjugate where it is complex.
---@field mH moonlet.Tensor The same of the matrices in the last two dimensions, as `x:adjoint()`.
---@field real moonlet.Tensor The real parts of a complex tensor, a view; assigning writes them. A real tensor gives itself.
---@field imag moonlet.Tensor The imaginary parts of a complex tensor, a view; assigning writes them.
---@field data moonlet.Tensor The same memory without history, as `x:detach()`. Assigning makes `x` show the memory of the other tensor, with its shape, dtype and device; the gradient and the history stay. `x.data:copy_(y)` writes values.
---@field is_cuda boolean Whether it is on a CUDA device.
---@field is_sparse boolean Whether it is `SparseRows`: false of a tensor.
---@field retains_grad boolean Whether it is no leaf and `x:retain_grad()` was called.
---@field itemsize integer The bytes of one element.
---@field nbytes integer The bytes of its elements, `x:numel() * x.itemsize`.
---@field _version integer How many times its storage has been changed in place, which the tape checks.
---@operator add(moonlet.Tensor|number): moonlet.Tensor
---@operator sub(moonlet.Tensor|number): moonlet.Tensor
---@operator mul(moonlet.Tensor|number): moonlet.Tensor
---@operator div(moonlet.Tensor|number): moonlet.Tensor
---@operator idiv(moonlet.Tensor|number): moonlet.Tensor
---@operator mod(moonlet.Tensor|number): moonlet.Tensor
---@operator pow(moonlet.Tensor|number): moonlet.Tensor
---@operator unm: moonlet.Tensor
---@operator len: integer
local Tensor = {}

--- Computes the gradients of `x` by all leaves that require grad and lead to it, and adds them to
--- their `grad`. `gradient`, of the shape of `x`, is what it starts from; it may be left out for a
--- single element. What the graph saved is freed, so that a second backward is an error, unless
--- `retain_graph` (the value of create_graph) keeps it. With `create_graph` the gradients can be
--- differentiated again.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > (w * w):sum():backward()
---@param gradient? moonlet.Tensor
---@param options? {retain_graph?: boolean, create_graph?: boolean, inputs?: moonlet.Tensor|moonlet.Tensor[]}
---@see grad
---@see Tensor.grad
function Tensor:backward(gradient, options) end

--- Calls `f` with the gradient of `x`, once it is whole, at each backward that computes it, and uses
--- what `f` returns instead, unless that is nil. `handle.remove()` takes it away. The hook belongs to
--- the value that `x` has now and lives as long as a graph may reach it.
--- > handle = x:register_hook(function(g) return g * 2 end)
---@param f fun(gradient: moonlet.Tensor): moonlet.Tensor?
---@return {remove: fun()} handle
---@see Tensor.retain_grad
function Tensor:register_hook(f) end

--- Calls `f` with the leaf `x` each time a backward has added to `x.grad`, as soon as its gradient is
--- whole, while backward goes on with the rest: to change a parameter and drop its gradient at once.
---@param f fun(leaf: moonlet.Tensor)
---@return {remove: fun()} handle
function Tensor:register_post_accumulate_grad_hook(f) end

--- Whether its memory was made in `ml.inference_mode`.
---@return boolean
---@see inference_mode
function Tensor:is_inference() end

--- Keeps the gradient of a result in its `grad`, as the hooks leave it. A leaf has one anyway.
function Tensor:retain_grad() end

--- A tensor on the same memory without the history: a constant for the tape.
---@return moonlet.Tensor
---@see no_grad
function Tensor:detach() end

--- Drops the history of `x` itself, which is then a leaf. Refused for views.
---@return moonlet.Tensor x
function Tensor:detach_() end

--- Sets whether backward computes a gradient for this leaf. Returns `x`.
---@param on? boolean true unless given
---@return moonlet.Tensor x
function Tensor:requires_grad_(on) end

--- The one element as a Lua number or boolean; another number of elements is an error. Waits for the
--- device. Complex elements come as a table of their parts.
--- > ml.ones(3):sum():item()
---@return number|boolean
---@see Tensor.tolist
function Tensor:item() end

--- The elements in nested tables; those of a tensor without dimensions are a number.
--- > ml.arange(1, 3):tolist()[2]
---@return table
function Tensor:tolist() end

--- The same as `x:tolist()`.
---@return table
function Tensor:totable() end

--- The elements as a string of bytes, little-endian and in row order.
---@return string
---@see from_bytes
function Tensor:to_bytes() end

--- All sizes, as `x.shape`, or that of one dimension.
---@param dim? integer
---@return integer|integer[]
function Tensor:size(dim) end

--- How many elements of the storage lie between neighbours in each dimension, or in one.
---@param dim? integer
---@return integer|integer[]
function Tensor:stride(dim) end

--- The number of dimensions.
---@return integer
function Tensor:dim() end

--- The number of elements.
---@return integer
function Tensor:numel() end

--- The bytes of one element, as `x.itemsize`.
---@return integer
function Tensor:element_size() end

--- The number of the CUDA device that it is on; -1 for the CPU.
---@return integer
function Tensor:get_device() end

--- The dimensions (from 1) in the order of memory, the outermost first: 1, 2, ... for a contiguous
--- tensor.
---@return integer[]
function Tensor:dim_order() end

--- The name of its dtype; with a dtype, `x` as that, as by `x:to(dtype)`.
---@param dtype? moonlet.dtype
---@return moonlet.dtype|moonlet.Tensor
---@see to
function Tensor:type(dtype) end

--- What `ml.describe(x)` says of it.
--- > print(ml.randn(100):describe())
---@return moonlet.Description
---@see describe
function Tensor:describe() end

--- Sets each element to `f` of it, in row order; `f` is a Lua function of a number that gives a
--- number. Slow, and without a derivative. Returns `x`.
--- > ml.arange(1, 3):apply_(function(v) return v * v end)
---@param f fun(value: number|boolean): number|boolean
---@return moonlet.Tensor x
function Tensor:apply_(f) end

--- Sets each element to `f` of it and of the element of `other`, which broadcasts to the shape of `x`.
--- > ml.ones(3):map_(ml.arange(1, 3), function(a, b) return a + b end)
---@param other moonlet.Tensor
---@param f fun(value: number|boolean, other: number|boolean): number|boolean
---@return moonlet.Tensor x
function Tensor:map_(other, f) end

--- The same with two tensors beside `x`.
---@param a moonlet.Tensor
---@param b moonlet.Tensor
---@param f fun(value: number|boolean, a: number|boolean, b: number|boolean): number|boolean
---@return moonlet.Tensor x
function Tensor:map2_(a, b, f) end

--- A new tensor of a number, a table or a tensor, as by `ml.tensor`, with the dtype and device of `x`
--- unless named.
--- > ml.ones(3):new_tensor({ 1, 2 })
---@param value number|boolean|table|moonlet.Tensor
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@return moonlet.Tensor
---@see tensor
function Tensor:new_tensor(value, options) end

--- Whether the elements lie in row-major order without gaps, or in the order of a memory format.
---@param memory_format? moonlet.memory_format
---@return boolean
function Tensor:is_contiguous(memory_format) end

--- Whether the dtype is a floating one: float32, float16, bfloat16, float8_e5m2 and so on.
---@return boolean
function Tensor:is_floating_point() end

--- Whether the dtype is complex64 or complex128.
---@return boolean
function Tensor:is_complex() end

--- Whether the dtype has negative numbers: all but bool and the unsigned integers.
---@return boolean
function Tensor:is_signed() end

--- The elements where `condition` holds, else those of `other`: `ml.where(condition, x, other)`.
---@param condition moonlet.Tensor
---@param other moonlet.Tensor|number
---@return moonlet.Tensor
---@see where
function Tensor:where(condition, other) end

--- Converted to bool, itself when it is: true where an element is not 0.
---@return moonlet.Tensor
function Tensor:bool() end

--- Converted to int32, itself when it is. Fractions are cut off.
---@return moonlet.Tensor
function Tensor:int() end

--- Converted to int64, itself when it is. Fractions are cut off.
---@return moonlet.Tensor
function Tensor:long() end

--- Converted to float16, itself when it is.
---@return moonlet.Tensor
function Tensor:half() end

--- Converted to bfloat16, itself when it is.
---@return moonlet.Tensor
function Tensor:bfloat16() end

--- Converted to float32, itself when it is.
---@return moonlet.Tensor
function Tensor:float() end

--- Converted to float64, itself when it is.
---@return moonlet.Tensor
function Tensor:double() end

--- On the CPU, itself when it is there.
---@return moonlet.Tensor
---@see to
function Tensor:cpu() end

--- On a CUDA device, itself when it is there.
---@param device? integer the current one (`ml.cuda.current_device()`) unless given
---@param non_blocking? boolean as for `to`
---@return moonlet.Tensor
---@see to
function Tensor:cuda(device, non_blocking) end

--- Says that work in a stream uses the tensor, which was made in another one: when it is freed, its
--- memory is used again only after what the stream has then.
---@param stream moonlet.cuda.Stream of the tensor's device
---@see cuda.stream
function Tensor:record_stream(stream) end

--- Sets every element to 0. Returns `x`.
---@return moonlet.Tensor x
function Tensor:zero_() end

--- Lets go of the memory at once instead of when the collector finds the tensor; other views and the
--- tape keep theirs. Any later use of `x` is an error. `local x <close> = ...` does it at the end of
--- the block.
function Tensor:free() end

--- The storage that `x` views, in its dtype: the same value for all tensors on it, as long as a
--- script holds it.
--- > ml.zeros(3):storage()[1]
---@return moonlet.Storage
function Tensor:storage() end

--- How many elements of the storage come before the first one of `x`. It is a count of elements,
--- not a position: 0 when `x` starts at the storage's first element, which is `x:storage()[1]`.
---@return integer
function Tensor:storage_offset() end

--- A copy in page-locked memory, from which copies to a GPU are quicker; `x` itself when it lies
--- there. An error without a CUDA device, and for tensors on one.
---@return moonlet.Tensor
function Tensor:pin_memory() end

--- Whether `x` lies in page-locked memory, as `pin_memory` gives it. False without a CUDA device.
---@return boolean
function Tensor:is_pinned() end

--- The address of the first element, for code outside Lua.
---@return integer
function Tensor:data_ptr() end

--- Whether two tensors are the same elements of one storage, in the same shape.
---@param other moonlet.Tensor
---@return boolean
function Tensor:is_set_to(other) end

--- Makes `x` show elements of another storage of its dtype and device, or those of a tensor, or
--- none. `offset` is the number of elements before the first; without `size` all behind it are
--- shown, without `stride` they lie in row order. Tensors with a history are refused, and leaves
--- that require grad while recording.
--- > ml.empty(0):set_(ml.Storage(6), 2, { 2, 2 })
---@param source? moonlet.Storage|moonlet.Tensor
---@param offset? integer elements before the first
---@param size? integer[]
---@param stride? integer[]
---@return moonlet.Tensor x
function Tensor:set_(source, offset, size, stride) end

--- Gives `x` another shape, in row order from its first element. Elements stay where they are; the
--- storage grows when it is too small, by zeros. Refused for tensors that require grad and, when it
--- would have to grow, for memory that is foreign, mapped, read-only or shared with another
--- interpreter, as with the workers of a DataLoader.
--- > ml.ones(2):resize_(2, 3)
---@param ... integer|integer[]
---@return moonlet.Tensor x
function Tensor:resize_(...) end

--- `x:resize_` to the shape of `other`.
---@param other moonlet.Tensor
---@return moonlet.Tensor x
function Tensor:resize_as_(other) end

--- The sizes of a tensor's dimensions, as `x.shape` and `x:size()` give them, or its strides. It
--- reads as an array: `shape[1]`, `shape[-1]` (the last), `#shape`, ipairs. `shape[{ 2, -1 }]` is the
--- shape of a range (first, last, step), and `shape + { 3 }` joins shapes and lists of sizes. It
--- prints as (2, 3), `==` compares the numbers, and functions that take sizes take it.
---@class moonlet.Shape
---@field [integer] integer
---@operator len: integer
---@operator add(integer[]): moonlet.Shape
local Shape = {}

--- The product of the sizes: how many elements a tensor of the shape has.
---@return integer
function Shape:numel() end

--- The sizes as a plain table.
---@return integer[]
function Shape:tolist() end

--- The same as `shape:tolist()`.
---@return integer[]
function Shape:totable() end

--- The gradient of a weight that only `sparse` embeddings used: the rows that were used, where a
--- tensor of the weight's shape would be zeros for the most part. `optim.SGD`, `optim.Adagrad` and
--- `optim.SparseAdam` take it. Ops do not: `g:to_dense()` is a tensor. Where the weight is used
--- otherwise too, is no leaf or has hooks that see its gradient, in `ml.grad` and with
--- `create_graph`, the gradient is a tensor.
---@class moonlet.SparseRows
---@field shape moonlet.Shape The sizes of the dense tensor.
---@field dtype moonlet.dtype The kind of the elements.
---@field device string Where the memory is: "cpu", "cuda:0".
---@field ndim integer The number of dimensions, 2.
---@field is_sparse boolean True, where it is false of a tensor.
---@field is_cuda boolean Whether it is on a CUDA device.
---@field requires_grad boolean False: it is no part of a graph.
local SparseRows = {}

--- The positions of the rows, from 1, in the order in which they came: (1, n). Until `g:coalesce()`
--- one may come several times.
---@return moonlet.Tensor
function SparseRows:indices() end

--- The same as `g:indices()`.
---@return moonlet.Tensor
function SparseRows:_indices() end

--- The rows at these positions, (n, features), not a copy. Those of one position add up.
---@return moonlet.Tensor
function SparseRows:values() end

--- The same as `g:values()`.
---@return moonlet.Tensor
function SparseRows:_values() end

--- How many rows there are.
---@return integer
function SparseRows:_nnz() end

--- The same gradient as a tensor.
---@return moonlet.Tensor
function SparseRows:to_dense() end

--- The same gradient with each position once, in rising order; itself when it is so already.
---@return moonlet.SparseRows
function SparseRows:coalesce() end

--- Whether each position is known to come once, in rising order.
---@return boolean
function SparseRows:is_coalesced() end

--- The sizes of the dense tensor, or one of them.
---@param dim? integer from 1, or from the end when negative
---@return moonlet.Shape|integer
function SparseRows:size(dim) end

--- The number of dimensions, 2.
---@return integer
function SparseRows:dim() end

--- The number of elements of the dense tensor.
---@return integer
function SparseRows:numel() end

--- The number of dimensions that the positions are for, 1.
---@return integer
function SparseRows:sparse_dim() end

--- The number of dimensions of a row, 1.
---@return integer
function SparseRows:dense_dim() end

--- A copy with memory of its own.
---@return moonlet.SparseRows
function SparseRows:clone() end

--- Another gradient on the same values; it keeps its rows when backward adds some to `g`.
---@return moonlet.SparseRows
function SparseRows:detach() end

--- Multiplies all values. Returns `g`.
---@param factor number|moonlet.Tensor a number, or a tensor of one element
---@return moonlet.SparseRows g
function SparseRows:mul_(factor) end

--- Forgets all rows, so that the gradient is 0. Returns `g`.
---@return moonlet.SparseRows g
function SparseRows:zero_() end

--- The gradient with that dtype, on that device: the arguments are those of `x:to`.
---@return moonlet.SparseRows
---@see to
function SparseRows:to(...) end
