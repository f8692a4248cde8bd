-- interp/meta/moonlet.lua: what module moonlet has beside its ops and its modules, for editors,
-- help() and the reference.
---@meta moonlet

---@alias moonlet.memory_format
---| "contiguous_format" | "preserve_format" | "channels_last" | "channels_last_3d"

---@class moonlet
local ml = {}

--- A new tensor with the values of a number, a boolean, a nested table or another tensor, always a
--- copy. Rows of a table have one length; it may hold tensors of one shape. The dtype comes from the values, unless given: integers
--- make int64, other numbers the default dtype, booleans bool. `ml.tensor { 1, 2, dtype = ml.float64 }`
--- names options in the same table.
--- > ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = ml.float32 })
---@param value number|boolean|table|moonlet.Tensor
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@return moonlet.Tensor
function ml.tensor(value, options) end

--- A tensor of that size and those strides, in elements, contents undefined.
--- > ml.empty_strided({ 2, 3 }, { 1, 2 })
---@param size integer[]
---@param stride integer[]
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@return moonlet.Tensor
function ml.empty_strided(size, stride, options) end

--- Whether a value is a tensor.
---@param value any
---@return boolean
function ml.is_tensor(value) end

--- A tensor from a string of bytes, little-endian and in row order, copied. Without a shape it has
--- one dimension. It is an error when the bytes do not fill the shape.
--- > ml.from_bytes("\1\0\2\0", ml.int16)
---@param bytes string
---@param dtype moonlet.dtype
---@param shape? integer[]
---@return moonlet.Tensor
---@see Tensor.to_bytes
function ml.from_bytes(bytes, dtype, shape) end

--- The dtype of new tensors of numbers that are no integers: float32 at first.
---@return moonlet.dtype
function ml.get_default_dtype() end

--- Sets the default dtype of this interpreter to a floating one.
--- > ml.set_default_dtype(ml.float32)
---@param dtype moonlet.dtype
function ml.set_default_dtype(dtype) end

--- How exact products of float32 matrices must be: "highest" at first.
---@return string
---@see set_float32_matmul_precision
function ml.get_float32_matmul_precision() end

--- Says how exact products of float32 matrices must be, for the whole process: "highest", in float32
--- throughout, or "high" or "medium", where CUDA devices may round the factors to TF32 (10 bits of
--- mantissa, sums in float32), which is several times faster. The CPU computes in float32 always.
--- > ml.set_float32_matmul_precision("high")
--- > ml.set_float32_matmul_precision("highest")
---@param precision "highest"|"high"|"medium"
function ml.set_float32_matmul_precision(precision) end

--- The device on which tensors are made unless it is said: "cpu" at first.
---@return string
function ml.get_default_device() end

--- Sets the device on which this interpreter makes tensors unless it is said.
--- > ml.set_default_device("cpu")
---@param device string
function ml.set_default_device(device) end

--- The shape to which shapes broadcast; a single integer is the shape of a vector.
--- > ml.broadcast_shapes({ 3, 1 }, { 4 }, { 2, 1, 1 })
---@param ... integer|integer[]
---@return moonlet.Shape
---@see broadcast_tensors
function ml.broadcast_shapes(...) end

--- Sets how tensors print: `precision` digits behind the point (4 at first); of more than `threshold`
--- elements (1000) only `edgeitems` (3) at each end of a dimension; lines of `linewidth` characters
--- (80); with `sci_mode` always, with `sci_mode = false` never with exponents, without it as the
--- numbers need. `profile` sets all of them first: "default", "short" or "full", which shows all.
--- > ml.set_printoptions { precision = 2, sci_mode = false }
---@param options {precision?: integer, threshold?: number, edgeitems?: integer, linewidth?: integer, profile?: string, sci_mode?: boolean}
function ml.set_printoptions(options) end

--- How many CPU threads the ops of this interpreter may use: at first the environment's
--- `OMP_NUM_THREADS`, or as many as there are cores; in the workers of a `DataLoader` one.
---@return integer
function ml.get_num_threads() end

--- Sets how many CPU threads the ops of this interpreter may use, at least 1, whatever thread of a
--- host runs it. Random numbers do not depend on it.
---@param count integer
function ml.set_num_threads(count) end

--- Sets whether ops of this interpreter on the CPU take numbers too small for full precision as 0,
--- which some processors compute with much faster; so does arithmetic of Lua then. Workers of a
--- `DataLoader` take it over when they start. Returns whether the processor can.
--- > ml.set_flush_denormal(false)
---@param on boolean
---@return boolean
function ml.set_flush_denormal(on) end

--- Calls `f(...)`, then frees all tensors made meanwhile but its results at once, without waiting
--- for the collector. Returns the results of `f`.
--- > ml.scope(function() return (ml.rand(100) * 2):sum() end)
---@param f fun(...): ...
---@param ... any what f gets
---@return any ...
function ml.scope(f, ...) end

--- Runs `f` without recording, or with `<close>` the rest of the block. `ml.enable_grad` records
--- again inside. The mode belongs to the coroutine: one that yields leaves the mode of its caller
--- alone. Returns the results of `f`, or the value to hold: `local _ <close> = ml.no_grad()`.
--- > ml.no_grad(function() return ml.ones(2) * 2 end)
---@param f? fun(...): ...
---@param ... any what f gets
---@return any ...
---@see enable_grad
---@see set_grad_enabled
---@see Tensor.detach
function ml.no_grad(f, ...) end

--- Runs `f`, or with `<close>` the rest of the block, with recording, also inside of `ml.no_grad`.
---@param f? fun(...): ...
---@param ... any what f gets
---@return any ...
---@see no_grad
function ml.enable_grad(f, ...) end

--- Records from now on, or stops to. Held as a `<close>` variable it ends with the block, else it
--- stays; with a function it is as `ml.no_grad(f, ...)` or `ml.enable_grad(f, ...)`.
--- > local _ <close> = ml.set_grad_enabled(false)
---@param on boolean
---@param f? fun(...): ...
---@param ... any what f gets
---@return any guard or the results of f
---@see no_grad
function ml.set_grad_enabled(on, f, ...) end

--- Runs `f`, or with `<close>` the rest of the block, without recording, as `ml.no_grad` does, and for
--- good: tensors made inside cannot be saved for a gradient later, nor changed in place outside of
--- the mode; `x:clone()` outside gives one that can. Views of other tensors are as these.
--- `ml.inference_mode(false, ...)` ends it inside.
--- > ml.inference_mode(function() return ml.ones(2) * 2 end)
---@param f? boolean|fun(...): ...
---@param ... any what f gets
---@return any ...
---@see Tensor.is_inference
---@see no_grad
function ml.inference_mode(f, ...) end

--- Whether `ml.inference_mode` is on here.
---@return boolean
function ml.is_inference_mode_enabled() end

--- Whether ops are recorded now.
---@return boolean
---@see no_grad
function ml.is_grad_enabled() end

--- Whether `ml.autocast` acts here on ops of that type of device.
---@param device? string "cpu" unless given
---@return boolean
---@see autocast
function ml.is_autocast_enabled(device) end

--- The gradients of `outputs` by `inputs`, each a tensor or an array of tensors: a tensor, or as many
--- results as there are inputs. Nothing is added to any `grad`. `grad_outputs` are what the gradients
--- of outputs with more than one element start from. With `create_graph` the gradients can be
--- differentiated again; `retain_graph` (the value of create_graph) keeps the graph for a second
--- call. An input that the outputs do not depend on is an error, or with `allow_unused` nil, or with
--- `materialize_grads` zeros. With `is_grads_batched` the first dimension of each of `grad_outputs`
--- counts gradients to start from, and that of each result what they gave: one backward runs in
--- `ml.func.vmap`, so hooks and functions of a script see one of them and cannot look at its elements.
--- Edges of
--- `ml.autograd.graph.get_gradient_edge` may stand for tensors.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > ml.grad((w * w):sum(), w)
---@param outputs moonlet.Tensor|moonlet.Tensor[]
---@param inputs moonlet.Tensor|moonlet.Tensor[]
---@param options? {grad_outputs?: moonlet.Tensor|moonlet.Tensor[], retain_graph?: boolean, create_graph?: boolean, allow_unused?: boolean, is_grads_batched?: boolean, materialize_grads?: boolean}
---@return moonlet.Tensor ... one per input
---@see Tensor.backward
function ml.grad(outputs, inputs, options) end

--- A block of memory on a device, seen as elements of one dtype: `size` zeros, the numbers of a
--- table, or the bytes of a file, mapped: `ml.Storage { file = path, dtype = ml.int32 }`. Writes to a
--- mapped file stay in this process; with `shared` they reach the file, which is made or grown when
--- `size`, in elements, asks for it; with `read_only` they are errors. `#s` is the number of elements;
--- `s[i]`, from 1, reads and writes one, seen by every tensor on the storage; ipairs walks them; `==`
--- is identity.
--- > ml.Storage({ 1, 2, 3 }, { dtype = ml.float64 })
---@param value? integer|(number|boolean)[]|moonlet.StorageOptions
---@param options? {dtype?: moonlet.dtype, device?: string, file?: string, shared?: boolean, read_only?: boolean, size?: integer}
---@return moonlet.Storage
---@see Tensor.storage
function ml.Storage(value, options) end

--- Whether a value is a storage.
---@param value any
---@return boolean
function ml.is_storage(value) end

--- A source of random numbers: a seed and how many numbers were drawn. Random ops take one by name,
--- `generator = g`, and else draw from `ml.default_generator`. A generator made without a seed has one
--- of its own, the same in each run of a script. With a device it fills tensors there only; the
--- numbers are the same on every device.
--- > g = ml.Generator { seed = 7 }
--- > ml.rand(2, { generator = g })
---@param device? string
---@param options? {seed?: integer}
---@return moonlet.Generator
---@see default_generator
---@see manual_seed
function ml.Generator(device, options) end

--- The generator that random ops draw from: each interpreter has its own.
---@type moonlet.Generator
ml.default_generator = nil

--- Seeds `ml.default_generator`; the same seed gives the same numbers on every device and for any
--- number of threads.
--- > ml.manual_seed(1)
---@param seed integer
function ml.manual_seed(seed) end

--- Seeds the default generator with a number that differs each time, and returns it.
--- > ml.seed()
---@return integer
---@see manual_seed
function ml.seed() end

--- The seed that the default generator has.
---@return integer
function ml.initial_seed() end

--- The state of `ml.default_generator`, for `ml.set_rng_state`.
---@return {seed: integer, offset: integer} state
function ml.get_rng_state() end

--- Takes `ml.default_generator` back to a state that `ml.get_rng_state` gave.
---@param state {seed: integer, offset: integer}
function ml.set_rng_state(state) end

--- The dtype in which a computation with both takes position.
--- > ml.promote_types("int64", "float16")
---@param type1 moonlet.dtype
---@param type2 moonlet.dtype
---@return moonlet.dtype
---@see result_type
function ml.promote_types(type1, type2) end

--- The dtype of what an op makes of two tensors or numbers: tensors with dimensions decide before those
--- without, and those before numbers, unless a later one is of a higher kind.
--- > ml.result_type(ml.ones(3, { dtype = ml.int32 }), 1.5)
---@param tensor1 moonlet.Tensor|number|moonlet.Complex
---@param tensor2 moonlet.Tensor|number|moonlet.Complex
---@return moonlet.dtype
---@see promote_types
function ml.result_type(tensor1, tensor2) end

--- Whether a result of dtype `from` may be stored in a tensor of dtype `to`: not from a higher kind to a
--- lower one (bool, integers, floats, complex).
---@param from moonlet.dtype
---@param to moonlet.dtype
---@return boolean
function ml.can_cast(from, to) end

--- The limits of a floating dtype, the default one unless given; of a complex one those of its parts.
--- `eps` is the distance from 1 to the next number, `tiny` (also `smallest_normal`) the smallest number
--- with all digits, `resolution` a power of ten near `eps`.
--- > ml.finfo(ml.float16).max
---@param dtype? moonlet.dtype
---@return {bits: integer, eps: number, max: number, min: number, tiny: number, smallest_normal: number, resolution: number, dtype: moonlet.dtype}
---@see iinfo
function ml.finfo(dtype) end

--- The limits of an integer dtype.
--- > ml.iinfo(ml.int8).max
---@param dtype moonlet.dtype
---@return {bits: integer, max: integer, min: integer, dtype: moonlet.dtype}
---@see finfo
function ml.iinfo(dtype) end

--- Whether a tensor's dtype, or a dtype, is a floating one: float32, float16, bfloat16, float8_e5m2 and so on.
---@param x moonlet.Tensor|moonlet.dtype
---@return boolean
function ml.is_floating_point(x) end

--- Whether a tensor's dtype, or a dtype, is complex64 or complex128.
---@param x moonlet.Tensor|moonlet.dtype
---@return boolean
function ml.is_complex(x) end

--- Whether a tensor's dtype, or a dtype, has negative numbers: all but bool and the unsigned integers.
---@param x moonlet.Tensor|moonlet.dtype
---@return boolean
function ml.is_signed(x) end

--- The ratio of a circle's circumference to its diameter.
ml.pi = 3.14159265358979323846

--- The base of the natural logarithm.
ml.e = 2.71828182845904523536

--- Positive infinity.
ml.inf = 1 / 0

--- The number that equals no number, as 0/0 gives it.
ml.nan = 0 / 0

--- In an index, a new dimension of size 1: `x[{ ml.newaxis, 1 }]`.
ml.newaxis = "newaxis"

--- In an index, all dimensions that the others leave: `x[{ ml.ellipsis, 1 }]` is the last one's first.
ml.ellipsis = "..."

--- The memory format of row-major order, the last dimension side by side.
ml.contiguous_format = "contiguous_format"

--- The memory format that keeps the order of the dimensions that the input has.
ml.preserve_format = "preserve_format"

--- The memory format of images, (n, c, h, w), with the channels of a pixel side by side.
ml.channels_last = "channels_last"

--- The memory format of volumes, (n, c, d, h, w), with the channels of a voxel side by side.
ml.channels_last_3d = "channels_last_3d"

--- Moonlet's version.
ml.version = "0.1.0"

--- The ops as values: their names and descriptions.
ml.ops = {}

--- An argument or a result of an op, in what `ml.ops.info` gives.
---@class moonlet.Argument
---@field name string? of the argument or result
---@field type string as in the schema
---@field default string? what it is when left out
---@field written boolean? whether the op changes it

--- What `ml.ops.info` knows of an op.
---@class moonlet.Op
---@field name string of this form: "add", "add_", "add_out"
---@field row string the op's name without the form
---@field form "plain"|"in_place"|"out" which form it is
---@field schema string the signature in the op table
---@field kind string of the row, such as "pointwise"
---@field family string the page of the reference it is on
---@field dtypes moonlet.dtype[] that it computes with
---@field arguments moonlet.Argument[] in order
---@field results moonlet.Argument[] in order
---@field writes integer[] the positions of the arguments that it changes
---@field is_view boolean whether the result shares memory with an argument
---@field random boolean whether it draws random numbers
---@field internal boolean whether it is the library's own, such as the gradient of an op: no field of `ml` and no method
---@field differentiable boolean whether backward goes through it
---@field autocast {cpu?: string, cuda?: string}|nil what autocast does with its arguments on each type of device: "lower_precision", "float32" or "promote"

--- The names of all ops, in all their forms.
---@return string[]
function ml.ops.list() end

--- What is known of an op, of its row and this form of it.
--- > ml.ops.info("add_").writes
---@param name string
---@return moonlet.Op
function ml.ops.info(name) end

--- What a profile knows of an op called from one line.
---@class moonlet.ProfileEvent
---@field name string of the op, or of what it is inside
---@field where string? the file and line of the script that called it
---@field count integer how many calls
---@field total_time number seconds with the ops inside
---@field self_time number seconds without them
---@field bytes integer allocated with the ops inside
---@field self_bytes integer allocated without them

--- Counts and frees memory.
ml.memory = {}

--- The bytes of all storages that are in use now, on all devices.
---@return integer
function ml.memory.live_bytes() end

--- The bytes that Moonlet has from the system: those in use and those kept for the next tensors.
---@return integer
function ml.memory.held_bytes() end

--- The most bytes held since the start or `ml.memory.reset_peak`.
---@return integer
function ml.memory.peak_bytes() end

--- Starts counting `ml.memory.peak_bytes` anew, from what is held now.
function ml.memory.reset_peak() end

--- Calls `f(...)` and returns the most bytes that were live meanwhile, exactly, then the results.
--- > ml.memory.peak_live_bytes(function() return ml.ones(1000):sum() end)
---@param f fun(...): ...
---@param ... any what f gets
---@return integer bytes
---@return any ...
function ml.memory.peak_live_bytes(f, ...) end

--- Runs a full collection of Lua's and frees what it finds.
function ml.memory.collect() end

--- Gives memory that is kept for the next tensors back to the system and to the devices.
function ml.memory.empty_cache() end

--- Whether the CUDA backend can be loaded and has a device.
---@return boolean
function ml.cuda.is_available() end

--- Why CUDA is not available, or nil when it is.
---@return string?
function ml.cuda.unavailable_reason() end

--- How many CUDA devices there are: 0 without CUDA.
---@return integer
function ml.cuda.device_count() end

--- The name that a device has from its maker.
---@param device? integer|string the current one unless given
---@return string
function ml.cuda.device_name(device) end

--- Waits until a device has done all that it was asked to, and raises what went wrong there, also what
--- an op of this script found wrong with positions, classes or divisors since the last wait.
---@param device? integer|string the current one unless given
function ml.cuda.synchronize(device) end

--- The free and the total bytes of a device.
---@param device? integer|string the current one unless given
---@return integer available
---@return integer total
function ml.cuda.memory_info(device) end

--- Whether the devices are an emulation on the CPU, for tests.
---@return boolean
function ml.cuda.is_emulated() end

--- How often this process has waited for a device, as `x:item()`, copies to the host and
--- `synchronize` do: what a training step waits for is the difference over the step.
--- > ml.cuda.wait_count()
---@return integer
function ml.cuda.wait_count() end

--- The bytes of all storages in use on CUDA devices.
---@return integer
function ml.cuda.live_bytes() end
