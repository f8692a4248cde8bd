-- stdlib/cuda/elementwise.lua: ml.cuda.elementwise_kernel: a kernel of one element, over tensors of
-- any shape.

local class = require "moonlet.class"
local kernels = require "moonlet.cuda.kernels"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local elementwise = {}

local THREADS = 256
-- Of a grid whose threads go on to further elements.
local MOST_BLOCKS = 65535

local dtypes = { float = "float32", double = "float64", int = "int32", ["long long"] = "int64",
  int64_t = "int64", int32_t = "int32", int16_t = "int16", int8_t = "int8", uint8_t = "uint8",
  uint16_t = "uint16", uint32_t = "uint32", uint64_t = "uint64", bool = "bool", short = "int16",
  ["unsigned char"] = "uint8", ["signed char"] = "int8" }

-- The parameters of a text "float x, number float a": of the elements of a tensor, or of a number.
local function read_list(name, what, text)
  local out = {}
  for part in text:gmatch "[^,]+" do
    local kind, own = part:match "^%s*(.-)%s+([%a_][%w_]*)%s*$"
    local plain = kind and kind:match "^number%s+(.*)$"
    local base = plain or kind
    if not base or not dtypes[base] then
      fail("cuda.elementwise_kernel: %s: '%s' has %q, expected a C type and a name such as "
        .. "'float x', or 'number float a'", name, what, part:match "^%s*(.-)%s*$")
    end
    if own == "i" or own == "n" or own:find "^moonlet_" then
      fail("cuda.elementwise_kernel: %s: '%s' is a name of the kernel's own, expected another",
        name, own)
    end
    out[#out + 1] = { type = base, name = own, number = plain ~= nil, dtype = dtypes[base] }
  end
  return out
end

local function source_of(name, inputs, outputs, operation, preamble)
  local parameters, reads, writes = {}, {}, {}
  for _, p in ipairs(inputs) do
    parameters[#parameters + 1] = p.number and ("%s %s"):format(p.type, p.name)
      or ("const %s* moonlet_%s"):format(p.type, p.name)
    if not p.number then
      reads[#reads + 1] = ("    const %s %s = moonlet_%s[i];"):format(p.type, p.name, p.name)
    end
  end
  for _, p in ipairs(outputs) do
    parameters[#parameters + 1] = ("%s* moonlet_%s"):format(p.type, p.name)
    reads[#reads + 1] = ("    %s %s;"):format(p.type, p.name)
    writes[#writes + 1] = ("    moonlet_%s[i] = %s;"):format(p.name, p.name)
  end
  return ([[%s
extern "C" __global__ void %s(%s, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
%s
#line 1 "%s"
    %s;
%s
  }
}
]]):format(preamble, name, table.concat(parameters, ", "), table.concat(reads, "\n"), name,
    operation, table.concat(writes, "\n"))
end

--- A kernel of one element, which `ml.cuda.elementwise_kernel` makes.
--- > k = ml.cuda.elementwise_kernel("float x", "float y", "y = x * x", "squared")
--- > tostring(k)
---   elementwise kernel squared
local ElementwiseKernel = class("ElementwiseKernel")

local read = signature('cuda.elementwise_kernel(string inputs, string outputs, string operation, '
  .. 'string name, string preamble="", table? options=nil)')

function ElementwiseKernel:init(...)
  local inputs, outputs, operation, name, preamble, flags = read(...)
  self.name = name
  self.inputs = read_list(name, "inputs", inputs)
  self.outputs = read_list(name, "outputs", outputs)
  for _, p in ipairs(self.outputs) do
    if p.number then
      fail("cuda.elementwise_kernel: %s: the result '%s' must be of tensors, got a number", name,
        p.name)
    end
  end
  if #self.outputs == 0 then
    fail("cuda.elementwise_kernel: %s: 'outputs' must name a result, got %q", name, outputs)
  end
  local source = source_of(name, self.inputs, self.outputs, operation, preamble)
  self.kernel = kernels.kernel(source, name, flags)
end

function ElementwiseKernel:__tostring() return "elementwise kernel " .. self.name end

--- Runs the kernel for each element of the tensors, which are broadcast, and gives new tensors.
--- > scaled = "y = a * x"  -- needs kernels
--- > k = ml.cuda.elementwise_kernel("float x, number float a", "float y", scaled, "scaled")
--- > k(ml.ones(2, { device = "cuda" }), 3):tolist()
---   {3.0, 3.0}
---@param ... any the inputs: tensors, and numbers where they are declared so
---@return moonlet.Tensor ... results
function ElementwiseKernel:__call(...)
  local given = select("#", ...)
  if given ~= #self.inputs then
    fail("%s: takes %d argument%s, got %d", self.name, #self.inputs,
      #self.inputs == 1 and "" or "s", given)
  end
  local arguments, tensors = { ... }, {}
  for i, p in ipairs(self.inputs) do
    if not p.number then
      local x = arguments[i]
      if not ml.is_tensor(x) then
        fail("%s: argument '%s' must be a tensor, got %s", self.name, p.name, signature.describe(x))
      end
      tensors[#tensors + 1] = x
    end
  end
  if #tensors == 0 then
    fail("%s: expected a tensor among the inputs, which says the shape and the device", self.name)
  end
  local shapes = {}
  for k, x in ipairs(tensors) do shapes[k] = x.shape end
  local shape = ml.broadcast_shapes(table.unpack(shapes))
  for i, p in ipairs(self.inputs) do
    if not p.number then arguments[i] = arguments[i]:expand(shape):contiguous() end
  end
  local results, count = {}, 1
  for k, p in ipairs(self.outputs) do
    results[k] = ml.empty(shape, { dtype = p.dtype, device = tensors[1].device })
    count = results[k]:numel()
    arguments[#self.inputs + k] = results[k]
  end
  arguments[#self.inputs + #self.outputs + 1] = count
  if count > 0 then
    local blocks = math.min((count + THREADS - 1) // THREADS, MOST_BLOCKS)
    self.kernel({ grid = blocks, block = THREADS },
      table.unpack(arguments, 1, #self.inputs + #self.outputs + 1))
  end
  return table.unpack(results)
end

--- A kernel from what it does to one element, as CuPy's ElementwiseKernel: `inputs` and `outputs`
--- are C types and names, of tensors' elements, or of one number after the word `number`;
--- `operation` is C++ in these. Inputs are broadcast, and results are new tensors on their device.
--- > k = ml.cuda.elementwise_kernel("float x, float y", "float z",
---     "z = (x - y) * (x - y)", "squared_difference")  -- needs kernels
--- > x = ml.arange(3, { dtype = ml.float32, device = "cuda" })
--- > k(x, ml.ones(1, { device = "cuda" })):tolist()
---   {0.0, 1.0, 4.0}
---@param inputs string "float x, number float a"
---@param outputs string "float y"
---@param operation string statements that set the outputs
---@param name string the kernel's name
---@param preamble? string C++ before the kernel
---@param options? string[] options of NVRTC
---@return moonlet.cuda.ElementwiseKernel
---@see cuda.kernel
function elementwise.elementwise_kernel(...) return ElementwiseKernel(...) end

elementwise.ElementwiseKernel = ElementwiseKernel

return options.namespace("cuda.elementwise", elementwise)
