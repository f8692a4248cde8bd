-- interp/meta/storage.lua: storages and generators, for editors, help() and the reference.

--- The options of `ml.Storage`.
---@class moonlet.StorageOptions
---@field dtype? moonlet.dtype of the elements, the default dtype unless given
---@field device? string where the memory is, "cpu" unless given
---@field file? string the file to map
---@field shared? boolean whether writes reach the file
---@field read_only? boolean whether writes are errors
---@field size? integer elements of the file

--- What `ml.Storage` and `x:storage()` give: a block of memory as elements of one dtype.
---@class moonlet.Storage
---@field dtype moonlet.dtype The kind of the elements.
---@field device string Where the memory is: "cpu", "cuda:0".
---@field nbytes integer The bytes of the elements.
---@field itemsize integer The bytes of one element.
---@field is_mapped boolean Whether the memory is that of a file.
---@field is_shared boolean Whether writes reach the file.
---@field is_foreign boolean Whether the memory belongs to a host's program.
---@field is_read_only boolean Whether writes are errors.
---@field [integer] number|boolean
---@operator len: integer
local Storage = {}

--- Sets every element. Returns `s`.
---@param value number|boolean
---@return moonlet.Storage s
function Storage:fill(value) end

--- Writes the elements of `source` (a storage, a tensor of one dimension or a table, as long as
--- `s`) over those of `s`, converted to its dtype and moved to its device. Returns `s`.
---@param source moonlet.Storage|moonlet.Tensor|(number|boolean)[]
---@return moonlet.Storage s
function Storage:copy(source) end

--- Changes the number of elements. Contents stay as far as they fit, new elements are 0. A smaller
--- size gives memory back only when no tensor views the storage. Refused for memory that is foreign,
--- mapped, read-only or shared with another interpreter, as with the workers of a DataLoader. Returns
--- `s`.
---@param size integer
---@return moonlet.Storage s
function Storage:resize(size) end

--- The elements as a table.
---@return (number|boolean)[]
function Storage:tolist() end

--- The same as `s:tolist()`.
---@return (number|boolean)[]
function Storage:totable() end

--- The number of elements, as `#s`.
---@return integer
function Storage:size() end

--- The address of the first element, for code outside Lua.
---@return integer
function Storage:data_ptr() end

--- Lets go of the storage at once instead of when the collector finds the value; tensors on it keep
--- it.
function Storage:free() end

--- What `ml.Generator` makes: a source of random numbers.
---@class moonlet.Generator
---@field device string? The device whose tensors it fills, or nil for any.
local Generator = {}

--- Starts again from a seed. Returns `g`.
---@param seed integer
---@return moonlet.Generator g
function Generator:manual_seed(seed) end

--- Takes a seed from the system and returns it.
---@return integer
function Generator:seed() end

--- The seed that it started from.
---@return integer
function Generator:initial_seed() end

--- Where it stands, for `g:set_state`.
---@return {seed: integer, offset: integer} state
---@see Generator.set_state
function Generator:get_state() end

--- Goes back to a state that `g:get_state` gave. Returns `g`.
---@param state {seed: integer, offset: integer}
---@return moonlet.Generator g
function Generator:set_state(state) end

--- What `ml.complex` of two numbers gives, and `x:item()` of a complex tensor: a complex number, which
--- stands wherever a number may. It adds, subtracts, multiplies, divides and is raised to powers with
--- numbers and tensors; `==` compares two of them.
---@class moonlet.Complex
---@field real number The real part.
---@field imag number The imaginary part.
local Complex = {}

--- The modulus.
---@return number
function Complex:abs() end

--- The angle in the complex plane, from -pi to pi.
---@return number
function Complex:angle() end

--- The complex conjugate.
---@return moonlet.Complex
function Complex:conj() end
