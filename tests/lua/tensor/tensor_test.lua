-- tests/lua/tensor/tensor_test.lua: tensors as Lua values: construction, fields, identity, release,
-- conversion to Lua values, scopes and grad modes.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

test("dtype inference follows the values", function()
  expect.equal(ml.tensor({ 1, 2 }).dtype, ml.int64)
  expect.equal(ml.tensor({ 1, 2.5 }).dtype, ml.float32)
  expect.equal(ml.tensor({ true, false }).dtype, "bool")
  expect.equal(ml.tensor(3).dtype, "int64")
  expect.equal(ml.tensor({ 1, 2 }, { dtype = ml.float64 }).dtype, "float64")
  expect.equal(ml.tensor({ 1, 2, dtype = "int8" }).dtype, "int8")
  expect.equal(ml.tensor({}).dtype, "float32")
end)

test("the default dtype is one of the state", function()
  ml.set_default_dtype(ml.float64)
  local dtypes = { ml.tensor(0.5).dtype, ml.zeros(2).dtype }
  ml.set_default_dtype(ml.float32)
  expect.equal(dtypes[1], "float64")
  expect.equal(dtypes[2], "float64")
  expect.error(function() ml.set_default_dtype("int64") end, "floating dtype is expected")
end)

test("nested tables give shapes and back", function()
  local x = ml.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
  expect.equal(tostring(x.shape), "(2, 3)")
  expect.equal(x:totable()[2][1], 4)
  expect.equal(x.ndim, 2)
  expect.equal(#x, 2)
  expect.equal(tostring(ml.tensor({ {}, {} }).shape), "(2, 0)")
end)

test("ragged and mixed tables name the position", function()
  expect.error(function() ml.tensor { { 1, 2 }, { 3 } } end, "item %[2%] has 1 items")
  expect.error(function() ml.tensor { { 1 }, 2 } end, "item %[2%] is a number")
  expect.error(function() ml.tensor { 1, { 2 } } end, "item %[2%] has 1 items")
  expect.error(function() ml.tensor { 1, "a" } end, "item %[2%] must be a number")
  expect.error(function() ml.tensor { 1, dtyp = "int8" } end, "did you mean 'dtype'")
  local loop = {}
  loop[1] = loop
  expect.error(function() ml.tensor(loop) end, "nest deeper")
end)

test("item wants one element", function()
  expect.equal(ml.tensor(2.5):item(), 2.5)
  expect.equal(ml.tensor({ 7 }):item(), 7)
  expect.error(function() return ml.tensor({ 1, 2 }):item() end, "shape %(2,%)")
end)

test("equality is identity and # is the first size", function()
  local x = ml.tensor { 1, 2 }
  expect.truthy(x == x) -- luacheck: ignore
  expect.truthy(x ~= ml.tensor { 1, 2 })
  expect.error(function() return #ml.tensor(1) end, "no length")
end)

test("a freed tensor says so", function()
  local x = ml.tensor { 1, 2 }
  x:free()
  expect.error(function() return x:sum() end, "has been freed")
  expect.error(function() return x.shape end, "has been freed")
  expect.equal(tostring(x), "Tensor (freed)")
  local y
  do
    local z <close> = ml.tensor { 1 }
    y = z
  end
  expect.error(function() return y + 1 end, "has been freed")
end)

test("unknown names are answered with the nearest", function()
  local x = ml.tensor { 1, 2 }
  expect.error(function() return x.shpe end, "did you mean 'shape'")
  expect.error(function() x.requires_gard = true end, "did you mean 'requires_grad'")
  expect.error(function() return ml.zeross(2) end, "did you mean 'zeros'")
  expect.error(function() x.shape = 3 end, "cannot be assigned")
end)

test("gradients flow to leaves", function()
  local x = ml.tensor({ 1.0, 2.0, 3.0 }, { requires_grad = true })
  local y = (x * x):sum()
  expect.truthy(y.grad_fn)
  y:backward()
  expect.equal(x.grad:totable()[3], 6.0)
  x.grad = nil
  expect.equal(x.grad, nil)
  local gx = ml.grad((x * x):sum(), x)
  expect.equal(gx:totable()[2], 4.0)
end)

test("grad modes come as function and as closing value", function()
  local x = ml.ones { 2, requires_grad = true }
  local y = ml.no_grad(function() return x * 2 end)
  expect.equal(y.requires_grad, false)
  do
    local _ <close> = ml.no_grad()
    expect.equal(ml.is_grad_enabled(), false)
  end
  expect.equal(ml.is_grad_enabled(), true)
  pcall(ml.no_grad, error, "stop")
  expect.equal(ml.is_grad_enabled(), true)
end)

test("hooks see and replace gradients until removed", function()
  local x = ml.ones { 2, requires_grad = true }
  local seen = 0
  local handle = x:register_hook(function(g)
    seen = seen + 1
    return g * 10
  end)
  x:sum():backward()
  expect.equal(x.grad:totable()[1], 10.0)
  handle.remove()
  x:sum():backward()
  expect.equal(seen, 1)
  x:register_hook(function() error("in the hook") end)
  expect.error(function() x:sum():backward() end, "in the hook")
end)

test("seeds repeat and states are restored", function()
  ml.manual_seed(7)
  local a = ml.rand(4):totable()
  local state = ml.get_rng_state()
  local b = ml.rand(4):totable()
  ml.set_rng_state(state)
  local c = ml.rand(4):totable()
  ml.manual_seed(7)
  local d = ml.rand(4):totable()
  for i = 1, 4 do
    expect.equal(b[i], c[i])
    expect.equal(a[i], d[i])
  end
end)

test("a 0-d tensor reduces over its dim 1 as over none", function()
  for _, dtype in ipairs { ml.float32, ml.float64, ml.bfloat16 } do
    local x = ml.tensor(1.5, { dtype = dtype, requires_grad = true })
    for _, dim in ipairs { 1, -1 } do
      expect.equal(x:mean(dim):item(), 1.5)
      expect.equal(x:logsumexp(dim):item(), 1.5)
      expect.equal(x:var(dim, 0):item(), 0.0)
      expect.equal(ml.grad(x:mean(dim), x):item(), 1.0)
    end
  end
  expect.error(function() return ml.tensor(1.5):mean(2) end, "mean: dim 2")
  expect.error(function() return ml.tensor(1.5):sum { 1, 1 } end, "sum")
end)

test("a copy of a transposed tensor has each element in its place", function()
  for _, dtype in ipairs { "uint8", "bfloat16", "float32", "float64", "complex128" } do
    for _, sizes in ipairs { { 8, 8 }, { 67, 130 }, { 9, 64 }, { 129, 11 } } do
      local rows, columns = table.unpack(sizes)
      local x = ml.randint(0, 100, { rows, columns }):to(dtype)
      local want, got = x:to("float64"):tolist(), x:t():contiguous():to("float64"):tolist()
      for i = 1, rows do
        for j = 1, columns do expect.equal(got[j][i], want[i][j], dtype) end
      end
    end
  end
end)

test("parts of empty tensors are empty tensors", function()
  local x = ml.zeros(3, 0, 4)
  expect.equal(tostring(x[3].shape), "(0, 4)")
  expect.equal(tostring(x:narrow(1, 2, 2).shape), "(2, 0, 4)")
  expect.equal(tostring(x[{ 2, {}, { 2, 4 } }].shape), "(0, 3)")
  expect.equal(#x:unbind(1), 3)
  expect.equal(x[3]:clone():sum():item(), 0.0)
end)

test("a number that an integer dtype cannot hold is not stored", function()
  local x, mask = ml.zeros { 2, dtype = ml.uint8 }, ml.tensor { true, false }
  expect.error(function() x:fill_(300) end, "fill_: 300 does not fit dtype uint8")
  expect.error(function() x:fill_(-1) end, "does not fit")
  expect.error(function() x:fill_(0 / 0) end, "does not fit")
  expect.error(function() x[1] = 256 end, "does not fit")
  expect.error(function() return ml.full({ 2 }, 1 / 0, { dtype = ml.int32 }) end, "does not fit")
  expect.error(function() return ml.full({ 2 }, 2.0 ^ 63, { dtype = ml.int64 }) end, "does not fit")
  expect.error(function() return x:masked_fill(mask, 300) end, "masked_fill: 300")
  expect.error(function() return ml.where(mask, x, -1) end, "where: ")
  expect.error(function() return x:maximum(300) end, "maximum: 300")
  expect.error(function() return x:clamp(300, 400) end, "clamp: 300")
  expect.equal((x + 300):sum():item(), 88)
  expect.equal(x:fill_(255.5):sum():item(), 510)
  expect.equal(ml.full({ 1 }, -2.0 ^ 63, { dtype = ml.int64 }):item(), math.mininteger)
  expect.equal(ml.full({ 1 }, -128.5, { dtype = ml.int8 }):item(), -128)
end)

test("the number of threads is set and read", function()
  local before = ml.get_num_threads()
  ml.set_num_threads(3)
  expect.equal(ml.get_num_threads(), 3)
  ml.set_num_threads(before)
  expect.equal(ml.get_num_threads(), before)
end)

test("counts of memory are numbers", function()
  local before = ml.memory.live_bytes()
  local x = ml.zeros(1000)
  expect.truthy(ml.memory.live_bytes() >= before + 4000)
  expect.equal(x.nbytes, 4000)
  expect.truthy(ml.memory.peak_bytes() > 0)
end)

test("shapes are cut and joined", function()
  local x = ml.zeros(2, 3, 4)
  local function text(shape) return tostring(shape) end
  expect.equal(text(x.shape[{ 2, -1 }]), "(3, 4)")
  expect.equal(text(x.shape[{}]), "(2, 3, 4)")
  expect.equal(text(x.shape[{ 1, 3, 2 }]), "(2, 4)")
  expect.equal(text(x.shape[{ 3, 2 }]), "()")
  expect.equal(text(x.shape[{ -2, 9 }]), "(3, 4)")
  expect.equal(text({ 5 } + x.shape + x.shape[{ 1, 1 }]), "(5, 2, 3, 4, 2)")
  expect.equal(text(x:view(x.shape[{ 1, 1 }] + { -1 }).shape), "(2, 12)")
  expect.error(function() return x.shape[{ 0 }] end, "shape: positions start at 1")
  expect.error(function() return x.shape[{ 1, "a" }] end, "got string")
  expect.error(function() return x.shape[{ 1, 2, 0 }] end, "at least 1")
  expect.error(function() return x.shape + 3 end, "joins shapes and lists of sizes, got number")
end)

test("PyTorch's names that are others here are told", function()
  local function message(f) return expect.error(f) end
  expect.truthy(message(function() return ml.long end):find("PyTorch's 'long' is 'int64' here", 1, true))
  expect.truthy(message(function() return ml.Size end):find("a tensor's 'shape'", 1, true))
  expect.truthy(message(function() return ml.ones(1).ravel end):find("'flatten'", 1, true))
end)

harness.run()
