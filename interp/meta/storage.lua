-- interp/meta/storage.lua: storages and generators, for editors, help() and the reference.

--- The options of `ml.Storage`.
--- > ml.Storage({ 1, 2 }, { dtype = ml.int32 }).dtype
---   int32
---@class moonlet.StorageOptions
---@field dtype? moonlet.dtype the dtype of the elements; the default dtype unless given
---@field device? string where the memory is; "cpu" unless given
---@field file? string the file to map
---@field shared? boolean whether writes reach the file
---@field read_only? boolean whether writes are errors
---@field size? integer number of elements of the file

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

--- Sets every element to a value. Returns `s`.
--- > ml.Storage(3):fill(7):tolist()
---   {7.0, 7.0, 7.0}
---@param value number|boolean a number or boolean
---@return moonlet.Storage s
function Storage:fill(value) end

--- Writes the elements of `source` over those of `s`, converted to its dtype and copied to its
--- device. Returns `s`.
--- > ml.Storage(2):copy({ 3, 4 }):tolist()
---   {3.0, 4.0}
---@param source moonlet.Storage|moonlet.Tensor|(number|boolean)[] a storage, a tensor of one dimension or an array, of as many elements as `s`
---@return moonlet.Storage s
function Storage:copy(source) end

--- Changes the number of elements. Contents stay as far as they fit, new elements are 0. A smaller
--- size frees memory only when no tensor views the storage. Returns `s`.
--- > #ml.Storage(2):resize(5)
---   5
---@param size integer the new number of elements
---@return moonlet.Storage s
---@error for memory that is foreign, mapped, read-only or shared with another interpreter, as with the workers of a DataLoader
function Storage:resize(size) end

--- The elements as a table.
--- > ml.Storage({ 1, 2 }):tolist()
---   {1, 2}
---@return (number|boolean)[]
function Storage:tolist() end

--- The same as `s:tolist()`.
--- > ml.Storage({ 1, 2 }):totable()
---   {1, 2}
---@return (number|boolean)[]
function Storage:totable() end

--- The number of elements, as `#s`.
--- > ml.Storage(4):size()
---   4
---@return integer
function Storage:size() end

--- The address of the first element, for code outside Lua.
--- > math.type(ml.Storage(4):data_ptr())
---   integer
---@return integer
function Storage:data_ptr() end

--- Frees the storage at once instead of when the collector finds the value; tensors on it keep it.
--- > s = ml.Storage(4)
--- > s:free()
function Storage:free() end

--- What `ml.Generator` makes: a source of random numbers.
---@class moonlet.Generator
---@field device string? The device whose tensors it fills, or nil for any.
local Generator = {}

--- Sets the seed and starts from the first number. Returns `g`.
--- > ml.Generator():manual_seed(5):initial_seed()
---   5
---@param seed integer an integer
---@return moonlet.Generator g
function Generator:manual_seed(seed) end

--- Takes a seed from the system and returns it.
--- > g = ml.Generator()
--- > g:seed() == g:initial_seed()
---   true
---@return integer
function Generator:seed() end

--- The seed that it started from.
--- > ml.Generator { seed = 7 }:initial_seed()
---   7
---@return integer
function Generator:initial_seed() end

--- Its state, for `g:set_state`: the seed, and how many numbers were drawn.
--- > ml.Generator { seed = 7 }:get_state()
---   {offset = 0, seed = 7}
---@return {seed: integer, offset: integer} state
---@see Generator.set_state
function Generator:get_state() end

--- Sets it to a state that `g:get_state` gave. Returns `g`.
--- > g = ml.Generator { seed = 7 }
--- > state, x = g:get_state(), ml.rand(2, { generator = g })
--- > ml.equal(x, ml.rand(2, { generator = g:set_state(state) }))
---   true
---@param state {seed: integer, offset: integer} the seed, and how many numbers were drawn
---@return moonlet.Generator g
function Generator:set_state(state) end

--- A complex number, as `ml.complex` of two numbers and `x:item()` of a complex tensor give it; it
--- may stand wherever a number may. It adds, subtracts, multiplies, divides and is raised to powers
--- with numbers and tensors; `==` compares two of them.
--- > z = ml.complex(3, 4)
--- > z * z
---   -7+24i
---@class moonlet.Complex
---@field real number The real part.
---@field imag number The imaginary part.
local Complex = {}

--- Modulus of the number.
--- > ml.complex(3, 4):abs()
---   5.0
---@return number
---@formula |z| = sqrt(real^2 + imag^2)
function Complex:abs() end

--- Argument: the angle in the complex plane in radians, from -pi to pi.
--- > ml.complex(0, 1):angle()
---   1.5707963267949
---@return number
---@formula arg(z) = atan2(imag, real)
function Complex:angle() end

--- Complex conjugate.
--- > ml.complex(3, 4):conj()
---   3-4i
---@return moonlet.Complex
---@formula conj(z) = real - i imag
function Complex:conj() end
