-- stdlib/cuda/kernels.lua: ml.cuda.kernel: kernels in CUDA C++ that a script writes. They are
-- compiled by NVRTC (cuda/loops/raw_kernels.cpp); interp/binding/device/raw_kernels.cpp reads their
-- arguments.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local core = ml._cuda
local kernels = {}

-- Numbers by their C type: the kind and the bytes.
local scalars = {
  ["char"] = { "int", 1 }, ["signed char"] = { "int", 1 }, ["unsigned char"] = { "uint", 1 },
  ["short"] = { "int", 2 }, ["unsigned short"] = { "uint", 2 }, ["int"] = { "int", 4 },
  ["unsigned"] = { "uint", 4 }, ["unsigned int"] = { "uint", 4 }, ["long"] = { "int", 8 },
  ["unsigned long"] = { "uint", 8 }, ["long long"] = { "int", 8 },
  ["unsigned long long"] = { "uint", 8 }, ["size_t"] = { "uint", 8 }, ["float"] = { "float", 4 },
  ["double"] = { "float", 8 }, ["bool"] = { "bool", 1 },
}
-- The dtype that a pointer to a type points to.
local elements = { ["char"] = "int8", ["signed char"] = "int8", ["unsigned char"] = "uint8",
  ["short"] = "int16", ["unsigned short"] = "uint16", ["int"] = "int32", ["unsigned"] = "uint32",
  ["unsigned int"] = "uint32", ["long"] = "int64", ["unsigned long"] = "uint64",
  ["long long"] = "int64", ["unsigned long long"] = "uint64", ["size_t"] = "uint64",
  ["float"] = "float32", ["double"] = "float64", ["bool"] = "bool", ["__half"] = "float16",
  ["half"] = "float16", ["__nv_bfloat16"] = "bfloat16", ["nv_bfloat16"] = "bfloat16",
  ["float2"] = "complex64", ["double2"] = "complex128" }
for bits, name in pairs { [8] = "char", [16] = "short", [32] = "int", [64] = "long long" } do
  local signed = bits == 8 and "signed char" or name
  scalars[("int%d_t"):format(bits)] = scalars[signed]
  scalars[("uint%d_t"):format(bits)] = scalars["unsigned " .. name]
  elements[("int%d_t"):format(bits)] = ("int%d"):format(bits)
  elements[("uint%d_t"):format(bits)] = ("uint%d"):format(bits)
end
-- "float32" as the C type that stands for it in `dtypes`.
local c_types = { float32 = "float", float64 = "double", int8 = "signed char", int16 = "short",
  int32 = "int", int64 = "long long", uint8 = "unsigned char", uint16 = "unsigned short",
  uint32 = "unsigned int", uint64 = "unsigned long long", bool = "bool" }

-- The source without comments and texts, each character in its position.
local function code_of(source)
  local function blank(text) return (text:gsub("[^\n]", " ")) end
  local out, at = {}, 1
  while true do
    local start, mark = source:match('()([/"])', at)
    if not start then break end
    local finish
    if mark == '"' then
      finish = source:match('^"[^"\\\n]*()', start)
      while finish and source:sub(finish, finish) == "\\" do
        finish = source:match('^[^"\\\n]*()', finish + 2)
      end
    elseif source:sub(start, start + 1) == "//" then
      finish = source:match("()\n", start) or #source + 1
      finish = finish - 1
    elseif source:sub(start, start + 1) == "/*" then
      finish = select(2, source:find("*/", start + 2, true)) or #source
    else
      finish = start - 1
    end
    finish = math.min(finish or start, #source)
    out[#out + 1] = source:sub(at, start - 1)
    out[#out + 1] = finish < start and mark or blank(source:sub(start, finish))
    at = math.max(finish, start) + 1
  end
  out[#out + 1] = source:sub(at)
  return table.concat(out)
end

-- The list of parameters of the kernel of that name.
local function find_parameters(source, name)
  local code = code_of(source)
  local at = 1
  while true do
    local start = code:find("__global__", at, true)
    if not start then break end
    local list = code:match("^__global__[^;{}]-[%s*&]" .. name .. "%s*(%b())", start)
    if list then return list:sub(2, -2) end
    at = start + 1
  end
  fail("cuda.kernel: the source has no kernel '%s', expected extern \"C\" __global__ void %s(...)",
    name, name)
end

local function split(list)
  local out = {}
  if not list:find "%S" or list:find "^%s*void%s*$" then return out end
  for part in list:gmatch "[^,]+" do out[#out + 1] = part end
  return out
end

local function unknown(name, parameter, word)
  fail("cuda.kernel: %s: the type of '%s' is '%s', of which nothing is known; say it in 'dtypes'",
    name, parameter.name, word)
end

-- A parameter from its text, "const float* __restrict__ x", or from what `dtypes` says of it.
local function read_parameter(name, text, number, given)
  local plain = text:gsub("__restrict__", " "):gsub("__grid_constant__", " "):gsub("%s+", " ")
  local kind, own = plain:match "^ ?(.-[%s*])([%a_][%w_]*) ?$"
  if not kind then
    fail("cuda.kernel: %s: parameter %d is %q, expected 'type name'", name, number, text)
  end
  kind = kind:gsub(" ?%* ?", "*"):gsub("^ +", ""):gsub(" +$", "")
  local stars = select(2, kind:gsub("%*", ""))
  local parameter = { name = own, type = kind, const = kind:find "^const " ~= nil
    or kind:find " const%*" ~= nil }
  local base = kind:gsub("const", ""):gsub("%*", ""):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  if given and given ~= "any" then base = stars > 0 and base or c_types[given] or given end
  if stars > 1 or kind:find "[&%[<]" and not given then unknown(name, parameter, kind) end
  if stars == 1 then
    parameter.kind = "pointer"
    parameter.dtype = given or (base == "void" and "any") or elements[base]
    if not parameter.dtype then unknown(name, parameter, kind) end
    if parameter.dtype == "any" then parameter.dtype = nil end
    return parameter
  end
  local number_of = scalars[base]
  if not number_of then unknown(name, parameter, kind) end
  parameter.kind, parameter.bytes = number_of[1], number_of[2]
  return parameter
end

local function read_parameters(source, name, dtypes)
  local parts = split(find_parameters(source, name))
  if dtypes and #dtypes > #parts then
    fail("cuda.kernel: %s: 'dtypes' names %d parameters, and the kernel has %d", name, #dtypes,
      #parts)
  end
  local out = {}
  for i, text in ipairs(parts) do
    local given = dtypes and dtypes[i] or nil
    if given and type(given) ~= "string" then
      fail("cuda.kernel: %s: 'dtypes' has a dtype, \"any\" or false for each parameter, got %s",
        name, signature.describe(given))
    end
    out[i] = read_parameter(name, text, i, given)
  end
  return out
end

--- A kernel, which `ml.cuda.kernel` makes. It is called with a table that says where it runs, and
--- its arguments: `k({ grid = 64, block = 256 }, x, y, 3)`.
--- > k = ml.cuda.kernel("extern \"C\" __global__ void f(float* x) { x[threadIdx.x] = 1; }", "f")
--- > tostring(k)
---   kernel f(float* x)
local Kernel = class("Kernel")

local read = signature("cuda.kernel(string source, string name, table? options=nil, "
  .. "table? dtypes=nil)")

function Kernel:init(...)
  local source, name, flags, dtypes = read(...)
  if not name:find "^[%a_][%w_]*$" then
    fail("cuda.kernel: 'name' must be a name of C, got %q", name)
  end
  for _, flag in ipairs(flags or {}) do
    if type(flag) ~= "string" or flag:find "[\n%z]" then
      fail("cuda.kernel: 'options' must hold strings of one line, got %s", signature.describe(flag))
    end
  end
  self.name = name
  local parameters = read_parameters(source, name, dtypes)
  local shown = {}
  for i, parameter in ipairs(parameters) do
    shown[i] = parameter.type .. " " .. parameter.name
  end
  self._text = ("kernel %s(%s)"):format(name, table.concat(shown, ", "))
  self._kernel = core._kernel(source, name, flags or {}, parameters)
end

function Kernel:__tostring() return self._text end

-- One number, or up to three, as three.
local function sizes(name, what, given)
  if math.type(given) == "integer" then return { given } end
  if given == nil then return { 1 } end
  local count = type(given) == "table" and #given or 0
  if count < 1 or count > 3 then
    fail("%s: '%s' must be an integer or an array of up to three, got %s", name, what,
      signature.describe(given))
  end
  local out = {}
  for i = 1, count do
    out[i] = math.tointeger(given[i])
    if not out[i] or type(given[i]) ~= "number" then
      fail("%s: '%s' must hold integers, got %s", name, what, signature.describe(given[i]))
    end
  end
  return out
end

local LAUNCH = { "grid", "block", "shared_memory", "stream", "device" }

local function launch(self, where, ...)
  local name = self.name
  if type(where) ~= "table" or getmetatable(where) then
    fail("%s: expected a table { grid =, block = } before the arguments, got %s", name,
      signature.describe(where))
  end
  options.check(name, where, LAUNCH)
  local shared = where.shared_memory or 0
  if math.type(shared) ~= "integer" then
    fail("%s: 'shared_memory' must be an integer of bytes, got %s", name,
      signature.describe(shared))
  end
  local grid, block = sizes(name, "grid", where.grid), sizes(name, "block", where.block)
  local _ <close> = ml._profile_range(name)
  core._launch_kernel(self._kernel, where.device, grid, block, shared, ...)
end

-- What the caching allocator is told, as the memory is another stream's.
local function record(stream, ...)
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if ml.is_tensor(x) then x:record_stream(stream) end
  end
end

--- Puts one run of the kernel into the current stream of the tensors' device, or into `stream`, and
--- returns at once. `grid` and `block` are a number of blocks and of threads in each, or tables of
--- up to three, x first. A pointer takes a tensor, whose first element it points to, whatever its
--- strides, or nil; a number must fit its C type.
--- > source = [[extern "C" __global__ void fill(float* x, float value, int n) {
---     int i = blockIdx.x * blockDim.x + threadIdx.x;
---     if (i < n) x[i] = value;
---   }]]  -- needs kernels
--- > fill = ml.cuda.kernel(source, "fill")
--- > x = ml.empty(3, { device = "cuda" })
--- > fill({ grid = 1, block = 32 }, x, 2.5, 3)
--- > x:tolist()
---   {2.5, 2.5, 2.5}
---@param where table {grid, block, shared_memory, stream, device}
---@param where.grid? integer|integer[] how many blocks
---@param where.block? integer|integer[] how many threads in each
---@param where.shared_memory? integer the bytes of dynamic shared memory
---@param where.stream? moonlet.cuda.Stream the stream; the current one unless given
---@param where.device? integer|string the device of a kernel that gets no tensor
---@param ... any the arguments of the kernel
function Kernel:__call(where, ...)
  local stream = type(where) == "table" and rawget(where, "stream")
  if not stream then return launch(self, where, ...) end
  local _ <close> = ml.cuda.stream(stream)
  launch(self, where, ...)
  record(stream, ...)
end

local read_compile = signature("Kernel:compile(int|string? device=nil)")

--- Compiles the kernel now, where its first call would: before a CUDA graph is recorded.
--- > source = "extern \"C\" __global__ void f(int* x) { x[0] = 7; }"  -- needs kernels
--- > f = ml.cuda.kernel(source, "f"):compile()
---@param device? integer|string the device to compile for, the current one unless given
---@return moonlet.cuda.Kernel self
function Kernel:compile(...)
  core._compile_kernel(self._kernel, read_compile(...))
  return self
end

--- A kernel in CUDA C++, as CuPy's RawKernel: compiled for the device of its tensors at its first
--- call by NVRTC, with what it was compiled to in the cache of files (`MOONLET_CACHE`). The source
--- declares it `extern "C" __global__ void name(...)`. Its parameters are pointers, which take
--- tensors of that dtype, and numbers; what is behind a pointer that is not `const` counts as
--- changed in place. The tape does not see what it does: `ml.ops.define` makes an op of it, with a
--- `backward`.
--- > source = [[extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
---     int i = blockIdx.x * blockDim.x + threadIdx.x;
---     if (i < n) y[i] += a * x[i];
---   }]]  -- needs kernels
--- > axpy = ml.cuda.kernel(source, "axpy")
--- > x, y = ml.ones(4, { device = "cuda" }), ml.zeros(4, { device = "cuda" })
--- > axpy({ grid = 1, block = 128 }, 2.0, x, y, 4)
--- > y:tolist()
---   {2.0, 2.0, 2.0, 2.0}
---@param source string the text, in which the kernel is extern "C"
---@param name string the kernel's name
---@param options? string[] options of NVRTC, such as "--use_fast_math", "-DSIZE=8"
---@param dtypes? any[] for each parameter its dtype where the source does not tell, as of `T* x`,
---   "any" for a pointer to elements of any dtype, or false
---@return moonlet.cuda.Kernel
---@error no kernel of that name, a parameter of an unknown type; at the first call messages of the
---   compiler, with the source's lines
---@see cuda.elementwise_kernel ops.define
function kernels.kernel(...) return Kernel(...) end

kernels.Kernel = Kernel

return options.namespace("cuda.kernels", kernels)
