-- tests/lua/cuda/cuda_raw_kernels_test.lua: kernels in CUDA C++ that a script writes: what their
-- declarations say, their arguments, launches, streams and graphs. Launches skip without a device,
-- and where nothing compiles kernels.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local CUDA = { device = "cuda" }

local AXPY = [[
// axpy(wrong, parameters); in a comment
extern "C" __global__ void axpy(float a, const float* __restrict__ x, float *y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
]]

local function compiles()
  local source = 'extern "C" __global__ void probe(int* x) { x[0] = 1; }'
  return ml.cuda.is_available() and (pcall(function() ml.cuda.kernel(source, "probe"):compile() end))
end
local can_compile = compiles()

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    if not can_compile then harness.skip "nothing compiles kernels of CUDA" end
    body()
  end)
end

local function list(x) return table.concat(x:to("cpu"):tolist(), " ") end

test("parameters are read from the source", function()
  expect.equal(tostring(ml.cuda.kernel(AXPY, "axpy")),
    "kernel axpy(float a, const float* x, float* y, long long n)")
  local source = [[
    __global__ void other(int n);
    extern "C" __global__ __launch_bounds__(256) void f() { }
    extern "C" __global__ void g(unsigned n, const int64_t *k, void* any, bool on, size_t bytes,
                                 double const * d /* , int no */, unsigned char* p) { const char* s = "void g(int)"; }
  ]]
  expect.equal(tostring(ml.cuda.kernel(source, "f")), "kernel f()")
  expect.equal(tostring(ml.cuda.kernel(source, "g")), "kernel g(unsigned n, const int64_t* k, void* any, "
    .. "bool on, size_t bytes, double const* d, unsigned char* p)")
end)

test("declarations of which nothing is known are refused", function()
  local function refused(source, reason, options)
    expect.error(function() ml.cuda.kernel(source, "f", options) end, reason)
  end
  refused("", "the source has no kernel 'f', expected extern \"C\" __global__ void f%(...%)")
  refused("void f(int n) {}", "has no kernel 'f'")
  refused("__global__ void g(int n) {}", "has no kernel 'f'")
  refused("__global__ void f(T* x) {}", "the type of 'x' is 'T%*', of which nothing is known; say it in 'dtypes'")
  refused("__global__ void f(struct S s) {}", "the type of 's'")
  refused("__global__ void f(float** x) {}", "the type of 'x'")
  refused("__global__ void f(int) {}", "parameter 1 is")
  refused("__global__ void f(T* x) {}", "names 2 parameters, and the kernel has 1", { dtypes = { "float32", "int32" } })
  refused("__global__ void f(T* x) {}", "a dtype, \"any\" or false", { dtypes = { 3 } })
  refused("__global__ void f(int n) {}", "strings of one line", { options = { "-D X\n--y" } })
  expect.error(function() ml.cuda.kernel("x", "f(") end, "'name' must be a name of C")
  expect.error(function() ml.cuda.kernel("x") end, "'name' is missing")
  expect.truthy(ml.cuda.kernel("__global__ void f(T* x, T a) {}", "f", { dtypes = { "float32", "float32" } }))
end)

-- Hostile texts end, and are errors or kernels.
test("any text is taken apart", function()
  ml.manual_seed(3)
  local parts = { "__global__", " void ", "f", "(", ")", "int", "*", ",", "/*", "*/", "//", "\n", "\"", "\\", "{", "}",
    "const ", "x", ";", "<", "\0" }
  for _ = 1, 2000 do
    local text = {}
    for i = 1, ml.randint(1, 25, { 1 })[1]:item() do text[i] = parts[ml.randint(1, #parts, { 1 })[1]:item()] end
    local ok, message = pcall(ml.cuda.kernel, table.concat(text), "f")
    expect.truthy(ok or message:find "cuda.kernel: ", tostring(message))
  end
end)

on_device("a kernel runs on tensors and numbers", function()
  local axpy = ml.cuda.kernel(AXPY, "axpy")
  local x, y = ml.arange(5, { dtype = ml.float32, device = "cuda" }), ml.ones(5, CUDA)
  local version = y._version
  axpy({ grid = 1, block = 32 }, 2, x, y, 5)
  expect.equal(list(y), "3.0 5.0 7.0 9.0 11.0")
  expect.truthy(y._version > version, "the version does not rise")
  version = x._version
  axpy({ grid = { 1, 1 }, block = { 8, 1, 1 } }, -1.0, x, y, 5)
  expect.equal(list(y), "2.0 3.0 4.0 5.0 6.0")
  expect.equal(x._version, version)
  -- The first element, whatever the strides.
  axpy({ block = 2 }, 10, x[{ { 2, 3 } }], y[{ { 4, 5 } }], 2)
  expect.equal(list(y), "2.0 3.0 4.0 25.0 36.0")
end)

on_device("numbers of all types arrive", function()
  local source = [[
    extern "C" __global__ void f(double* out, int8_t a, uint8_t b, short c, unsigned short d, int e, unsigned g,
                                 long long h, size_t i, float j, double k, bool l) {
      out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = g;
      out[6] = (double)h; out[7] = (double)i; out[8] = j; out[9] = k; out[10] = l;
    }]]
  local f = ml.cuda.kernel(source, "f")
  local out = ml.zeros(11, { dtype = ml.float64, device = "cuda" })
  f({}, out, -128, 255, -32768, 65535, -2147483648, 4294967295, -5, 6, 0.5, 0.25, true)
  expect.equal(list(out), "-128.0 255.0 -32768.0 65535.0 -2147483648.0 4294967295.0 -5.0 6.0 0.5 0.25 1.0")
  local function refused(reason, at, value)
    local values = { -1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, false }
    values[at] = value
    expect.error(function() f({}, out, table.unpack(values)) end, reason)
  end
  refused("f: argument 'a' must be from %-128 to 127 for int8_t, got 128", 1, 128)
  refused("argument 'b' must be from 0 to 255 for uint8_t, got %-1", 2, -1)
  refused("argument 'e' must be from %-2147483648 to 2147483647 for int, got 3000000000", 5, 3000000000)
  refused("argument 'i' must not be negative for size_t, got %-1", 8, -1)
  refused("argument 'e' %(int%) must be an integer, got number", 5, 1.5)
  refused("argument 'j' %(float%) must be a number, got string", 9, "1")
  refused("argument 'l' %(bool%) must be true or false, got number", 11, 1)
end)

on_device("arguments and sizes are checked before the launch", function()
  local axpy = ml.cuda.kernel(AXPY, "axpy")
  local x, y = ml.ones(4, CUDA), ml.ones(4, CUDA)
  local one = { grid = 1, block = 4 }
  expect.error(function() axpy(one, 1, x, y) end, "axpy: takes 4 arguments after its grid, got 3")
  expect.error(function() axpy(one, 1, ml.ones(4), y, 4) end, "axpy: argument 'x' is on cpu")
  expect.error(function() axpy(one, 1, x:double(), y, 4) end,
    "axpy: argument 'x' %(const float%*%) must have dtype float32, got float64")
  expect.error(function() axpy(one, 1, 3, y, 4) end, "axpy: argument 'x' .* must be a tensor, or nil")
  expect.error(function() axpy(one, 1, x, y:clone():requires_grad_(true), 4) end, "argument 'y' requires grad")
  expect.error(function() axpy(1, 1, x, y, 4) end, "axpy: expected a table { grid =, block = }")
  expect.error(function() axpy({ gird = 1 }, 1, x, y, 4) end, "axpy: unknown option 'gird'; did you mean 'grid'")
  expect.error(function() axpy({ grid = 0 }, 1, x, y, 4) end, "axpy: grid must be from 1 to %d+ in x")
  expect.error(function() axpy({ grid = 1, block = { 1, -3 } }, 1, x, y, 4) end, "axpy: block must be from 1 to 1024 in y")
  expect.error(function() axpy({ block = 2048 }, 1, x, y, 4) end, "axpy: block must be from 1 to 1024 in x")
  expect.error(function() axpy({ block = { 64, 64 } }, 1, x, y, 4) end,
    "a block of 4096 threads, and the device has at most 1024")
  expect.error(function() axpy({ grid = "a" }, 1, x, y, 4) end, "axpy: 'grid' must be an integer or an array")
  expect.error(function() axpy({ grid = { 1, 1, 1, 1 } }, 1, x, y, 4) end, "axpy: 'grid' must be an integer or an array")
  expect.error(function() axpy({ grid = 1.5 }, 1, x, y, 4) end, "axpy: 'grid'")
  expect.error(function() axpy({ shared_memory = 1 << 30 }, 1, x, y, 4) end,
    "axpy: shared_memory must be from 0 to %d+ bytes")
  expect.error(function() axpy({ shared_memory = -1 }, 1, x, y, 4) end, "axpy: shared_memory must be from 0")
  expect.error(function() ml.func.vmap(function(v) axpy(one, 1, v, y, 4) end)(ml.ones(2, 4, CUDA)) end, "inside vmap")
  axpy({ grid = 1, block = 4 }, 1, nil, y, 0)
  expect.equal(list(y), "1.0 1.0 1.0 1.0")
end)

on_device("errors of the compiler have the lines of the source", function()
  local source = 'extern "C" __global__ void broken(float* x) {\n  x[0] = 1;\n  y[0] = 2;\n}'
  local ok, message = pcall(function() ml.cuda.kernel(source, "broken"):compile() end)
  expect.truthy(not ok and message:find "cuda.kernel: broken cannot be compiled", tostring(message))
  expect.truthy(message:find "broken%.cu[:%(]3", message)
  expect.error(function()
    ml.cuda.kernel("namespace n { __global__ void inner(int* x) { x[0] = 1; } }", "inner"):compile()
  end, "inner")
end)

on_device("shared memory and barriers", function()
  local source = [[
    extern "C" __global__ void reversed(const float* x, float* y, int n) {
      extern __shared__ float tile[];
      __shared__ int total;
      int i = threadIdx.x;
      if (i == 0) total = n;
      tile[i] = x[i];
      __syncthreads();
      y[i] = tile[total - 1 - i];
    }]]
  local reversed = ml.cuda.kernel(source, "reversed")
  local x = ml.arange(64, { dtype = ml.float32, device = "cuda" })
  local y = ml.empty(64, CUDA)
  reversed({ block = 64, shared_memory = 64 * 4 }, x, y, 64)
  expect.truthy(ml.equal(y, x:flip(1)))
end)

on_device("options, and parameters whose dtype the script says", function()
  local source = [[
    extern "C" __global__ void scaled(REAL* x, REAL by, int n) { if (threadIdx.x < n) x[threadIdx.x] *= by * FACTOR; }]]
  local scaled = ml.cuda.kernel(source, "scaled", { options = { "-DREAL=double", "-DFACTOR=2" },
    dtypes = { "float64", "float64" } })
  local x = ml.ones(3, { dtype = ml.float64, device = "cuda" })
  scaled({ block = 4 }, x, 1.5, 3)
  expect.equal(list(x), "3.0 3.0 3.0")
  expect.error(function() scaled({ block = 4 }, x:float(), 1.5, 3) end, "must have dtype float64, got float32")
end)

on_device("streams and graphs", function()
  local axpy = ml.cuda.kernel(AXPY, "axpy")
  local stream = ml.cuda.Stream()
  local x, y = ml.ones(4, CUDA), ml.zeros(4, CUDA)
  stream:wait_stream(ml.cuda.current_stream())
  axpy({ block = 4, stream = stream }, 3, x, y, 4)
  ml.cuda.current_stream():wait_stream(stream)
  expect.equal(list(y), "3.0 3.0 3.0 3.0")
  y:zero_()
  local graph = ml.cuda.graph(function() axpy({ block = 4 }, 1, x, y, 4) end)
  for _ = 1, 3 do graph:replay() end
  expect.equal(list(y), "3.0 3.0 3.0 3.0")
end)

on_device("a captured function ends at a kernel", function()
  local axpy = ml.cuda.kernel(AXPY, "axpy")
  local fast = ml.compile(function(x)
    local y = x * 2
    axpy({ block = 4 }, 1, x, y, 4)
    return y + 1
  end)
  for i = 1, 4 do expect.equal(list(fast(ml.ones(4, CUDA) * i)), list(ml.ones(4, CUDA) * (3 * i + 1))) end
end)

on_device("an op of a kernel has a gradient and a batch", function()
  local source = [[
    extern "C" __global__ void square(const float* x, float* y, long long n) {
      long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] * x[i];
    }]]
  local square = ml.cuda.kernel(source, "square")
  ml.ops.define { "raw_square(Tensor x) -> Tensor", opaque = true, dtypes = "floating", method = true,
    forward = function(x)
      x = x:contiguous()
      local y = ml.empty_like(x)
      square({ grid = (x:numel() + 31) // 32, block = 32 }, x, y, x:numel())
      return y
    end, grad = { x = "2 * g * x" } }
  local x = ml.tensor({ 1, 2, 3 }, { dtype = ml.float32, device = "cuda", requires_grad = true })
  local y = x:raw_square()
  expect.equal(list(y:detach()), "1.0 4.0 9.0")
  y:sum():backward()
  expect.equal(list(x.grad), "2.0 4.0 6.0")
  local batch = ml.func.vmap(ml.raw_square)(ml.tensor({ { 1.0, 2 }, { 3, 4 } }, CUDA))
  expect.equal(list(batch:reshape(-1)), "1.0 4.0 9.0 16.0")
end)

on_device("kernels of one element", function()
  local f = ml.cuda.elementwise_kernel("float x, float y, number float a", "float z, int sign",
    "z = a * x - y; sign = z > 0 ? 1 : -1", "difference")
  local x = ml.arange(6, { dtype = ml.float32, device = "cuda" }):reshape(2, 3)
  local z, sign = f(x, ml.full({ 3 }, 4.0, CUDA), 2)
  expect.truthy(ml.equal(z, x * 2 - 4))
  expect.equal(sign.dtype, "int32")
  expect.equal(list(sign:reshape(-1)), "-1 -1 1 1 1 1")
  expect.equal(f(ml.ones(0, CUDA), ml.ones(0, CUDA), 1).shape[1], 0)
  expect.error(function() f(x, x) end, "difference: takes 3 arguments, got 2")
  expect.error(function() f(x, 3, 2) end, "difference: argument 'y' must be a tensor, got 3")
  local bad = ml.cuda.elementwise_kernel("float x", "float y", "y = nothing(x)", "bad")
  expect.error(function() bad(x) end, "bad cannot be compiled")
end)

test("kernels of one element are declared in C types", function()
  expect.error(function() ml.cuda.elementwise_kernel("T x", "float y", "y = x", "f") end, "'inputs' has \"T x\"")
  expect.error(function() ml.cuda.elementwise_kernel("float i", "float y", "y = i", "f") end, "a name of the kernel's own")
  expect.error(function() ml.cuda.elementwise_kernel("float x", "", "y = x", "f") end, "'outputs' must name a result")
  expect.error(function() ml.cuda.elementwise_kernel("float x", "number float y", "y = x", "f") end, "must be of tensors")
end)

test("without a compiler or a device the error says so", function()
  if can_compile then harness.skip "kernels are compiled here" end
  local kernel = ml.cuda.kernel(AXPY, "axpy")
  expect.error(function() kernel:compile() end, ml.cuda.is_available() and "axpy: nothing compiles kernels" or "axpy: ")
end)

harness.run(arg[1])
