-- interp/meta/tensor.lua: the fields of tensors and their methods that are no ops, for editors,
-- help() and the reference.

--- An array of numbers of one dtype on one device: a view of a storage. `x:sum(1)` and every other
--- op whose first argument is a tensor is a method; `x:add_(1)` works in place. `x[i]`, `x[{ i, j
--- }]`, `x[{ { 2, 5 }, {} }]` and `x["2:5, :"]` index it, from 1 and with both ends; index tensors
--- and masks too, and all of them in assignments. `#x` is the size of the first dimension, `==` is
--- identity (`x:eq(y)` compares elements), and `+ - * / // % ^ & | ~ << >>` work element by
--- element.
--- > x = ml.ones(2, 3)
--- > x[{ {}, 1 }] = 5
--- > x
---   {{5., 1., 1.},
---    {5., 1., 1.}}
---   Tensor (2, 3) float32
---@class moonlet.Tensor
---@field shape moonlet.Shape The sizes of the dimensions. It prints as (2, 3); `#x.shape` is the number of dimensions.
---@field dtype moonlet.dtype The type of the elements, such as "float32".
---@field device string Where the elements are: "cpu", "cuda:0".
---@field grad moonlet.Tensor|moonlet.SparseRows? The gradient that backward has accumulated for a leaf that requires grad, or for a result after `x:retain_grad()`; nil before, and after it was set to nil. It can be assigned. Of a weight that only `sparse` embeddings used it is `SparseRows`.
---@field requires_grad boolean Whether backward computes a gradient for it. Leaves of a floating or complex dtype can be assigned it.
---@field grad_fn moonlet.Node? The node of the graph that made it; nil for a leaf. It prints as its name, such as "MulBackward", which is `x.grad_fn.name`.
---@field is_leaf boolean Whether no recorded op made it.
---@field ndim integer The number of dimensions, as `x:dim()`.
---@field T moonlet.Tensor The transpose of a matrix, a view. Other shapes are an error; `x:transpose(a, b)` takes any.
---@field mT moonlet.Tensor The transposes of the matrices in the last two dimensions, a view.
---@field H moonlet.Tensor The conjugate transpose of a matrix.
---@field mH moonlet.Tensor The conjugate transposes of the matrices in the last two dimensions, as `x:adjoint()`.
---@field real moonlet.Tensor The real parts of a complex tensor, a view; assigning writes them. A real tensor gives itself.
---@field imag moonlet.Tensor The imaginary parts of a complex tensor, a view; assigning writes them.
---@field data moonlet.Tensor The same memory without history, as `x:detach()`. Assigning makes `x` show the memory of the other tensor, with its shape, dtype and device; the gradient and the history stay. `x.data:copy_(y)` writes values.
---@field is_cuda boolean Whether it is on a CUDA device.
---@field is_sparse boolean Whether it is `SparseRows`: false for a tensor.
---@field retains_grad boolean Whether it is not a leaf and `x:retain_grad()` was called.
---@field itemsize integer The bytes of one element.
---@field nbytes integer The bytes of its elements, `x:numel() * x.itemsize`.
---@field _version integer How many times its storage was changed in place, which the tape checks.
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

--- Computes the gradients of `x` with respect to all leaves that require grad and lead to it, and
--- adds them to their `grad`. What the graph saved is freed, so that a second backward is an error,
--- unless it is retained.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > (w * w):sum():backward()
--- > w.grad
---   {2., 4.}
---   Tensor (2,) float32
---@param gradient? moonlet.Tensor the gradient that backward starts from, in the shape of `x`; 1 unless given, for a single element
---@param options? {retain_graph?: boolean, create_graph?: boolean, inputs?: moonlet.Tensor|moonlet.Tensor[]}
---@param options.retain_graph? boolean whether the graph is kept, as `create_graph` unless given
---@param options.create_graph? boolean whether the gradients can be differentiated again (default false)
---@param options.inputs? moonlet.Tensor|moonlet.Tensor[] the tensors whose gradients alone are computed
---@shape x (*), gradient (*)
---@formula w.grad = w.grad + v^T dx/dw
---@see grad
---@see Tensor.grad
function Tensor:backward(gradient, options) end

--- Registers a hook that is called with the gradient of `x`, once it is complete, at each backward
--- that computes it; what it returns, unless nil, takes its place. `handle.remove()` removes it.
--- The hook belongs to the value that `x` has now and lives as long as a graph may reach it.
--- > x = ml.ones(2, { requires_grad = true })
--- > handle = x:register_hook(function(g) return g * 2 end)
--- > x:sum():backward()
--- > x.grad
---   {2., 2.}
---   Tensor (2,) float32
---@param f fun(gradient: moonlet.Tensor): moonlet.Tensor? gets the gradient and returns another one or nil
---@return {remove: fun()} handle
---@see Tensor.retain_grad
function Tensor:register_hook(f) end

--- Registers a hook that is called with the leaf `x` each time a backward has added to `x.grad`, as
--- soon as its gradient is complete, while backward goes on with the rest: to update a parameter
--- and free its gradient at once.
--- > x = ml.ones(2, { requires_grad = true })
--- > handle = x:register_post_accumulate_grad_hook(function(leaf) print(leaf.grad) end)
--- > x:sum():backward()
---   {1., 1.}
---   Tensor (2,) float32
---@param f fun(leaf: moonlet.Tensor) gets the leaf
---@return {remove: fun()} handle
function Tensor:register_post_accumulate_grad_hook(f) end

--- Whether its memory was made in `ml.inference_mode`.
--- > ml.ones(2):is_inference()
---   false
---@return boolean
---@see inference_mode
function Tensor:is_inference() end

--- Keeps the gradient of a result in its `grad`, as the hooks leave it. A leaf has one anyway.
--- > x = ml.ones(2, { requires_grad = true })
--- > y = x * 3
--- > y:retain_grad()
---   {3., 3.}
---   Tensor (2,) float32 grad_fn=MulBackward
--- > (y * y):sum():backward()
--- > y.grad
---   {6., 6.}
---   Tensor (2,) float32
function Tensor:retain_grad() end

--- A tensor on the same memory without history: a constant for the tape.
--- > ml.ones(2, { requires_grad = true }):detach().requires_grad
---   false
---@return moonlet.Tensor
---@shape x (*) -> (*)
---@see no_grad
function Tensor:detach() end

--- Removes the history of `x` itself, which is then a leaf.
--- > x = ml.ones(2, { requires_grad = true }) * 2
--- > x:detach_().is_leaf
---   true
---@return moonlet.Tensor x
---@error for views
function Tensor:detach_() end

--- Sets whether backward computes a gradient for this leaf. Returns `x`.
--- > ml.ones(2):requires_grad_().requires_grad
---   true
---@param on? boolean true unless given
---@return moonlet.Tensor x
function Tensor:requires_grad_(on) end

--- The one element as a Lua number or boolean; complex ones as a `Complex`. Waits for the device.
--- > ml.ones(3):sum():item()
---   3.0
---@return number|boolean
---@error for another number of elements
---@see Tensor.tolist
function Tensor:item() end

--- The elements in nested tables; the one of a tensor without dimensions as a number.
--- > ml.tensor { { 1, 2 }, { 3, 4 } }:tolist()
---   {{1, 2}, {3, 4}}
---@return table
function Tensor:tolist() end

--- The same as `x:tolist()`.
--- > ml.tensor { 1, 2 }:totable()
---   {1, 2}
---@return table
function Tensor:totable() end

--- The elements as a string of bytes, little-endian and in row-major order.
--- > #ml.ones(3):to_bytes()
---   12
---@return string
---@see from_bytes
function Tensor:to_bytes() end

--- All sizes, as `x.shape`, or that of one dimension.
--- > ml.ones(2, 3):size(), ml.ones(2, 3):size(-1)
---   (2, 3)	3
---@param dim? integer dimension, counted from 1; negative ones count from the last
---@return integer|integer[]
function Tensor:size(dim) end

--- Strides: how many elements of the storage lie between neighbours in each dimension, or in one.
--- > ml.ones(2, 3):stride(), ml.ones(2, 3):stride(1)
---   (3, 1)	3
---@param dim? integer dimension, counted from 1; negative ones count from the last
---@return integer|integer[]
function Tensor:stride(dim) end

--- The number of dimensions.
--- > ml.ones(2, 3):dim()
---   2
---@return integer
function Tensor:dim() end

--- The number of elements.
--- > ml.ones(2, 3):numel()
---   6
---@return integer
function Tensor:numel() end

--- The bytes of one element, as `x.itemsize`.
--- > ml.ones(2):element_size()
---   4
---@return integer
function Tensor:element_size() end

--- The number of the CUDA device that it is on; -1 for the CPU.
--- > ml.ones(2):get_device()
---   -1
---@return integer
function Tensor:get_device() end

--- The dimensions in the order of memory, that of the largest stride first: 1, 2, ... for a
--- contiguous tensor.
--- > ml.ones(2, 3):t():dim_order()
---   {2, 1}
---@return integer[]
function Tensor:dim_order() end

--- The name of its dtype; with a dtype, `x` converted to it, as by `x:to(dtype)`.
--- > ml.ones(2):type()
---   float32
---@param dtype? moonlet.dtype the dtype to convert to
---@return moonlet.dtype|moonlet.Tensor
---@see to
function Tensor:type(dtype) end

--- Summary statistics of the elements, as `ml.describe(x)`.
--- > ml.tensor { 1, 2, 3, 4 }:describe().mean
---   2.5
---@return moonlet.Description
---@see describe
function Tensor:describe() end

--- Replaces each element by `f` of it, in row-major order. Slow, and without a gradient. Returns
--- `x`.
--- > ml.arange(1, 3):apply_(function(v) return v * v end)
---   {1, 4, 9}
---   Tensor (3,) int64
---@param f fun(value: number|boolean): number|boolean function of a number that gives a number
---@return moonlet.Tensor x
---@shape x (*) -> (*)
---@formula x_i = f(x_i)
function Tensor:apply_(f) end

--- Replaces each element by `f` of it and of the element of `other`. Slow, and without a gradient.
--- Returns `x`.
--- > ml.ones(3):map_(ml.arange(1, 3), function(a, b) return a + b end)
---   {2., 3., 4.}
---   Tensor (3,) float32
---@param other moonlet.Tensor a tensor that broadcasts to the shape of `x`
---@param f fun(value: number|boolean, other: number|boolean): number|boolean function of two numbers that gives a number
---@return moonlet.Tensor x
---@shape x (*), other broadcasts to (*) -> (*)
---@formula x_i = f(x_i, other_i)
function Tensor:map_(other, f) end

--- Replaces each element by `f` of it and of the elements of two tensors. Slow, and without a
--- gradient. Returns `x`.
--- > ml.ones(2):map2_(ml.ones(2), ml.arange(2), function(x, a, b) return x + a * b end)
---   {2., 3.}
---   Tensor (2,) float32
---@param a moonlet.Tensor a tensor that broadcasts to the shape of `x`
---@param b moonlet.Tensor another such tensor
---@param f fun(value: number|boolean, a: number|boolean, b: number|boolean): number|boolean function of three numbers that gives a number
---@return moonlet.Tensor x
---@shape x (*), a and b broadcast to (*) -> (*)
---@formula x_i = f(x_i, a_i, b_i)
function Tensor:map2_(a, b, f) end

--- Makes a tensor of a number, a table or a tensor, as `ml.tensor` does, with the dtype and device
--- of `x` unless given.
--- > ml.ones(3):new_tensor({ 1, 2 })
---   {1., 2.}
---   Tensor (2,) float32
---@param value number|boolean|table|moonlet.Tensor the values
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@param options.dtype? moonlet.dtype `device`, `requires_grad` (false)
---@return moonlet.Tensor
---@shape -> the shape of the nested table
---@see tensor
function Tensor:new_tensor(value, options) end

--- Whether the elements lie in row-major order without gaps, or in the order of another memory
--- format.
--- > ml.ones(2, 3):t():is_contiguous()
---   false
---@param memory_format? moonlet.memory_format `ml.contiguous_format` unless given
---@return boolean
function Tensor:is_contiguous(memory_format) end

--- Whether the dtype is a floating one.
--- > ml.ones(2):is_floating_point()
---   true
---@return boolean
function Tensor:is_floating_point() end

--- Whether the dtype is complex.
--- > ml.ones(2):is_complex()
---   false
---@return boolean
function Tensor:is_complex() end

--- Whether the dtype has negative numbers.
--- > ml.ones(2):is_signed()
---   true
---@return boolean
function Tensor:is_signed() end

--- The elements of `x` where `condition` holds and those of `other` elsewhere: `ml.where(condition,
--- x, other)`.
--- > x = ml.tensor { -1.0, 2.0 }
--- > x:where(x:gt(0), 0)
---   {0., 2.}
---   Tensor (2,) float32
---@param condition moonlet.Tensor a bool tensor that broadcasts with `x`
---@param other moonlet.Tensor|number a tensor that broadcasts with `x`, or a number
---@return moonlet.Tensor
---@shape x, condition and other broadcast to (*) -> (*)
---@formula y_i = x_i if condition_i, else other_i
---@see where
function Tensor:where(condition, other) end

--- Converted to bool, true where an element is not 0; itself when it is bool.
--- > ml.tensor { 0, 2 }:bool()
---   {false,  true}
---   Tensor (2,) bool
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:bool() end

--- Converted to int32, truncated towards 0; itself when it is int32.
--- > ml.tensor { 1.7, -1.7 }:int()
---   { 1, -1}
---   Tensor (2,) int32
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:int() end

--- Converted to int64, truncated towards 0; itself when it is int64.
--- > ml.tensor { 1.7, -1.7 }:long()
---   { 1, -1}
---   Tensor (2,) int64
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:long() end

--- Converted to float16; itself when it is float16.
--- > ml.ones(2):half().dtype
---   float16
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:half() end

--- Converted to bfloat16; itself when it is bfloat16.
--- > ml.ones(2):bfloat16().dtype
---   bfloat16
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:bfloat16() end

--- Converted to float32; itself when it is float32.
--- > ml.tensor { 1, 2 }:float()
---   {1., 2.}
---   Tensor (2,) float32
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:float() end

--- Converted to float64; itself when it is float64.
--- > ml.tensor { 1, 2 }:double()
---   {1., 2.}
---   Tensor (2,) float64
---@return moonlet.Tensor
---@shape x (*) -> (*)
function Tensor:double() end

--- Copied to the CPU; itself when it is there.
--- > ml.ones(2):cpu().device
---   cpu
---@return moonlet.Tensor
---@shape x (*) -> (*)
---@see to
function Tensor:cpu() end

--- Copied to a CUDA device; itself when it is there.
--- > ml.ones(2):cuda().device  -- needs cuda
---   cuda:0
---@param device? integer number of the device; the current one (`ml.cuda.current_device()`) unless given
---@param non_blocking? boolean whether a copy from page-locked memory goes on while the script does
---@return moonlet.Tensor
---@shape x (*) -> (*)
---@see to
function Tensor:cuda(device, non_blocking) end

--- Records that work in a stream uses the tensor, which was made in another one: when it is freed,
--- its memory is used again only after what the stream has then.
--- > x = ml.ones(2, { device = "cuda" })  -- needs cuda
--- > x:record_stream(ml.cuda.Stream())
---@param stream moonlet.cuda.Stream a stream of the tensor's device
---@see cuda.stream
function Tensor:record_stream(stream) end

--- Sets every element to 0. Returns `x`.
--- > ml.ones(2):zero_()
---   {0., 0.}
---   Tensor (2,) float32
---@return moonlet.Tensor x
---@shape x (*) -> (*)
function Tensor:zero_() end

--- Frees the memory at once instead of when the collector finds the tensor; other views and the
--- tape keep theirs. Any later use of `x` is an error. `local x <close> = ...` does it at the end
--- of the block.
--- > x = ml.ones(2)
--- > x:free()
function Tensor:free() end

--- The storage that `x` views, in its dtype: the same value for all tensors on it, as long as a
--- script holds it.
--- > ml.zeros(3):storage()[1]
---   0.0
---@return moonlet.Storage
function Tensor:storage() end

--- How many elements of the storage come before the first one of `x`: a count, 0 where `x` starts
--- at `x:storage()[1]`.
--- > ml.arange(5)[{ { 3, 5 } }]:storage_offset()
---   2
---@return integer
function Tensor:storage_offset() end

--- A copy in page-locked memory, from which copies to a CUDA device are faster; `x` itself when it
--- lies there.
--- > ml.ones(2):pin_memory():is_pinned()  -- needs cuda
---   true
---@return moonlet.Tensor
---@shape x (*) -> (*)
---@error without a CUDA device, and for tensors on one
function Tensor:pin_memory() end

--- Whether `x` lies in page-locked memory, as `pin_memory` gives it.
--- > ml.ones(2):is_pinned()
---   false
---@return boolean
function Tensor:is_pinned() end

--- The address of the first element, for code outside Lua.
--- > math.type(ml.ones(2):data_ptr())
---   integer
---@return integer
function Tensor:data_ptr() end

--- Whether two tensors are the same elements of one storage, in the same shape.
--- > x = ml.ones(2)
--- > x:is_set_to(x:view(2)), x:is_set_to(x:clone())
---   true	false
---@param other moonlet.Tensor the other tensor
---@return boolean
function Tensor:is_set_to(other) end

--- Makes `x` a view of elements of another storage of its dtype and device, or of those of a
--- tensor, or of none.
--- > ml.empty(0):set_(ml.Storage(6), 2, { 2, 2 })
---   {{0., 0.},
---    {0., 0.}}
---   Tensor (2, 2) float32
---@param source? moonlet.Storage|moonlet.Tensor the storage or tensor; none unless given
---@param offset? integer how many elements come before the first one
---@param size? integer[] the sizes of the dimensions; one dimension of all further elements unless given
---@param stride? integer[] the strides in elements; those of row-major order unless given
---@return moonlet.Tensor x
---@shape -> (size)
---@error for tensors with a history, and for leaves that require grad while recording
function Tensor:set_(source, offset, size, stride) end

--- Gives `x` another shape, in row-major order from its first element. Elements stay where they
--- are; the storage grows by zeros when it is too small.
--- > ml.ones(2):resize_(2, 3)
---   {{1., 1., 0.},
---    {0., 0., 0.}}
---   Tensor (2, 3) float32
---@param ... integer|integer[] the sizes of the dimensions
---@return moonlet.Tensor x
---@shape x (*) -> (size)
---@error for tensors that require grad and, where the storage would have to grow, for memory that is foreign, mapped, read-only or shared with another interpreter
function Tensor:resize_(...) end

--- Gives `x` the shape of `other`, as `x:resize_` does.
--- > ml.ones(2):resize_as_(ml.ones(2, 2)).shape
---   (2, 2)
---@param other moonlet.Tensor the tensor whose shape is taken
---@return moonlet.Tensor x
---@shape x (*), other (size) -> (size)
function Tensor:resize_as_(other) end

--- The sizes of a tensor's dimensions, as `x.shape` and `x:size()` give them, or its strides. It
--- reads as an array: `shape[1]`, `shape[-1]` (the last), `#shape`, ipairs. `shape[{ 2, -1 }]` is
--- the shape of a range (first, last, step), and `shape + { 3 }` joins shapes and lists of sizes.
--- It prints as (2, 3), `==` compares the numbers, and functions that take sizes take it.
--- > shape = ml.ones(2, 3).shape
--- > shape[-1], shape + { 4 }
---   3	(2, 3, 4)
---@class moonlet.Shape
---@field [integer] integer
---@operator len: integer
---@operator add(integer[]): moonlet.Shape
local Shape = {}

--- The product of the sizes: how many elements a tensor of the shape has.
--- > ml.ones(2, 3).shape:numel()
---   6
---@return integer
function Shape:numel() end

--- The sizes as a plain table.
--- > ml.ones(2, 3).shape:tolist()
---   {2, 3}
---@return integer[]
function Shape:tolist() end

--- The same as `shape:tolist()`.
--- > ml.ones(2, 3).shape:totable()
---   {2, 3}
---@return integer[]
function Shape:totable() end
