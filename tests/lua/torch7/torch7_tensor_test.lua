-- tests/lua/torch7/torch7_tensor_test.lua: tensors and storages of `require "torch"`: classes, x[key],
-- geometry, memory that is shared with native tensors, and how they print.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

test("torch is a global and one module", function()
  expect.equal(_G.torch == torch, true)
  expect.equal(require "moonlet.torch7" == torch, true)
end)

test("results are of their caller's class", function()
  for _, name in ipairs { "Byte", "Char", "Short", "Int", "Long", "Float", "Half", "Double" } do
    local x = torch[name .. "Tensor"](2, 3)
    expect.equal(x:type(), "torch." .. name .. "Tensor")
    expect.equal(torch.type(x:t()), "torch." .. name .. "Tensor")
    expect.equal(torch.type(x:clone()), "torch." .. name .. "Tensor")
  end
  local native = ml.ones(2, 2):add(1)
  expect.equal(torch.typename(native), nil)
  expect.equal(torch.type(ml.add(torch.FloatTensor(2), 1)), "torch.FloatTensor")
end)

test("native tensors and Torch7's share memory", function()
  local native = ml.zeros(2, 2)
  local x = torch.from(native)
  x[1][2] = 5
  expect.equal(native:tolist(), { { 0.0, 5.0 }, { 0.0, 0.0 } })
  x:tensor():add_(1)
  expect.equal(x:totable(), { { 1.0, 6.0 }, { 1.0, 1.0 } })
  expect.error(function() torch.from(ml.zeros(2, { dtype = "bool" })) end, "one of Torch7's types")
end)

test("methods change their tensor, functions make one", function()
  local x = torch.Tensor { 1, 2, 3 }
  local y = torch.add(x, 10)
  expect.equal(x:totable(), { 1.0, 2.0, 3.0 })
  expect.equal(y:totable(), { 11.0, 12.0, 13.0 })
  expect.truthy(x:add(1) == x)
  expect.equal(x:totable(), { 2.0, 3.0, 4.0 })
  local r = torch.Tensor()
  expect.truthy(torch.add(r, x, 2, y) == r)
  expect.equal(r:totable(), { 24.0, 27.0, 30.0 })
  expect.equal(r:add(x, y):totable(), { 13.0, 15.0, 17.0 })
end)

test("positions, ranges and masks", function()
  local x = torch.range(1, 12):resize(3, 4)
  expect.equal(x[2][3], 7.0)
  expect.equal(x[{ 2, 3 }], 7.0)
  expect.equal(x[-1][-1], 12.0)
  expect.equal(x[{ {}, 2 }]:totable(), { 2.0, 6.0, 10.0 })
  expect.equal(x[{ { 2, 3 }, { 1, 2 } }]:totable(), { { 5.0, 6.0 }, { 9.0, 10.0 } })
  expect.equal(x[{ { 2 } }]:size():totable(), { 1, 4 })
  expect.equal(x[x:gt(10)]:totable(), { 11.0, 12.0 })
  x[{ 1, {} }] = 0
  x[2] = torch.Tensor { 9, 9, 9, 9 }
  x[x:eq(9)] = -1
  x[{ 3, 4 }] = 100
  expect.equal(x:totable(), { { 0.0, 0.0, 0.0, 0.0 }, { -1.0, -1.0, -1.0, -1.0 },
    { -1.0, 10.0, 11.0, 100.0 } })
end)

test("wrong keys", function()
  local x = torch.Tensor(2, 3)
  expect.error(function() return x[3] end, "position 3 is outside 1 to 2")
  expect.error(function() return x[0] end, "position 0 is outside")
  expect.error(function() return x[{ 1, 2, 3 }] end, "3 positions for a 2D tensor")
  expect.error(function() return x[{ { 2, 1 } }] end, "the range {2, 1} is outside")
  expect.error(function() x[1] = "a" end, "a number or a tensor is expected")
  expect.error(function() return torch.Tensor()[1] end, "empty")
  expect.error(function() return x[torch.FloatTensor(2, 3)] end, "a ByteTensor is expected as a mask")
  expect.equal(x.nothing, nil)
end)

test("wrong arguments of methods", function()
  local x = torch.Tensor(2, 3)
  expect.error(function() x:apply(1) end, "torch.apply: argument 'f' must be a function, got number")
  expect.error(function() x:apply(function() return {} end) end, "f must give a number, got table")
  expect.error(function() x:isSize { 2, 3 } end, "must be a LongStorage, got table")
  expect.error(function() x:resizeAs(2) end, "argument 'other' must be a tensor, got number")
  expect.error(function() x:narrow(1, "a", 1) end, "argument 'first' must be a number, got string")
  expect.error(function() x:split(0) end, "a size of at least 1 is expected, got 0")
  expect.error(function() torch.LongStorage(1.5) end, "a whole number is expected, got 1.5")
end)

test("integers wrap as in C", function()
  local x = torch.ByteTensor(2)
  x[1], x[2] = 257, 3.9
  expect.equal(x:totable(), { 1, 3 })
  expect.equal(torch.IntTensor { 7, -7 }:div(2):totable(), { 3, -3 })
  expect.equal(torch.CharTensor(1):fill(200)[1], -56)
end)

test("an empty tensor has no dimensions", function()
  local x = torch.Tensor()
  expect.equal({ x:dim(), x:nElement(), #x:size() }, { 0, 0, 0 })
  expect.equal(torch.Tensor(3, 0):dim(), 0)
  expect.equal(tostring(x), "[torch.DoubleTensor with no dimension]\n")
end)

test("sizes, strides and offsets", function()
  local x = torch.Tensor(torch.LongStorage { 2, 3, 4 })
  expect.equal(x:size():totable(), { 2, 3, 4 })
  expect.equal(x:stride():totable(), { 12, 4, 1 })
  expect.equal(x:select(1, 2):storageOffset(), 13)
  expect.equal((#x):totable(), { 2, 3, 4 })
  expect.error(function() return x:size(4) end, "dimension 4 is out of range of a 3D tensor")
  local y = torch.Tensor(x:storage(), 5, torch.LongStorage { 2, 2 }, torch.LongStorage { 12, 1 })
  y:fill(1)
  expect.equal(x:sum(), 4.0)
  expect.equal(y:isContiguous(), false)
  local z = torch.Tensor():set(x:storage(), 24, 3)
  expect.equal({ z:nElement(), #x:storage() }, { 3, 26 }, "set lets the storage grow")
end)

test("resize keeps and grows memory", function()
  local x = torch.range(1, 4)
  local s = x:storage()
  x:resize(2, 2)
  expect.equal(x:totable(), { { 1.0, 2.0 }, { 3.0, 4.0 } })
  x:resize(6)
  expect.equal(#s, 6)
  expect.truthy(torch.pointer(s) == torch.pointer(x:storage()))
end)

test("apply and map", function()
  local x, seen = torch.Tensor { { 1, 2 }, { 3, 4 } }, {}
  x:apply(function(v)
    seen[#seen + 1] = v
    if v > 2 then return -v end
    return nil
  end)
  expect.equal(seen, { 1.0, 2.0, 3.0, 4.0 })
  expect.equal(x:totable(), { { 1.0, 2.0 }, { -3.0, -4.0 } })
  x:map(torch.Tensor { 10, 20, 30, 40 }, function(a, b) return a + b end)
  expect.equal(x:totable(), { { 11.0, 22.0 }, { 27.0, 36.0 } })
end)

test("expanded tensors are filled and copied to", function()
  local x = torch.zeros(1, 3)
  x:expand(2, 3):fill(2)
  expect.equal(x:totable(), { { 2.0, 2.0, 2.0 } })
  x:expand(2, 3):copy(torch.range(1, 6):resize(2, 3))
  expect.equal(x:totable(), { { 4.0, 5.0, 6.0 } }, "what is copied last stays")
  expect.equal(x:expand(2, 3):zero():size(1), 2)
  expect.equal(x:sum(), 0.0)
  expect.equal(x:unfold(2, 2, 1):fill(3):size():totable(), { 1, 2, 2 })
  expect.equal(x:totable(), { { 3.0, 3.0, 3.0 } })
end)

test("what is added to elements that share memory adds up", function()
  for _, class in ipairs { torch.FloatTensor, torch.LongTensor } do
    local x = class(1, 3):zero()
    x:expand(2, 3):add(1)
    expect.equal(x:sum(), 6 + 0 * x[1][1])
    x:expand(2, 3):add(2, class { { 1, 0, 0 }, { 1, 1, 0 } }):csub(1)
    expect.equal(x:totable(), class { { 4, 2, 0 } }:totable())
    local y = class(5):zero()
    y:narrow(1, 2, 4):unfold(1, 2, 1):add(1)
    expect.equal(y:totable(), class { 0, 1, 2, 2, 1 }:totable())
    y:unfold(1, 3, 1):csub(class(3, 3):fill(1))
    expect.equal(y:totable(), class { -1, -1, -1, 0, 0 }:totable())
  end
  expect.error(function() torch.zeros(1, 3):expand(2, 3):mul(2) end,
    "several elements of this expanded")
  expect.error(function() torch.zeros(2, 3):t():add(torch.zeros(2)) end, "inconsistent tensor size")
end)

test("storages", function()
  local s = torch.FloatStorage { 1, 2, 3 }
  s[2] = 20
  expect.equal({ s[2], #s, s:type() }, { 20.0, 3, "torch.FloatStorage" })
  expect.error(function() return s[4] end, "position 4 is outside 1 to 3")
  local part = torch.FloatStorage(s, 2, 2)
  part[1] = 7
  expect.equal(s:totable(), { 1.0, 7.0, 3.0 })
  expect.equal(torch.CharStorage():string("ab\0c"):string(), "ab\0c")
  expect.equal(s:double():type(), "torch.DoubleStorage")
  expect.equal(torch.LongStorage(3):fill(4):totable(), { 4, 4, 4 })
end)

test("printing", function()
  expect.equal(tostring(torch.Tensor { { 1, 2 }, { 3, 4 } }),
    " 1  2\n 3  4\n[torch.DoubleTensor of size 2x2]\n")
  expect.equal(tostring(torch.FloatTensor { 0.5, -1.25 }),
    " 0.5000\n-1.2500\n[torch.FloatTensor of size 2]\n")
  expect.equal(tostring(torch.Tensor { 1e5, 1.5e5 + 0.5 }),
    "100000 *\n 1.0000\n 1.5000\n[torch.DoubleTensor of size 2]\n")
  expect.equal(tostring(torch.Tensor { 1e6, 0.5 }),
    " 1.0000e+06\n 5.0000e-01\n[torch.DoubleTensor of size 2]\n")
  expect.equal(tostring(torch.LongStorage { 1, 20 }), "  1\n 20\n[torch.LongStorage of size 2]\n")
  expect.equal(tostring(torch.zeros(1, 2, 2)),
    "(1,.,.) = \n  0  0\n  0  0\n[torch.DoubleTensor of size 1x2x2]\n")
  expect.equal(tostring(torch.zeros(1, 30)):match "^Columns 1 to 26\n" ~= nil, true)
end)

test("the default type", function()
  torch.setdefaulttensortype "torch.FloatTensor"
  expect.equal(torch.zeros(1):type(), "torch.FloatTensor")
  torch.setdefaulttensortype "torch.DoubleTensor"
  expect.equal(torch.Tensor(1):type(), "torch.DoubleTensor")
  expect.error(function() torch.setdefaulttensortype "nn.Linear" end, "no type of tensors")
end)

test("classes that are no longer tensors are refused", function()
  expect.error(function() ml._classes.tensor(ml.zeros(1), {}) end, "no registered class")
  local x = torch.Tensor(2)
  getmetatable(x).__gc(x)
  expect.error(function() return x[1] end, "a tensor is expected")
end)

harness.run()
