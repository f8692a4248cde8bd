-- tests/lua/tensor/shape_ops_test.lua: joining, splitting, scattering, gathering, creating and describing
-- tensors: what samples cannot show, as errors, overloads, options and edge values.

local ml = require "moonlet"
package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function flat(x) return table.concat(x:reshape(-1):totable(), " ") end
local function shape(x) return tostring(x.shape) end
local function shapes(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = shape(x) end
  return table.concat(out, " ")
end

test("splits count positions from 1 and may run over the ends", function()
  local x = ml.arange(1, 7)
  local parts = x:tensor_split { 3, 3, 6, 20 }
  expect.equal(#parts, 5)
  expect.equal(flat(parts[1]), "1 2")
  expect.equal(parts[2]:numel(), 0)
  expect.equal(flat(parts[3]), "3 4 5")
  expect.equal(flat(parts[4]), "6 7")
  expect.equal(parts[5]:numel(), 0)
  expect.equal(shapes(x:tensor_split(3)), "(3,) (2,) (2,)")
  expect.equal(shapes(x:tensor_split(ml.tensor(2))), "(4,) (3,)")
  expect.equal(shapes(x:tensor_split(ml.tensor { -2 })), "(5,) (2,)")
  expect.equal(shapes(ml.zeros(2, 4, 6):dsplit { 2, 5 }), "(2, 4, 1) (2, 4, 3) (2, 4, 2)")
  expect.error(function() x:tensor_split { 0 } end, "positions start at 1")
  expect.error(function() x:hsplit(2) end, "cannot be cut into 2 equal pieces")
  expect.error(function() x:vsplit(1) end, "at least 2 dimensions")
  expect.error(function() x:tensor_split(0) end, "at least 1 piece")
end)

test("atleast gives one tensor for one and a table for several", function()
  expect.equal(shape(ml.atleast_2d(ml.tensor(3))), "(1, 1)")
  expect.equal(shapes(ml.atleast_3d(ml.zeros(2), ml.zeros(2, 3))), "(1, 2, 1) (2, 3, 1)")
  expect.equal(shapes(ml.atleast_1d { ml.tensor(1), ml.zeros(4) }), "(1,) (4,)")
end)

test("cat takes empty tensors of one dimension", function()
  local y = ml.cat({ ml.zeros(0), ml.ones(2, 3), ml.zeros(0) }, 2)
  expect.equal(shape(y), "(2, 3)")
  expect.equal(shape(ml.cat { ml.zeros(0), ml.zeros(0) }), "(0,)")
  expect.equal(ml.cat({ ml.zeros(0), ml.ones(2, { dtype = ml.int64 }) }).dtype, "float32")
  expect.error(function() ml.cat { ml.zeros(1), ml.zeros(2, 3) } end, "sizes may differ in dim 1 only")
end)

test("broadcast_shapes", function()
  expect.equal(tostring(ml.broadcast_shapes({ 3, 1 }, { 4 }, { 2, 1, 1 })), "(2, 3, 4)")
  expect.equal(tostring(ml.broadcast_shapes(3, ml.zeros(2, 1).shape)), "(2, 3)")
  expect.equal(tostring(ml.broadcast_shapes()), "()")
  expect.error(function() ml.broadcast_shapes({ 2 }, { 3 }) end, "broadcast_shapes")
  expect.error(function() ml.broadcast_shapes({ -2 }) end, "cannot be negative")
end)

test("repeats of each position", function()
  local x = ml.tensor { 10, 20, 30 }
  expect.equal(flat(x:repeat_interleave(ml.tensor { 2, 0, 1 })), "10 10 30")
  expect.equal(flat(ml.repeat_interleave(ml.tensor { 2, 0, 1 })), "1 1 3")
  expect.equal(flat(x:repeat_interleave(2)), "10 10 20 20 30 30")
  expect.equal(flat(x:repeat_interleave(ml.tensor { 1, 1, 1 }, 1, { output_size = 3 })), "10 20 30")
  expect.error(function() x:repeat_interleave(ml.tensor { 1, -1, 2 }) end, "cannot be negative")
  expect.error(function() ml.ones(2):repeat_interleave(ml.tensor { 1 << 62, 1 << 62 }) end, "repeat_interleave: .*too large")
  expect.error(function() x:repeat_interleave(ml.tensor { 1, 2 }) end, "size 3")
  expect.error(function() x:repeat_interleave(ml.tensor { 1.0, 2.0, 1.0 }) end, "integers are expected")
end)

test("combinations and products", function()
  expect.equal(shape(ml.arange(1, 5):combinations(6)), "(0, 6)")
  expect.equal(flat(ml.tensor({ 1, 2 }):combinations(2, true)), "1 1 1 2 2 2")
  expect.error(function() ml.arange(1, 60):combinations(30) end, "combinations")
  expect.error(function() ml.combinations(ml.zeros(2, 2)) end, "1 dimension is expected")
  expect.equal(shape(ml.cartesian_prod(ml.zeros(2), ml.zeros(0))), "(0, 2)")
end)

test("scatter takes numbers, larger sources and reduce", function()
  local index = ml.tensor { { 1, 3 }, { 2, 2 } }
  expect.equal(flat(ml.zeros(2, 3):scatter_(2, index, 1.5)), "1.5 0.0 1.5 0.0 1.5 0.0")
  expect.equal(flat(ml.zeros(2, 3):scatter(2, index, 2)), "2.0 0.0 2.0 0.0 2.0 0.0")
  local ones = ml.ones(2, 3)
  expect.equal(flat(ones:scatter(2, index, 3, { reduce = "multiply" })), "3.0 1.0 3.0 1.0 9.0 1.0")
  expect.equal(flat(ones:scatter_(2, index, ml.full({ 2, 2 }, 2.0), { reduce = "add" })),
    "3.0 1.0 3.0 1.0 5.0 1.0")
  expect.error(function() ones:scatter(2, index, 3, { reduce = "max" }) end, 'reduce is "add" or "multiply"')
  expect.error(function() ones:scatter(2, index, ml.ones(1, 2)) end, "none of its sizes may be larger")
  expect.error(function() ones:scatter_(2, ml.tensor { { 4 } }, 1) end, "position 4 is out of range for size 3")
  expect.error(function() ml.zeros(2, { dtype = ml.uint8 }):scatter_(1, ml.tensor { 1 }, 300) end, "300")
end)

test("scatter_reduce of integers, extremes and what is not named", function()
  local x = ml.tensor { 5, 6, 7 }
  local index, src = ml.tensor { 1, 1, 3 }, ml.tensor { 2, 9, 4 }
  expect.equal(flat(x:scatter_reduce(1, index, src, "amax", false)), "9 6 4")
  expect.equal(flat(x:scatter_reduce(1, index, src, "amin")), "2 6 4")
  expect.equal(flat(x:scatter_reduce(1, index, src, "mean")), "5 6 5")
  expect.equal(flat(x:scatter_reduce(1, index, src, "prod", false)), "18 6 4")
  expect.equal(flat(x:index_reduce(1, index, src, "prod")), "90 6 28")
  local nan = ml.zeros(2):scatter_reduce(1, ml.tensor { 1, 1 }, ml.tensor { 0 / 0, 3.0 }, "amax")
  expect.truthy(nan[1]:item() ~= nan[1]:item())
  expect.error(function() x:scatter_reduce(1, index, src, "median") end, "scatter_reduce: reduce is")
  expect.error(function() x:index_reduce(1, index, src, "sum") end, "index_add sums")
end)

test("the gradient of a product over zeros", function()
  local x = ml.ones(2):requires_grad_()
  local src = ml.tensor({ 2.0, 0.0, 3.0, 0.0, 0.0 }, { requires_grad = true })
  local y = x:scatter_reduce(1, ml.tensor { 1, 1, 1, 2, 2 }, src, "prod")
  y:sum():backward()
  expect.equal(flat(src.grad), "0.0 6.0 0.0 0.0 0.0")
  expect.equal(flat(x.grad), "0.0 0.0")
end)

test("block_diag is zero beside large blocks and joins any shapes and dtypes", function()
  local a, b = ml.full({ 60, 100 }, 2.0):requires_grad_(), ml.full({ 90, 50 }, 3.0):t():requires_grad_()
  local c = ml.tensor({ 4, 5 }, { dtype = "int64" })
  local y = ml.block_diag { a, b, ml.zeros(0), c, ml.zeros(2, 0) }
  expect.equal(tostring(y.shape), "(114, 192)")
  expect.equal(y.dtype, "float32")
  expect.equal(y:sum():item(), 2.0 * 6000 + 3.0 * 4500 + 9)
  expect.truthy(y["1:60, 1:100"]:eq(2):all():item() and y["61:110, 101:190"]:eq(3):all():item())
  expect.equal(flat(y["112, 191:192"]), "4.0 5.0")
  local gradients = ml.arange(1, 114 * 192):view(114, 192):float()
  local ga, gb = ml.grad({ y }, { a, b }, { grad_outputs = { gradients } })
  expect.truthy(ga:equal(gradients["1:60, 1:100"]) and gb:equal(gradients["61:110, 101:190"]))
end)

test("copies to just behind their position in a page are whole", function()
  for _, dtype in ipairs { "uint8", "int16", "float32", "float64" } do
    for _, width in ipairs { 100, 1024, 4100 } do
      local x = ml.randint(0, 100, { 5, width }):to(dtype)
      for _, shift in ipairs { 1, 2, 3, 5, 31 } do
        local positions = (ml.arange(0, width - 1) - shift):remainder(width) + 1
        expect.truthy(x:roll(shift, 2):equal(x:index_select(2, positions:to "int64")), dtype .. " " .. shift)
      end
    end
  end
end)

test("columns of pairs are copied whole", function()
  for _, dtype in ipairs { "bool", "int8", "bfloat16", "float32", "float64", "complex64" } do
    local couples = ml.randint(0, 2, { 1003, 2 }):to(dtype)
    local columns = couples:t():contiguous()
    for k = 1, 2 do
      for _, first in ipairs { 1, 2, 1000 } do
        local part = couples[{ { first, 1003 }, k }]:clone()
        expect.truthy(part:eq(columns[{ k, { first, 1003 } }]):all():item(), dtype)
        expect.equal(part:to("float64"):sum():item(), couples:to("float64")[{ { first, 1003 }, k }]:sum():item())
      end
    end
  end
end)

test("bincount counts without weights", function()
  local x = ml.tensor { 3, 1, 3, 3, 5 }
  expect.equal(flat(x:bincount()), "1 0 3 0 1")
  expect.equal(flat(ml.bincount(x, { minlength = 7 })), "1 0 3 0 1 0 0")
  expect.equal(flat(ml.bincount(ml.zeros(0):to "int64", { minlength = 2 })), "0 0")
  expect.error(function() ml.bincount(ml.tensor { 1, 0 }) end, "positions start at 1")
  local ones = ml.ones(1):to "bfloat16"
  local sums = ml.zeros(3, { dtype = "bfloat16" }):index_add(1, ml.ones(400):to "int64", ones:expand(400))
  expect.equal(flat(sums), "400.0 0.0 0.0")
end)

test("index_add multiplies slices of every dtype by alpha", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "float32", "float64", "int64", "int8" } do
    local x, source = ml.randint(-4, 4, { 30, 50 }):to(dtype), ml.randint(-4, 4, { 40, 50 }):to(dtype)
    for _, count in ipairs { 0, 3, 40 } do
      local at, part = ml.randint(1, 30, { count }), source:narrow(1, 1, count)
      local want = x:index_add(1, at, part * 3)
      expect.truthy(x:index_add(1, at, part, { alpha = 3 }):equal(want), dtype)
      expect.truthy(x:t():index_add(2, at, part:t(), { alpha = 3 }):equal(want:t()), dtype .. " columns")
      local y = x:t():contiguous():t()
      expect.truthy(y:index_add_(1, at, part, { alpha = 3 }):equal(want), dtype .. " transposed")
    end
  end
  for _, dtype in ipairs { "bfloat16", "float16" } do
    for _, width in ipairs { 1, 40 } do
      local x, source = ml.randn(30, width):to(dtype), ml.randn(90, width):to(dtype)
      local at = ml.randint(1, 30, { 90 })
      local want = x:float():index_add(1, at, source:float(), { alpha = 0.3 }):to(dtype)
      expect.truthy(x:index_add(1, at, source, { alpha = 0.3 }):equal(want), dtype .. " of width " .. width)
    end
  end
  local one, source = ml.tensor { 1 }, ml.ones(1):requires_grad_()
  expect.equal(flat((ml.grad({ ml.zeros(2):index_add(1, one, source, { alpha = 2.5 }):sum() }, { source }))), "2.5")
  expect.error(function() ml.zeros(2, { dtype = "int64" }):index_add(1, one, one, { alpha = 1.5 }) end, "alpha is 1.5")
  expect.error(function() ml.zeros(2):index_add(1, ml.tensor { 3 }, ml.ones(1), { alpha = 2 }) end,
    "position 3 is out of range")
end)

test("index_add scales, index_fill and index_copy write", function()
  local x = ml.zeros(3)
  expect.equal(flat(x:index_add(1, ml.tensor { 1, 1 }, ml.ones(2), { alpha = 3 })), "6.0 0.0 0.0")
  expect.equal(flat(x:index_add_(1, ml.tensor { 2 }, ml.ones(1), { alpha = -1 })), "0.0 -1.0 0.0")
  expect.equal(flat(x:index_fill_(1, ml.tensor { 1, 3 }, 4)), "4.0 -1.0 4.0")
  expect.equal(flat(x:index_fill_(1, ml.tensor { 1 }, ml.tensor(0.5))), "0.5 -1.0 4.0")
  expect.equal(flat(x:index_copy_(1, ml.tensor { 3, 1 }, ml.tensor { 7.0, 8.0 })), "8.0 -1.0 7.0")
  local t = ml.zeros(2, 3):t()
  t:index_copy_(1, ml.tensor { 2 }, ml.ones(1, 2))
  expect.equal(flat(t), "0.0 0.0 1.0 1.0 0.0 0.0")
  expect.error(function() x:index_copy_(1, ml.tensor { 4 }, ml.ones(1)) end, "out of range")
  expect.error(function() x:index_copy_(1, ml.tensor { 1 }, ml.ones(2)) end, "source has shape")
end)

test("index_put takes masks and accumulates", function()
  local x = ml.zeros(2, 3)
  x:index_put_({ ml.tensor { { true, false, true }, { false, false, true } } }, ml.tensor { 1.0, 2.0, 3.0 })
  expect.equal(flat(x), "1.0 0.0 2.0 0.0 0.0 3.0")
  x:index_put_({ false, ml.tensor { 1, 1 } }, ml.tensor(1.0), true)
  expect.equal(flat(x), "3.0 0.0 2.0 2.0 0.0 3.0")
  expect.equal(flat(x:put(ml.tensor { 1, -1 }, ml.tensor { 9.0, 8.0 })), "9.0 0.0 2.0 2.0 0.0 8.0")
  expect.equal(flat(x:take(ml.tensor { 6, 1 })), "3.0 3.0")
  expect.error(function() x:put_(ml.tensor { 1, 2 }, ml.ones(1)) end, "as many elements")
end)

test("masked_scatter wants enough elements", function()
  local mask = ml.tensor { true, true, false }
  expect.equal(flat(ml.zeros(3):masked_scatter_(mask, ml.tensor { 5.0, 6.0, 7.0 })), "5.0 6.0 0.0")
  expect.error(function() ml.zeros(3):masked_scatter(mask, ml.ones(1)) end, "the mask marks 2")
end)

test("nonzero as a table, and of a fixed size", function()
  local x = ml.tensor { { 0, 1 }, { 2, 0 } }
  local at = x:nonzero { as_tuple = true }
  expect.equal(#at, 2)
  expect.equal(flat(x[at]), "1 2")
  expect.equal(flat(x:nonzero { as_tuple = false }), "1 2 2 1")
  expect.equal(flat(x:nonzero_static(3)), "1 2 2 1 -1 -1")
  expect.equal(flat(ml.argwhere(x)), "1 2 2 1")
end)

test("searchsorted: sides, numbers, NaN, sorters", function()
  local s = ml.tensor { 1.0, 3.0, 3.0, 5.0 }
  expect.equal(flat(ml.searchsorted(s, ml.tensor { 0.0, 3.0, 9.0 })), "1 2 5")
  expect.equal(flat(ml.searchsorted(s, ml.tensor { 0.0, 3.0, 9.0 }, { right = true })), "1 4 5")
  expect.equal(ml.searchsorted(s, 3, { side = "right" }):item(), 4)
  expect.equal(ml.searchsorted(s, 3, { side = "right", right = true }):item(), 4)
  expect.error(function() ml.searchsorted(s, 3, { side = "left", right = true }) end, "contradict")
  expect.error(function() ml.searchsorted(s, ml.ones(2), { side = "left", right = true }) end,
    "contradict")
  expect.equal(ml.searchsorted(s, ml.tensor { 0 / 0 }):item(), 5)
  expect.equal(ml.searchsorted(s, ml.tensor { 2.0 }, { out_int32 = true }).dtype, "int32")
  expect.equal(flat(ml.bucketize(ml.tensor { 1, 2, 6 }, ml.tensor { 1, 3, 5 })), "1 2 4")
  local order = ml.tensor { 2, 1 }
  expect.equal(ml.searchsorted(ml.tensor { 5.0, 1.0 }, 4, { sorter = order }):item(), 2)
  expect.error(function() ml.searchsorted(s, 1, { side = "middle" }) end, 'side is "left" or "right"')
  expect.error(function() ml.searchsorted(ml.zeros(2, 3), ml.zeros(3, 3)) end, "must agree")
  expect.error(function() ml.bucketize(s, ml.zeros(2, 2)) end, "one dimension")
end)

test("positions of triangles and of elements", function()
  expect.equal(flat(ml.tril_indices(2, 2)), "1 2 2 1 1 2")
  expect.equal(shape(ml.triu_indices(3, 2, 5)), "(2, 0)")
  local at = ml.unravel_index(ml.tensor { 1, 6 }, { 2, 3 })
  expect.equal(flat(at[1]) .. "; " .. flat(at[2]), "1 2; 1 3")
  expect.error(function() ml.unravel_index(ml.tensor { 7 }, { 2, 3 }) end, "out of range")
end)

test("memory read as another dtype", function()
  local x = ml.tensor { 1.0, -2.0 }
  expect.equal(shape(x:view(ml.int16)), "(4,)")
  expect.equal(x:view(ml.int32)[1]:item(), 0x3f800000)
  expect.equal(flat(x:view(ml.int32):view(ml.float32)), "1.0 -2.0")
  expect.error(function() ml.zeros(3):view(ml.float64) end, "whole elements")
  expect.error(function() ml.zeros(2, 2):t():view(ml.int16) end, "cannot be split")
end)

test("fill_diagonal_ wraps", function()
  local x = ml.zeros(5, 2)
  x:fill_diagonal_(1, true)
  expect.equal(flat(x), "1.0 0.0 0.0 1.0 0.0 0.0 1.0 0.0 0.0 1.0")
  expect.equal(flat(ml.zeros(3, 2):fill_diagonal_(2)), "2.0 0.0 0.0 2.0 0.0 0.0")
  expect.equal(ml.zeros(2, 2, 2):fill_diagonal_(1):sum():item(), 2.0)
  expect.error(function() ml.zeros(2, 3, 2):fill_diagonal_(1) end, "one size")
end)

test("new tensors by another, with options", function()
  local x = ml.zeros(2, { dtype = ml.float64 })
  expect.equal(x:new_ones(2, 3).dtype, "float64")
  expect.equal(x:new_full({ 2 }, 3, { dtype = ml.int32 }).dtype, "int32")
  expect.truthy(x:new_zeros({ 2 }, { requires_grad = true }).requires_grad)
  expect.truthy(ml.ones_like(x, { requires_grad = true }).requires_grad)
  expect.equal(x:new_tensor({ 1, 2 }).dtype, "float64")
  expect.equal(x:new_tensor({ 1, 2 }, { dtype = ml.int64 }).dtype, "int64")
  expect.equal(flat(ml.full { { 2 }, fill_value = 3 }), "3 3")
  expect.equal(flat(ml.tensor { ml.tensor { 1, 2 }, ml.tensor { 3, 4 } }), "1 2 3 4")
  expect.equal(shape(ml.tensor { { ml.zeros(2) }, { ml.ones(2) } }), "(2, 1, 2)")
  expect.error(function() ml.tensor { ml.zeros(2), ml.zeros(3) } end, "item 2 has shape")
  local y = ml.empty_strided({ 2, 3 }, { 1, 2 })
  expect.equal(table.concat(y:stride(), " "), "1 2")
  expect.error(function() ml.empty_strided({ 2 }, { -1 }) end, "cannot be negative")
  expect.error(function() ml.empty_strided({ 2, 2 }, { 1 }) end, "2 sizes and 1 strides")
end)

test("conversions by another tensor, and copies", function()
  local x = ml.ones(2)
  expect.equal(x:to(ml.zeros(1, { dtype = ml.int32 })).dtype, "int32")
  expect.equal(x:type_as(ml.zeros(1, { dtype = ml.bool })).dtype, "bool")
  expect.equal(x:type(), "float32")
  expect.equal(x:type(ml.int8).dtype, "int8")
  expect.truthy(x:to(ml.float32):is_set_to(x))
  expect.falsy(x:to(ml.float32, { copy = true }):is_set_to(x))
  expect.equal(x:element_size(), 4)
  expect.equal(x:get_device(), -1)
  expect.equal(table.concat(ml.zeros(2, 3, 4):permute(3, 1, 2):dim_order(), " "), "2 3 1")
end)

test("transposes as fields", function()
  local x = ml.view_as_complex(ml.tensor { { { 1.0, 2.0 }, { 3.0, 4.0 } } })
  expect.equal(shape(x.H), "(2, 1)")
  expect.equal(x.H.imag[1][1]:item(), -2.0)
  expect.equal(shape(ml.zeros(2, 3, 4).mT), "(2, 4, 3)")
  expect.equal(shape(ml.zeros(2, 3, 4).mH), "(2, 4, 3)")
  expect.error(function() return ml.zeros(2, 3, 4).H end, "2 dimensions")
  expect.error(function() return ml.zeros(3).mT end, "at least 2 dimensions")
  local leaf = ml.ones(1):requires_grad_()
  local y = leaf * 2
  y:retain_grad()
  expect.truthy(y.retains_grad)
  expect.falsy(leaf.retains_grad)
end)

test("Lua functions of the elements", function()
  local x = ml.arange(1, 4):reshape(2, 2)
  expect.equal(flat(x:apply_(function(v) return v * v end)), "1 4 9 16")
  expect.equal(flat(x:map_(ml.tensor { 1, 2 }, function(a, b) return a - b end)), "0 2 8 14")
  expect.equal(flat(x:map2_(x, ml.tensor(1), function(a, b, c) return a + b + c end)), "1 5 17 29")
  expect.equal(flat(x:t():apply_(function(v) return -v end)), "-1 -17 -5 -29")
  expect.error(function() x:apply_(function() return "a" end) end, "must give a number")
  expect.error(function() x:apply_(3) end, "must be a function")
  expect.error(function() ml.ones(1):requires_grad_():apply_(math.abs) end, "requires grad")
  expect.error(function() x:apply_(function() return 1 << 40 end):to(ml.int8):apply_(function() return 300 end) end,
    "300")
end)

test("describe", function()
  local d = ml.tensor({ 4.0, 1.0, 0 / 0, 2.0, 3.0 }):describe()
  expect.equal(d.count, 4)
  expect.equal(d.nan, 1)
  expect.near(d.mean, 2.5, 1e-12)
  expect.near(d.std, 1.2909944487358, 1e-12)
  expect.equal(d.min, 1.0)
  expect.equal(d.q25, 1.75)
  expect.equal(d.median, 2.5)
  expect.equal(d.q75, 3.25)
  expect.equal(d.max, 4.0)
  expect.truthy(tostring(d):find "median +2.5")
  local nothing = ml.describe(ml.zeros(0))
  expect.equal(nothing.count, 0)
  expect.truthy(nothing.mean ~= nothing.mean)
end)

test("print options", function()
  local x = ml.tensor { 1.23456, 2.5 }
  ml.set_printoptions { precision = 2 }
  expect.truthy(tostring(x):find("1.23,", 1, true), tostring(x))
  ml.set_printoptions { sci_mode = true }
  expect.truthy(tostring(x):find("1.23e+00", 1, true), tostring(x))
  ml.set_printoptions { threshold = 4, edgeitems = 1 }
  expect.truthy(tostring(ml.arange(1, 9)):find("{1, ..., 9}", 1, true), tostring(ml.arange(1, 9)))
  ml.set_printoptions { profile = "default" }
  expect.truthy(tostring(x):find("1.2346,", 1, true), tostring(x))
  expect.error(function() ml.set_printoptions { precision = -1 } end, "precision is %-1")
  expect.error(function() ml.set_printoptions { profile = "wide" } end, "profile is")
end)

test("the default device", function()
  expect.equal(ml.get_default_device(), "cpu")
  expect.error(function() ml.set_default_device(3) end, "a device")
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  ml.set_default_device "cuda:0"
  local made = { ml.zeros(2), ml.tensor { 1 }, ml.arange(1, 3), ml.randperm(3), ml.rand(2), ml.tril_indices(2, 2) }
  ml.set_default_device "cpu"
  for _, x in ipairs(made) do expect.equal(x.device, "cuda:0") end
  expect.equal(ml.zeros(1).device, "cpu")
end)

test("denormal numbers may be flushed", function()
  local x = ml.tensor({ 1e-40 }, { dtype = ml.float32 })
  if not ml.set_flush_denormal(true) then harness.skip "the processor cannot" end
  local flushed = (x * 0.5):item()
  ml.set_flush_denormal(false)
  expect.equal(flushed, 0.0)
  expect.truthy((x * 0.5):item() > 0)
  expect.error(function() ml.set_flush_denormal(1) end, "true or false")
end)

test("seed draws a new seed", function()
  local seed = ml.seed()
  expect.equal(ml.initial_seed(), seed)
  local a = ml.rand(3)
  ml.manual_seed(seed)
  expect.equal(flat(a), flat(ml.rand(3)))
end)

test("copies of views with short rows", function()
  local x = ml.arange(1, 20)
  expect.equal(flat(x:unfold(1, 3, 2):contiguous():narrow(1, 8, 2)), "15 16 17 17 18 19")
  local image = ml.arange(1, 4 * 5 * 6):reshape(4, 5, 6)
  local windows = image:unfold(2, 2, 1):unfold(3, 3, 2)
  local copy = windows:contiguous()
  for _, at in ipairs { { 1, 1, 1, 1, 1 }, { 4, 4, 2, 2, 3 }, { 2, 3, 1, 2, 2 } } do
    expect.equal(copy[at]:item(), image[{ at[1], at[2] + at[4] - 1, 2 * at[3] - 2 + at[5] }]:item())
  end
end)

test("copies of few elements that lie side by side", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "float32", "bfloat16", "float64", "int8" } do
    local x = ml.randint(-9, 9, { 3000 }):to(dtype)
    local twice = x:repeat_interleave(3)
    expect.truthy(twice[{ { 1, -1, 3 } }]:equal(x) and twice[{ { 3, -1, 3 } }]:equal(x), "repeat_interleave")
    local couplesof = ml.stack({ x, -x }, -1)
    expect.truthy(couplesof:select(2, 1):equal(x) and couplesof:select(2, 2):equal(-x), "stack")
    local image = x:reshape(3, 20, 50)
    local last = image:permute(2, 3, 1):contiguous()
    for c = 1, 3 do expect.truthy(last:select(3, c):equal(image[c]), "channels last") end
    expect.truthy(last:permute(3, 1, 2):contiguous():equal(image), "channels first")
    expect.truthy(last:double():permute(3, 1, 2):equal(image:double()), "another dtype")
  end
end)

test("a border around a large tensor", function()
  ml.manual_seed(1)
  local x = ml.randn(40, 60, 50)
  for _, pad in ipairs { { 1, 2 }, { 0, 3, 2, 0 }, { 2, 0, -1, 4, 1, 1 }, { -3, -2, 5, -1 } } do
    local y = ml.pad(x, pad, "constant", 2.5)
    local inner = ml.ones_like(x):to "bool"
    local inside = ml.pad(inner, pad, "constant", false)
    expect.truthy(y[inside:logical_not()]:eq(2.5):all():item(), "the border")
    local cut = {}
    for i, count in ipairs(pad) do cut[i] = math.min(count, 0) end
    expect.truthy(y[inside]:equal(ml.pad(x, cut):reshape(-1)), "the middle")
  end
end)

test("flips of transposed tensors", function()
  local x = ml.arange(1, 24):reshape(2, 3, 4)
  for _, order in ipairs { { 3, 2, 1 }, { 1, 3, 2 }, { 2, 1, 3 }, { 3, 1, 2 } } do
    local turned = x:permute(order)
    for _, dims in ipairs { { 1 }, { 2 }, { 3 }, { 1, 3 }, { 1, 2, 3 } } do
      expect.equal(flat(turned:flip(dims)), flat(turned:contiguous():flip(dims)))
    end
  end
end)

test("padding with copies is the same with and without a tape", function()
  ml.manual_seed(1)
  local x = ml.randn(2, 3, 5, 6)
  for _, mode in ipairs { "reflect", "replicate", "circular" } do
    for _, pad in ipairs { { 1, 2, 2, 1 }, { 0, 3 }, { -1, 2, 0, -2 }, { 2, 2, 1, 0, 2, 1 }, { 0, 0 } } do
      local recorded = ml.pad(x:clone():requires_grad_(), pad, mode)
      expect.truthy(ml.pad(x, pad, mode):equal(recorded:detach()), mode)
      local last = x:to { memory_format = "channels_last" }
      expect.truthy(ml.pad(last, pad, mode):equal(recorded:detach()), mode .. ", channels last")
    end
  end
  expect.error(function() ml.pad(x, { 6, 0 }, "reflect") end, "too much for reflect padding of dim 4")
end)

test("one_hot without a number of classes", function()
  expect.equal(flat(ml.one_hot(ml.tensor { 1, 2 })), "1 0 0 1")
  expect.equal(shape(ml.one_hot(ml.tensor { 1, 2 }, -1)), "(2, 2)")
  expect.error(function() ml.one_hot(ml.tensor { 1 }, -2) end, "-2 classes")
end)

test("split tells one size from a list of one size", function()
  local x = ml.arange(5)
  expect.equal(#x:split(1), 5)
  expect.equal(#x:split { 5 }, 1)
  expect.equal(#x:split { 0, 5 }, 2)
  expect.error(function() x:split { 1 } end, "add up to 1, and dim 1 has size 5")
  expect.error(function() x:split { 2, 4 } end, "add up to 6")
end)

test("nothing is cut into as many chunks as are asked for", function()
  local parts = ml.zeros(0, 2):chunk(3)
  expect.equal(#parts, 3)
  for _, part in ipairs(parts) do expect.equal(part.shape, { 0, 2 }) end
  expect.equal(#ml.zeros(5):chunk(4), 3)
end)

harness.run()
