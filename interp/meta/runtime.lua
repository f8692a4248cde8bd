-- interp/meta/runtime.lua: the ops as values, memory and CUDA devices, for editors, help() and the
-- reference.

--- An argument or a result of an op, in what `ml.ops.info` gives.
--- > ml.ops.info("softmax").arguments[2].name
---   dim
---@class moonlet.Argument
---@field name string? its name
---@field type string its type, as in the schema
---@field default string? its default, as in the schema
---@field written boolean? whether the op changes it

--- Description of an op, which `ml.ops.info` gives.
--- > ml.ops.info("exp").kind
---   pointwise
---@class moonlet.Op
---@field name string the name of this form: "add", "add_", "add_out"
---@field row string the op's name without the form
---@field form "plain"|"in_place"|"out" "plain", "in_place" or "out"
---@field schema string the signature in the op table
---@field kind string the kind of the row, such as "pointwise"
---@field family string the page of the reference it is on
---@field dtypes moonlet.dtype[] the dtypes that it computes with
---@field arguments moonlet.Argument[] its arguments in order
---@field results moonlet.Argument[] its results in order
---@field writes integer[] the positions of the arguments that it changes
---@field is_view boolean whether the result shares memory with an argument
---@field random boolean whether it draws random numbers
---@field internal boolean whether it is the library's own, such as the gradient of an op: no field of `ml` and no method
---@field differentiable boolean whether backward goes through it
---@field declared table? of an op that was declared in C++, what its declaration says besides: `call`, where scripts find it, `usage`, `doc`, `texts` of arguments, `example`, `samples`, the arguments that have `gradients`, whether it has the form `inplace` and is a `method`
---@field autocast {cpu?: string, cuda?: string}|nil what autocast does with its arguments on each type of device: "lower_precision", "float32" or "promote"

--- The names of all ops, in all their forms.
--- > #ml.ops.list() > 1000
---   true
---@return string[]
function ml.ops.list() end

--- Description of an op: of its row and of this form of it.
--- > ml.ops.info("add_").writes
---   {1}
---@param name string such as "add", "add_" or "add_out"
---@return moonlet.Op
function ml.ops.info(name) end

--- Annotations, as editors read them (LuaLS), of the ops that hosts and extensions have declared in
--- C++: a file of them beside the scripts completes and checks calls of `ml.ops.mylib.snake`.
--- > ml.ops.stubs():match("---@meta")
---   ---@meta
---@return string
function ml.ops.stubs() end

--- An event of a profile: what is known of an op called from one line of a script.
--- > ml.profile(function() return ml.ones(9):exp() end).events[1].count
---   1
---@class moonlet.ProfileEvent
---@field name string the op, or the op whose backward it is
---@field where string? the file and line of the script that called it
---@field count integer number of calls
---@field total_time number seconds, with the ops inside
---@field self_time number seconds, without the ops inside
---@field bytes integer bytes allocated, with the ops inside
---@field self_bytes integer bytes allocated, without the ops inside

--- Counts and frees the memory of tensors.
ml.memory = {}

--- The bytes of all storages in use now, on all devices.
--- > before = ml.memory.live_bytes()
--- > x = ml.ones(1000)
--- > ml.memory.live_bytes() - before >= 4000
---   true
---@return integer
function ml.memory.live_bytes() end

--- The bytes that Moonlet holds of the system's memory: those in use and those kept for further
--- tensors.
--- > ml.memory.held_bytes() >= 0
---   true
---@return integer
function ml.memory.held_bytes() end

--- The most bytes held since the start or `ml.memory.reset_peak`.
--- > ml.memory.peak_bytes() >= ml.memory.held_bytes()
---   true
---@return integer
function ml.memory.peak_bytes() end

--- Starts counting `ml.memory.peak_bytes` anew, from what is held now.
--- > ml.memory.reset_peak()
--- > ml.memory.peak_bytes() >= ml.memory.held_bytes()
---   true
function ml.memory.reset_peak() end

--- Calls `f(...)` and returns the most bytes that were live meanwhile, exactly, and then the
--- results of `f`.
--- > bytes = ml.memory.peak_live_bytes(function() return ml.ones(1000):sum() end)
--- > bytes >= 4000
---   true
---@param f fun(...): ... the function to call
---@param ... any what `f` gets
---@return integer bytes
---@return any ...
function ml.memory.peak_live_bytes(f, ...) end

--- Runs a full garbage collection of Lua's, which frees tensors that are no longer used.
--- > ml.memory.collect()
--- > ml.memory.live_bytes() >= 0
---   true
function ml.memory.collect() end

--- Returns memory that is kept for further tensors to the system and to the devices.
--- > ml.memory.empty_cache()
--- > ml.memory.held_bytes() >= ml.memory.live_bytes()
---   true
function ml.memory.empty_cache() end

--- Whether the CUDA backend can be loaded and there is a device.
--- > type(ml.cuda.is_available())
---   boolean
---@return boolean
function ml.cuda.is_available() end

--- Why CUDA is not available; nil when it is.
--- > (ml.cuda.unavailable_reason() == nil) == ml.cuda.is_available()
---   true
---@return string?
function ml.cuda.unavailable_reason() end

--- Number of CUDA devices; 0 without CUDA.
--- > ml.cuda.device_count() >= 0
---   true
---@return integer
function ml.cuda.device_count() end

--- The name that a device has from its maker.
--- > type(ml.cuda.device_name())  -- needs cuda
---   string
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return string
function ml.cuda.device_name(device) end

--- Waits until a device has done all that it was asked to, and raises what went wrong there: also
--- what an op of this script found wrong with indices, classes or divisors since the last wait.
--- > ml.cuda.synchronize()  -- needs cuda
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
function ml.cuda.synchronize(device) end

--- The free and the total memory of a device, in bytes.
--- > available, total = ml.cuda.memory_info()  -- needs cuda
--- > available <= total
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer available
---@return integer total
function ml.cuda.memory_info(device) end

--- Whether the devices are an emulation on the CPU, for tests.
--- > type(ml.cuda.is_emulated())
---   boolean
---@return boolean
function ml.cuda.is_emulated() end

--- How often this process has waited for a device, as `x:item()`, copies to the host and
--- `synchronize` do: what a training step waits for is the difference over the step.
--- > ml.cuda.wait_count() >= 0
---   true
---@return integer
function ml.cuda.wait_count() end

--- The bytes of all storages in use on CUDA devices.
--- > ml.cuda.live_bytes() >= 0
---   true
---@return integer
function ml.cuda.live_bytes() end
