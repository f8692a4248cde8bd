-- tests/lua/tensor/indexing_test.lua: every way to index a tensor, to read and to assign.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function matrix()
  return ml.tensor { { 11, 12, 13, 14 }, { 21, 22, 23, 24 }, { 31, 32, 33, 34 } }
end

local function flat(x) return table.concat(x:reshape(-1):totable(), " ") end

test("positions count from 1 and from the end", function()
  local x = matrix()
  expect.equal(flat(x[2]), "21 22 23 24")
  expect.equal(flat(x[-1]), "31 32 33 34")
  expect.equal(x[{ 2, 3 }]:item(), 23)
  expect.equal(x[2][3]:item(), 23)
end)

test("ranges include both ends", function()
  local x = matrix()
  expect.equal(flat(x[{ { 2, 3 } }]), "21 22 23 24 31 32 33 34")
  expect.equal(flat(x[{ {}, { 1, -1, 2 } }]), "11 13 21 23 31 33")
  expect.equal(tostring(x[{ { 3, 2 } }].shape), "(0, 4)")
  expect.equal(tostring(x[{ { 1, 0 } }].shape), "(0, 4)")
end)

test("strings index as typed", function()
  local x = matrix()
  expect.equal(flat(x["2:3, 1"]), "21 31")
  expect.equal(flat(x["..., -1"]), "14 24 34")
  expect.equal(flat(x[":, 1:4:3"]), "11 14 21 24 31 34")
  expect.equal(tostring(x["newaxis, ..."].shape), "(1, 3, 4)")
  expect.error(function() return x["1:2:3:4"] end, "too many ':'")
  expect.error(function() return x["1,x"] end, "cannot read 'x'")
end)

test("newaxis and ellipsis as values", function()
  local x = matrix()
  expect.equal(tostring(x[{ ml.ellipsis, ml.newaxis }].shape), "(3, 4, 1)")
  expect.equal(flat(x[{ ml.ellipsis, 2 }]), "12 22 32")
  expect.error(function() return x["..., ..."] end, "one ellipsis")
end)

test("basic forms are views", function()
  local x = matrix()
  x[{ {}, 1 }][2] = 0
  expect.equal(x[{ 2, 1 }]:item(), 0)
end)

-- As torch.zeros(3, 2, 5, 4)[:, torch.tensor(1), 1:2, torch.tensor([0])] and the others.
test("an index tensor of no dimensions beside others is a position", function()
  local x = ml.arange(1, 120):view(3, 2, 5, 4)
  local function n(...) return ml.tensor(...) end
  local function shape(key) return tostring(x[key].shape) end
  expect.equal(shape { {}, n(2), { 2, 2 }, n { 1 } }, "(3, 1, 1)")
  expect.equal(shape { n { 1, 2 }, {}, n(3) }, "(2, 2, 4)")
  expect.equal(shape { ml.ellipsis, n(3), n { 1, 2 } }, "(3, 2, 2)")
  expect.equal(shape { n { 1, 2 }, n(2), {}, n { 2, 3 } }, "(2, 5)")
  expect.equal(shape { n(2), {}, n(3) }, "(2, 4)")
  expect.equal(x[{ {}, n(2), { 2, 2 }, n { 1 } }]:tolist(), { { { 25 } }, { { 65 } }, { { 105 } } })
  expect.equal(x[{ n(-1), n(1), n { 1, 2 }, n(-1) }]:tolist(), { 84, 88 })
  local y = ml.zeros(3, 2)
  y[{ n(2), n { 1, 2 } }] = ml.tensor { 1.0, 2 }
  expect.equal(y:tolist(), { { 0, 0 }, { 1, 2 }, { 0, 0 } })
  expect.error(function() return x[{ n(4), n { 1 } }] end, "index 4 is out of range for dimension 1 of size 3")
  expect.error(function() return x[{ n(0), n { 1 } }] end, "positions start at 1")
end)

test("index tensors and masks", function()
  local x = matrix()
  expect.equal(flat(x[ml.tensor { 3, 1 }]), "31 32 33 34 11 12 13 14")
  expect.equal(flat(x[{ {}, ml.tensor { -1, 1 } }]), "14 11 24 21 34 31")
  expect.equal(flat(x[{ ml.tensor { 1, 2 }, ml.tensor { 3, 4 } }]), "13 24")
  expect.equal(flat(x[x:gt(31)]), "32 33 34")
  expect.equal(flat(x[ml.tensor { true, false, true }]), "11 12 13 14 31 32 33 34")
  expect.error(function() return x[ml.tensor { true, false }] end, "mask of shape")
  expect.error(function() return x[ml.tensor { 4 }] end, "4")
  expect.error(function() return x[ml.tensor { 1.5 }] end, "integers or bools")
end)

test("assignment in every form", function()
  local x = matrix()
  x[1] = 0
  expect.equal(flat(x[1]), "0 0 0 0")
  x[{ 2, { 2, 3 } }] = ml.tensor { 5, 6 }
  expect.equal(flat(x[2]), "21 5 6 24")
  x["3, 1:2"] = { 8, 9 }
  expect.equal(flat(x[3]), "8 9 33 34")
  x[x:eq(0)] = -1
  expect.equal(flat(x[1]), "-1 -1 -1 -1")
  x[ml.tensor { 1, 3 }] = 7
  expect.equal(flat(x[{ {}, 4 }]), "7 24 7")
  expect.error(function() x[1] = ml.tensor { 1, 2, 3 } end, "cannot assign shape")
  expect.error(function() x[1] = "a" end, "got string")
end)

test("bad positions are named", function()
  local x = matrix()
  expect.error(function() return x[0] end, "index 0: positions start at 1")
  expect.error(function() return x[4] end, "index 4 is out of range for dimension 1 of size 3")
  expect.error(function() return x[{ 1, -5 }] end, "index %-5 is out of range")
  expect.error(function() return x[{ 1, 1, 1 }] end, "3 positions for a tensor of shape")
  expect.error(function() return x[{ { 1, 3, -1 } }] end, "step must be positive")
  expect.error(function() return x[{ { 1, 9 } }] end, "out of range")
  expect.error(function() return x[1.5] end, "positions are integers")
  expect.error(function() return x[{ { 1, 2, 3, 4 } }] end, "ml.tensor")
  expect.error(function() return x[print] end, "got function")
end)

test("gradients pass through indexing", function()
  local x = ml.zeros { 3, 4, requires_grad = true }
  local y = x[{ 2, { 1, 2 } }]:sum() + x[ml.tensor { 1, 1 }]:sum()
  y:backward()
  expect.equal(x.grad[{ 1, 1 }]:item(), 2.0)
  expect.equal(x.grad[{ 2, 2 }]:item(), 1.0)
  expect.equal(x.grad[{ 3, 3 }]:item(), 0.0)
end)

-- --- large tensors, where kernels go by blocks -------------------------------------------------

local function same(a, b, what) expect.truthy(a:equal(b), what) end

-- x as it is and with its dimensions lying in the other order.
local function layouts(x) return { x, x:t():contiguous():t() } end

test("gather and scatter agree with indexing by two tensors", function()
  ml.manual_seed(1)
  local n, m = 700, 900
  local columns = ml.arange(1, m):expand { n, m }
  local rows = ml.arange(1, n):reshape { n, 1 }:expand { n, m }
  for _, dtype in ipairs { "float32", "int64", "bfloat16" } do
    for _, x in ipairs(layouts(ml.randint(-8, 8, { n, m }):to(dtype))) do
      local source = ml.randint(-8, 8, { n, m }):to(dtype)
      for dim, at in ipairs { ml.randint(1, n, { n, m }), ml.randint(1, m, { n, m }) } do
        local both = dim == 1 and { at, columns } or { rows, at }
        same(x:gather(dim, at), x[both], "gather")
        same(x:scatter(dim, at, source), x:index_put(both, source), "scatter")
        same(x:scatter_add(dim, at, source), x:index_put(both, source, true), "scatter_add")
        expect.error(function() return x:gather(dim, at * 2) end, "out of range")
      end
    end
  end
end)

test("slices at positions agree with indexing by one tensor", function()
  ml.manual_seed(1)
  local n, m = 300, 400
  for _, dtype in ipairs { "float32", "int64", "bfloat16" } do
    for _, x in ipairs(layouts(ml.randint(-8, 8, { n, m }):to(dtype))) do
      for _, count in ipairs { 1, 7, 350 } do
        local at = ml.randint(1, n, { count })
        local source = ml.randint(-8, 8, { count, m }):to(dtype)
        same(x:index_select(1, at), x[at], "index_select, rows")
        same(x:t():index_select(2, at), x[at]:t(), "index_select, columns")
        same(x:index_copy(1, at, source), x:index_put({ at }, source), "index_copy")
        same(x:t():index_copy(2, at, source:t()), x:index_put({ at }, source):t(), "index_copy, columns")
        same(x:index_add(1, at, source), x:index_put({ at }, source, true), "index_add")
        same(x:t():index_add(2, at, source:t()), x:index_put({ at }, source, true):t(), "index_add, columns")
        same(x:index_fill(1, at, 3), x:index_put({ at }, ml.tensor(3, { dtype = dtype })), "index_fill")
      end
    end
  end
end)

test("rows of every length come from their positions", function()
  for _, width in ipairs { 1, 2, 3, 4, 16, 20, 32, 64, 200 } do
    local x, at = ml.randn(40, width), ml.randint(1, 40, { 30 })
    local y = x:index_select(1, at)
    for i = 1, 30 do expect.truthy(y[i]:eq(x[at[i]:item()]):all():item(), "width " .. width) end
  end
end)

test("additions to few slices of a 16-bit tensor are rounded once", function()
  ml.manual_seed(1)
  local x, source = ml.randn(40, 30):to "bfloat16", ml.randn(5, 30):to "bfloat16"
  local at = ml.tensor { 7, 3, 7, 40, 7 }
  same(x:index_add(1, at, source), x:float():index_add(1, at, source:float()):to "bfloat16", "sums")
  local weight = x:clone():requires_grad_()
  local y = ml.embedding(weight, at, { padding_idx = 7 })
  y:backward(source)
  local sums = ml.zeros(40, 30):index_add(1, at, source:float()):to "bfloat16"
  sums[7] = 0
  same(weight.grad, sums, "the gradient of embedding")
end)

test("additions to many slices of a 16-bit tensor are rounded once", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "bfloat16", "float16" } do
    for _, width in ipairs { 20, 32, 1500 } do
      local x, source = ml.randn(50, width):to(dtype), ml.randn(300, width):to(dtype)
      local at = ml.randint(1, 40, { 300 })
      local sums = x:float():index_add(1, at, source:float()):to(dtype)
      for _, each in ipairs(layouts(x)) do same(each:index_add(1, at, source), sums, "width " .. width) end
      same(x:t():contiguous():index_add(2, at, source:t()), sums:t(), "columns")
    end
  end
  local weight = ml.zeros(20, 64, { dtype = "bfloat16" }):requires_grad_()
  local at, gradients = ml.randint(1, 20, { 90 }), ml.randn(90, 64):to "bfloat16"
  ml.embedding(weight, at, { padding_idx = 3 }):backward(gradients)
  local sums = ml.zeros(20, 64):index_add(1, at, gradients:float()):to "bfloat16"
  sums[3] = 0
  same(weight.grad, sums, "the gradient of embedding")
end)

-- What index_reduce makes of x, by scatter_reduce of the same positions.
local function reduced_elements(x, at, source, reduce, include_self)
  return x:scatter_reduce(1, at:reshape { -1, 1 }:expand(source.shape), source, reduce, include_self)
end

test("slices at positions are reduced as their elements are", function()
  ml.manual_seed(1)
  local n, m = 60, 70
  local cases = { float32 = { -3, 3 }, float64 = { -3, 3 }, int64 = { -3, 3 }, int32 = { -3, 3 }, uint8 = { 0, 3 } }
  for dtype, bounds in pairs(cases) do
    for _, count in ipairs { 0, 1, 7, 150 } do
      local at = ml.randint(1, n - 5, { count })
      local source = ml.randint(bounds[1], bounds[2], { count, m }):to(dtype)
      for _, x in ipairs(layouts(ml.randint(bounds[1], bounds[2], { n, m }):to(dtype))) do
        for _, reduce in ipairs { "prod", "mean", "amax", "amin" } do
          for _, include_self in ipairs { true, false } do
            local want = reduced_elements(x, at, source, reduce, include_self)
            same(x:index_reduce(1, at, source, reduce, include_self), want, dtype .. " rows " .. reduce)
            same(x:t():index_reduce(2, at, source:t(), reduce, include_self), want:t(), dtype .. " columns " .. reduce)
            local y = x:clone()
            y:t():index_reduce_(2, at, source:t():contiguous(), reduce, include_self)
            same(y, want, dtype .. " in place " .. reduce)
          end
        end
      end
    end
  end
end)

test("slices of 16-bit floats are reduced in float32 and rounded once", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "bfloat16", "float16" } do
    for _, width in ipairs { 1, 20, 32, 1100 } do
      for _, count in ipairs { 3, 90 } do
        local x, source = ml.rand(50, width):to(dtype) + 0.5, ml.rand(count, width):to(dtype) + 0.5
        local at = ml.randint(1, 45, { count })
        for _, reduce in ipairs { "prod", "mean", "amax", "amin" } do
          for _, include_self in ipairs { true, false } do
            local want = x:float():index_reduce(1, at, source:float(), reduce, include_self):to(dtype)
            local what = ("%s %s of width %d"):format(dtype, reduce, width)
            for _, each in ipairs(layouts(x)) do
              same(each:index_reduce(1, at, source, reduce, include_self), want, what)
            end
            same(x:t():contiguous():index_reduce(2, at, source:t(), reduce, include_self), want:t(), what)
          end
        end
      end
    end
  end
  local large = ml.full({ 4, 40 }, 6e4, { dtype = "float16" })
  local means = ml.zeros(1, 40, { dtype = "float16" }):index_reduce(1, ml.ones(4):long(), large, "mean", false)
  expect.equal(means[{ 1, 40 }]:item(), 6e4 - 6e4 % 32, "a mean whose sum float16 does not hold")
end)

test("index_reduce takes tensors without dimensions, expanded ones and NaN, and refuses the rest", function()
  local one = ml.tensor { 1 }
  expect.equal(ml.tensor(3.0):index_reduce(1, one, ml.tensor(5.0), "mean"):item(), 4.0)
  local source = ml.tensor { 2.0 }:expand { 3, 5 }
  same(ml.full({ 2, 5 }, 3.0):index_reduce(1, ml.tensor { 2, 2, 2 }, source, "prod"),
    ml.tensor({ { 3.0 }, { 24.0 } }):expand { 2, 5 }:contiguous(), "expanded")
  local nan = ml.zeros(2, 3):index_reduce(1, ml.tensor { 1, 1 }, ml.tensor { { 0 / 0 }, { 3.0 } }:expand { 2, 3 }, "amax")
  expect.equal(nan:isnan():sum():item(), 3)
  local x, gradients = ml.zeros(2, 3), ml.ones(1, 3)
  expect.error(function() x:index_reduce(1, ml.tensor { 3 }, gradients, "prod") end, "position 3 is out of range for size 2")
  expect.error(function() x:index_reduce(1, ml.tensor { 0 }, gradients, "prod") end, "index_reduce")
  expect.error(function() x:index_reduce(1, one, ml.ones(2, 3), "prod") end, "index_reduce: source has shape")
  expect.error(function() x:index_reduce(1, one, gradients, "median") end, "index_reduce: reduce is")
end)

test("the gradient of index_reduce", function()
  for _, include_self in ipairs { true, false } do
    local x = ml.tensor({ 4.0, 2.0, 0.0 }, { requires_grad = true })
    local source = ml.tensor({ 4.0, 4.0, 5.0 }, { requires_grad = true })
    local at = ml.tensor { 1, 1, 2 }
    local function grads(reduce)
      local y = x:index_reduce(1, at, source, reduce, include_self)
      local gx, gs = ml.grad({ y:sum() }, { x, source })
      return table.concat(gx:tolist(), " ") .. ", " .. table.concat(gs:tolist(), " ")
    end
    if include_self then
      expect.equal(grads "prod", "16.0 5.0 1.0, 16.0 16.0 2.0")
      expect.equal(grads "amin", ("%s 1.0 1.0, %s %s 0.0"):format(1 / 3, 1 / 3, 1 / 3):gsub("0.3333+", function()
        return tostring(ml.tensor(1 / 3):item()) end))
      expect.equal(grads "mean", ("%s 0.5 1.0, %s %s 0.5"):format("T", "T", "T"):gsub("T", function()
        return tostring(ml.tensor(1.0):div(3):item()) end))
    else
      expect.equal(grads "prod", "0.0 0.0 1.0, 4.0 4.0 1.0")
      expect.equal(grads "amax", "0.0 0.0 1.0, 0.5 0.5 1.0")
      expect.equal(grads "mean", "0.0 0.0 1.0, 0.5 0.5 1.0")
    end
  end
end)

test("scattering to a 16-bit tensor of many rows is rounded once", function()
  ml.manual_seed(1)
  local x, source = ml.randn(700, 150):to "bfloat16", ml.randn(690, 400):to "bfloat16"
  local at = ml.randint(1, 150, { 690, 400 })
  for _, each in ipairs(layouts(x)) do
    local wide = x:float()
    same(each:scatter_add(2, at, source), wide:scatter_add(2, at, source:float()):to "bfloat16", "sum")
    same(each:scatter_reduce(2, at, source, "amax"),
      wide:scatter_reduce(2, at, source:float(), "amax"):to "bfloat16", "amax")
  end
  local before = x:clone()
  at[{ 690, 400 }] = 151
  expect.error(function() x:scatter_add_(2, at, source) end, "out of range")
  same(x, before, "nothing is written before all positions are checked")
end)

test("few elements that come to positions of a large 16-bit tensor are rounded once", function()
  ml.manual_seed(1)
  local x, source = ml.randn(40, 30):to "bfloat16", ml.randn(2, 30):to "bfloat16"
  local at = ml.randint(1, 3, { 2, 30 })
  for _, reduce in ipairs { "sum", "prod", "amax", "amin" } do
    for _, each in ipairs(layouts(x)) do
      local whole = each:float():scatter_reduce(1, at, source:float(), reduce):to "bfloat16"
      same(each:scatter_reduce(1, at, source, reduce), whole, reduce)
    end
  end
end)

test("masks whose bytes were written through a view of another dtype", function()
  for _, byte in ipairs { 2, 255 } do
    local mask = ml.zeros(5000, { dtype = "bool" })
    mask:view("uint8"):narrow(1, 11, 4000):fill_(byte)
    local at = mask:nonzero()
    expect.equal({ at.shape[1], at[1]:item(), at[-1]:item() }, { 4000, 11, 4010 })
    expect.equal(ml.ones(5000)[mask]:sum():item(), 4000.0)
    expect.equal(ml.ones(5000):masked_select(mask).shape[1], 4000)
  end
end)

test("nonzero names every element of a large tensor that is set", function()
  ml.manual_seed(1)
  for _, sizes in ipairs { { 5000 }, { 60, 70 }, { 3000, 2 }, { 7, 1, 900 }, { 40, 3, 50 } } do
    local x = ml.randint(0, 2, sizes)
    local at = x:nonzero()
    local numbers, step = ml.zeros({ at:size(1) }, { dtype = "int64" }), 1
    for d = #sizes, 1, -1 do
      numbers = numbers + (at[{ {}, d }] - 1) * step
      step = step * sizes[d]
    end
    local again = ml.zeros({ x:numel() }, { dtype = "bool" })
    again[numbers + 1] = true
    same(again, x:reshape(-1):ne(0), "those that are set")
    expect.truthy(numbers:diff():gt(0):all():item(), "in order")
  end
end)

test("ops that take masks want one that fits, as x[mask] does", function()
  local x, mask = ml.zeros(12), ml.tensor { true, false, true }
  expect.error(function() return ml.index_put(x, { mask }, ml.tensor(1.0)) end,
    "mask of shape %(3,%) does not fit a tensor of shape %(12,%) at dimension 1")
  expect.error(function() x:index_put_({ mask }, ml.tensor(1.0)) end, "does not fit")
  expect.error(function() return ml.zeros(3):index_put({ ml.ones({ 3, 1 }):bool() }, ml.tensor(1.0)) end,
    "does not fit a tensor of shape %(3,%) at dimension 2")
  expect.equal(x:sum():item(), 0)
  expect.equal(ml.zeros(3):index_put({ mask }, ml.tensor(1.0)):tolist(), { 1, 0, 1 })
end)

test("index_fill takes a number of any dtype from a tensor", function()
  local at = ml.tensor({ 2 }, { dtype = "int64" })
  expect.equal(ml.zeros(3):index_fill(1, at, ml.tensor(2, { dtype = "int64" })):tolist(), { 0, 2, 0 })
  expect.error(function() return ml.zeros(3):index_fill(1, at, ml.complex(1, 2)) end, "real")
end)

test("no positions at all may come in any shape", function()
  local x, source = ml.randn(3, 4):requires_grad_(), ml.randn(5, 5, 2):requires_grad_()
  local none = ml.zeros { 0 }:long()
  expect.equal(x:gather(1, none):totable(), {})
  expect.equal(x:gather(2, ml.zeros { 0, 5, 2 }:long()).shape, { 0, 5, 2 })
  expect.error(function() return x:gather(3, none) end, "dim 3")
  local forms = {
    function() return x:scatter(1, none, source) end,
    function() return x:scatter_add(1, none, source) end,
  }
  for _, reduce in ipairs { "sum", "prod", "mean", "amax", "amin" } do
    for _, include_self in ipairs { true, false } do
      forms[#forms + 1] = function() return x:scatter_reduce(1, none, source, reduce, include_self) end
    end
  end
  for _, form in ipairs(forms) do
    local y = form()
    expect.equal(y:totable(), x:totable())
    local by_x, by_source = ml.grad(y:sum(), { x, source })
    expect.equal(by_x:totable(), ml.ones(3, 4):totable())
    expect.equal(by_source:totable(), ml.zeros(5, 5, 2):totable())
  end
end)

harness.run()
