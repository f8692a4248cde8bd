-- interp/meta/moonlet.lua: what module moonlet has beside its ops and its modules, for editors,
-- help() and the reference.
---@meta moonlet

---@alias moonlet.memory_format
---| "contiguous_format" | "preserve_format" | "channels_last" | "channels_last_3d"

---@class moonlet
local ml = {}

--- Makes a tensor of a number, a boolean, a nested table or another tensor, always a copy. Rows of
--- a table have one length; it may hold tensors of one shape. Unless given, the dtype follows from
--- the values: int64 for integers, the default dtype for other numbers, bool for booleans.
--- `ml.tensor { 1, 2, dtype = ml.float64 }` names options in the same table.
--- > ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = ml.float32 })
---   {{1., 2.},
---    {3., 4.}}
---   Tensor (2, 2) float32
---@param value number|boolean|table|moonlet.Tensor the values
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@param options.dtype? moonlet.dtype the dtype
---@param options.device? string the default device unless given
---@param options.requires_grad? boolean the requires_grad (default false)
---@return moonlet.Tensor
---@shape -> the shape of the nested table; () for a number
---@error for rows of different lengths and for mixed types
function ml.tensor(value, options) end

--- Makes a tensor of a size and strides, with undefined contents.
--- > ml.empty_strided({ 2, 3 }, { 1, 2 }):stride(1)
---   1
---@param size integer[] sizes of the dimensions
---@param stride integer[] strides of the dimensions, in elements
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@param options.dtype? moonlet.dtype the default dtype unless given
---@param options.device? string the device
---@param options.requires_grad? boolean the requires_grad (default false)
---@return moonlet.Tensor
---@shape -> (size)
function ml.empty_strided(size, stride, options) end

--- Whether a value is a tensor.
--- > ml.is_tensor(ml.ones(2)), ml.is_tensor { 1, 2 }
---   true	false
---@param value any any value
---@return boolean
function ml.is_tensor(value) end

--- Makes a tensor of a string of bytes, little-endian and in row-major order, copied.
--- > ml.from_bytes("\1\0\2\0", ml.int16)
---   {1, 2}
---   Tensor (2,) int16
---@param bytes string the bytes
---@param dtype moonlet.dtype the dtype of the elements
---@param shape? integer[] the sizes of the dimensions; one dimension of all elements unless given
---@return moonlet.Tensor
---@shape -> (shape)
---@error where the bytes do not fill the shape
---@see Tensor.to_bytes
function ml.from_bytes(bytes, dtype, shape) end

--- The dtype of new tensors of numbers that are not integers: float32 at first.
--- > ml.get_default_dtype()
---   float32
---@return moonlet.dtype
function ml.get_default_dtype() end

--- Sets the default dtype of this interpreter.
--- > ml.set_default_dtype(ml.float64)
--- > ml.tensor(0.5).dtype
---   float64
---@param dtype moonlet.dtype a floating dtype
function ml.set_default_dtype(dtype) end

--- The precision of products of float32 matrices: "highest" at first.
--- > ml.get_float32_matmul_precision()
---   highest
---@return string
---@see set_float32_matmul_precision
function ml.get_float32_matmul_precision() end

--- Sets the precision of products of float32 matrices, for the whole process. With "high" or
--- "medium" CUDA devices may round the factors to TF32 (10 bits of mantissa, sums in float32),
--- which is several times faster; with "highest" they compute in float32 throughout, as the CPU
--- always does.
--- > ml.set_float32_matmul_precision("high")
--- > ml.get_float32_matmul_precision()
---   high
--- > ml.set_float32_matmul_precision("highest")
---@param precision "highest"|"high"|"medium" "highest", "high" or "medium"
function ml.set_float32_matmul_precision(precision) end

--- The device on which tensors are made unless one is given: "cpu" at first.
--- > ml.get_default_device()
---   cpu
---@return string
function ml.get_default_device() end

--- Sets the device on which this interpreter makes tensors unless one is given.
--- > ml.set_default_device("cpu")
--- > ml.get_default_device()
---   cpu
---@param device string such as "cpu", "cuda" or "cuda:1"
function ml.set_default_device(device) end

--- The shape that shapes broadcast to: dimensions are aligned from the last, and in each all sizes
--- are equal or 1.
--- > ml.broadcast_shapes({ 3, 1 }, { 4 }, { 2, 1, 1 })
---   (2, 3, 4)
---@param ... integer|integer[] shapes; a single integer is the shape of a vector
---@return moonlet.Shape
---@error for sizes that differ and are not 1
---@see broadcast_tensors
function ml.broadcast_shapes(...) end

--- Sets how tensors print.
--- > ml.set_printoptions { precision = 2, sci_mode = false }
--- > ml.tensor { 0.123456, 2.0 }
---   {0.12, 2.00}
---   Tensor (2,) float32
---@param options {precision?: integer, threshold?: number, edgeitems?: integer, linewidth?: integer, profile?: string, sci_mode?: boolean}
---@param options.precision? integer digits behind the point (default 4)
---@param options.threshold? number the most elements that are all shown (default 1000)
---@param options.edgeitems? integer how many are shown at each end of a dimension otherwise (default 3)
---@param options.linewidth? integer characters in a line (default 80)
---@param options.sci_mode? boolean whether exponents are used, as the numbers need unless given
---@param options.profile? string "default", "short" or "full", which sets all of them first
function ml.set_printoptions(options) end

--- The number of CPU threads that ops of this interpreter may use: at first the environment's
--- `OMP_NUM_THREADS`, or as many as there are cores; in the workers of a `DataLoader` one.
--- > ml.get_num_threads() >= 1
---   true
---@return integer
function ml.get_num_threads() end

--- Sets the number of CPU threads that ops of this interpreter may use, whatever thread of a host
--- runs it. Random numbers do not depend on it.
--- > threads = ml.get_num_threads()
--- > ml.set_num_threads(1)
--- > ml.get_num_threads()
---   1
--- > ml.set_num_threads(threads)
---@param count integer number of threads, at least 1
function ml.set_num_threads(count) end

--- Sets whether ops of this interpreter on the CPU flush subnormal numbers, those too small for
--- full precision, to 0, which some processors compute with much faster; Lua's arithmetic does then
--- too. Workers of a `DataLoader` take it over when they start. Returns whether the processor can.
--- > type(ml.set_flush_denormal(false))
---   boolean
---@param on boolean true to flush
---@return boolean
function ml.set_flush_denormal(on) end

--- Calls `f(...)`, then frees all tensors made meanwhile but its results at once, without waiting
--- for the collector. Returns the results of `f`.
--- > ml.scope(function() return (ml.ones(100) * 2):sum() end)
---   200.  Tensor () float32
---@param f fun(...): ... the function to call
---@param ... any what `f` gets
---@return any ...
function ml.scope(f, ...) end

--- Runs `f` without recording ops for gradients, or with `<close>` the rest of the block: `local _
--- <close> = ml.no_grad()`. `ml.enable_grad` records again inside. The mode belongs to the
--- coroutine: one that yields does not change that of its caller.
--- > w = ml.ones(2, { requires_grad = true })
--- > ml.no_grad(function() return (w * 2).requires_grad end)
---   false
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ...
---@see enable_grad
---@see set_grad_enabled
---@see Tensor.detach
function ml.no_grad(f, ...) end

--- Runs `f`, or with `<close>` the rest of the block, with recording, also inside of `ml.no_grad`.
--- > ml.no_grad(function() return ml.enable_grad(ml.is_grad_enabled) end)
---   true
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ...
---@see no_grad
function ml.enable_grad(f, ...) end

--- Turns the recording of ops on or off. Held as a `<close>` variable the setting ends with the
--- block, otherwise it stays; with a function it holds while that runs.
--- > ml.set_grad_enabled(false, ml.is_grad_enabled)
---   false
---@param on boolean whether ops are recorded
---@param f? fun(...): ... the function to run under the setting
---@param ... any what `f` gets
---@return any guard or the results of f
---@see no_grad
function ml.set_grad_enabled(on, f, ...) end

--- Runs `f`, or with `<close>` the rest of the block, without recording and without version
--- counters: tensors made inside can neither be saved for a gradient later nor changed in place
--- outside; `x:clone()` outside gives one that can. Views of other tensors are as these.
--- > ml.inference_mode(function() return ml.ones(2) * 2 end):is_inference()
---   true
---@param f? boolean|fun(...): ... the function to run; false, before another function, ends the mode inside
---@param ... any what `f` gets
---@return any ...
---@see Tensor.is_inference
---@see no_grad
function ml.inference_mode(f, ...) end

--- Whether `ml.inference_mode` is on here.
--- > ml.inference_mode(ml.is_inference_mode_enabled)
---   true
---@return boolean
function ml.is_inference_mode_enabled() end

--- Whether ops are recorded for gradients now.
--- > ml.is_grad_enabled()
---   true
---@return boolean
---@see no_grad
function ml.is_grad_enabled() end

--- Whether `ml.autocast` acts here on ops of a type of device.
--- > ml.is_autocast_enabled()
---   false
---@param device? string the type of device; "cpu" unless given
---@return boolean
---@see autocast
function ml.is_autocast_enabled(device) end

--- Gradients of `outputs` with respect to `inputs`: a tensor, or as many results as there are
--- inputs. Nothing is added to any `grad`. Edges of `ml.autograd.graph.get_gradient_edge` may stand
--- for tensors.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > ml.grad((w * w):sum(), w)
---   {2., 4.}
---   Tensor (2,) float32
---@param outputs moonlet.Tensor|moonlet.Tensor[] a tensor or an array of tensors
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor or an array of tensors
---@param options? {grad_outputs?: moonlet.Tensor|moonlet.Tensor[], retain_graph?: boolean, create_graph?: boolean, allow_unused?: boolean, is_grads_batched?: boolean, materialize_grads?: boolean}
---@param options.grad_outputs? moonlet.Tensor|moonlet.Tensor[] the gradients that outputs of more than one element start from
---@param options.retain_graph? boolean whether the graph is kept for another call, as `create_graph` unless given
---@param options.create_graph? boolean whether the gradients can be differentiated again (default false)
---@param options.allow_unused? boolean nil instead of an error for an input that the outputs do not depend on (default false)
---@param options.materialize_grads? boolean zeros for it (default false)
---@param options.is_grads_batched? boolean whether the first dimension of `grad_outputs` counts gradients to start from, in one backward in `ml.func.vmap` (default false)
---@return moonlet.Tensor ... one per input
---@shape outputs (m), grad_outputs (m), inputs (n) -> (n)
---@formula g = v^T dy/dx
---@see Tensor.backward
function ml.grad(outputs, inputs, options) end

--- A block of memory on a device, seen as elements of one dtype: `size` zeros, the numbers of a
--- table, or the bytes of a file, mapped: `ml.Storage { file = path, dtype = ml.int32 }`. `#s` is
--- the number of elements; `s[i]`, from 1, reads and writes one, seen by every tensor on the
--- storage; ipairs walks them; `==` is identity.
--- > s = ml.Storage({ 1, 2, 3 }, { dtype = ml.float64 })
--- > #s, s[2]
---   3	2.0
---@param value? integer|(number|boolean)[]|moonlet.StorageOptions the number of elements, an array of numbers, or a table of options
---@param options? {dtype?: moonlet.dtype, device?: string, file?: string, shared?: boolean, read_only?: boolean, size?: integer}
---@param options.dtype? moonlet.dtype that of the numbers or the default dtype unless given
---@param options.device? string the device (default "cpu")
---@param options.file? string a file to map
---@param options.shared? boolean whether writes reach the file, which is made or grown to `size`, in elements (default false)
---@param options.read_only? boolean whether writes are errors (default false)
---@return moonlet.Storage
---@see Tensor.storage
function ml.Storage(value, options) end

--- Whether a value is a storage.
--- > ml.is_storage(ml.ones(2):storage())
---   true
---@param value any any value
---@return boolean
function ml.is_storage(value) end

--- A generator of pseudorandom numbers, Philox 4x32-10: a seed and how many numbers were drawn.
--- Random ops take one by name, `generator = g`, and otherwise draw from `ml.default_generator`. A
--- generator made without a seed has one of its own, the same in each run of a script. The numbers
--- are the same on every device.
--- > ml.Generator { seed = 7 }:initial_seed()
---   7
---@param device? string the only device whose tensors it fills; any unless given
---@param options? {seed?: integer}
---@param options.seed? integer the seed
---@return moonlet.Generator
---@source Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011
---@see default_generator
---@see manual_seed
function ml.Generator(device, options) end

--- The generator that random ops draw from; each interpreter has its own.
---@type moonlet.Generator
ml.default_generator = nil

--- Seeds `ml.default_generator`. One seed gives the same numbers on every device and for any number
--- of threads.
--- > ml.manual_seed(1)
--- > ml.initial_seed()
---   1
---@param seed integer an integer
function ml.manual_seed(seed) end

--- Seeds the default generator with a number from the system, another at each call, and returns the
--- number.
--- > seed = ml.seed()
--- > seed == ml.initial_seed()
---   true
---@return integer
---@see manual_seed
function ml.seed() end

--- The seed that the default generator was last given.
--- > ml.manual_seed(7)
--- > ml.initial_seed()
---   7
---@return integer
function ml.initial_seed() end

--- The state of `ml.default_generator`, for `ml.set_rng_state`.
--- > ml.manual_seed(7)
--- > ml.get_rng_state()
---   {offset = 0, seed = 7}
---@return {seed: integer, offset: integer} state
function ml.get_rng_state() end

--- Sets `ml.default_generator` to a state that `ml.get_rng_state` gave.
--- > state = ml.get_rng_state()
--- > x = ml.rand(3)
--- > ml.set_rng_state(state)
--- > ml.equal(x, ml.rand(3))
---   true
---@param state {seed: integer, offset: integer} its seed, and how many numbers were drawn
function ml.set_rng_state(state) end

--- The smallest dtype that holds the values of two dtypes, by the rules of type promotion.
--- > ml.promote_types("int64", "float16")
---   float16
---@param type1 moonlet.dtype a dtype
---@param type2 moonlet.dtype another dtype
---@return moonlet.dtype
---@see result_type
function ml.promote_types(type1, type2) end

--- The dtype of the result of an op of two tensors or numbers. Tensors with dimensions decide
--- before those without, and those before numbers, unless a later one is of a higher category
--- (bool, integers, floats, complex).
--- > ml.result_type(ml.ones(3, { dtype = ml.int32 }), 1.5)
---   float32
---@param tensor1 moonlet.Tensor|number|moonlet.Complex a tensor or number
---@param tensor2 moonlet.Tensor|number|moonlet.Complex another tensor or number
---@return moonlet.dtype
---@shape tensor1 (*), tensor2 (*)
---@see promote_types
function ml.result_type(tensor1, tensor2) end

--- Whether a result of one dtype may be stored in a tensor of another: not from a higher category
--- to a lower one (bool, integers, floats, complex).
--- > ml.can_cast("float32", "int64"), ml.can_cast("int64", "float16")
---   false	true
---@param from moonlet.dtype the dtype of the result
---@param to moonlet.dtype the dtype of the tensor
---@return boolean
function ml.can_cast(from, to) end

--- The limits of a floating dtype; of a complex dtype those of its parts. `eps` is the distance
--- from 1 to the next larger number, `tiny` (also `smallest_normal`) the smallest positive number
--- of full precision, `resolution` a power of ten near `eps`.
--- > ml.finfo(ml.float16).max
---   65504.0
---@param dtype? moonlet.dtype a floating or complex dtype; the default one unless given
---@return {bits: integer, eps: number, max: number, min: number, tiny: number, smallest_normal: number, resolution: number, dtype: moonlet.dtype}
---@see iinfo
function ml.finfo(dtype) end

--- The limits of an integer dtype.
--- > ml.iinfo(ml.int8).max
---   127
---@param dtype moonlet.dtype an integer dtype
---@return {bits: integer, max: integer, min: integer, dtype: moonlet.dtype}
---@see finfo
function ml.iinfo(dtype) end

--- Whether a tensor's dtype, or a dtype, is a floating one.
--- > ml.is_floating_point(ml.ones(2)), ml.is_floating_point("int64")
---   true	false
---@param x moonlet.Tensor|moonlet.dtype a tensor or a dtype
---@return boolean
---@shape x (*)
function ml.is_floating_point(x) end

--- Whether a tensor's dtype, or a dtype, is complex.
--- > ml.is_complex("complex64")
---   true
---@param x moonlet.Tensor|moonlet.dtype a tensor or a dtype
---@return boolean
---@shape x (*)
function ml.is_complex(x) end

--- Whether a tensor's dtype, or a dtype, has negative numbers.
--- > ml.is_signed("int8"), ml.is_signed("uint8")
---   true	false
---@param x moonlet.Tensor|moonlet.dtype a tensor or a dtype
---@return boolean
---@shape x (*)
function ml.is_signed(x) end

--- The ratio of a circle's circumference to its diameter, 3.14159.
ml.pi = 3.14159265358979323846

--- The base of the natural logarithm, 2.71828.
ml.e = 2.71828182845904523536

--- Positive infinity.
ml.inf = 1 / 0

--- Not a number (NaN), the result of 0/0, which equals no number.
ml.nan = 0 / 0

--- In an index, a new dimension of size 1: `x[{ ml.newaxis, 1 }]`.
ml.newaxis = "newaxis"

--- In an index, as many full dimensions as the others leave: `x[{ ml.ellipsis, 1 }]` is `x[{ {},
--- {}, 1 }]` of a tensor of three dimensions.
ml.ellipsis = "..."

--- The memory format of row-major order: neighbours along the last dimension are neighbours in
--- memory.
ml.contiguous_format = "contiguous_format"

--- The memory format that keeps the order of dimensions that the argument has.
ml.preserve_format = "preserve_format"

--- The memory format of images (n, c, h, w) in which the channels of a pixel are neighbours.
ml.channels_last = "channels_last"

--- The memory format of volumes (n, c, d, h, w) in which the channels of a voxel are neighbours.
ml.channels_last_3d = "channels_last_3d"

--- The version of Moonlet.
ml.version = "0.1.0"
