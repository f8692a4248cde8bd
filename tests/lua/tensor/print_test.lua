-- tests/lua/tensor/print_test.lua: how tensors print.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

test("numbers align and say what they are", function()
  expect.equal(tostring(ml.tensor { { 1, -20 }, { 300, 4 } }),
    "{{  1, -20},\n {300,   4}}\nTensor (2, 2) int64")
  expect.equal(tostring(ml.tensor { 1.5, -2.25 }), "{ 1.5000, -2.2500}\nTensor (2,) float32")
  expect.equal(tostring(ml.tensor { 1.0, 2.0 }), "{1., 2.}\nTensor (2,) float32")
  expect.equal(tostring(ml.tensor { true, false }), "{ true, false}\nTensor (2,) bool")
end)

test("nan has no sign, whatever its bits", function()
  local quiet, negative = 0 / 0, -(0 / 0)
  for _, value in ipairs { quiet, negative, ml.tensor(quiet):item(), ml.tensor(negative):item(),
    ml.tensor { negative }:tolist()[1], ml.zeros(1):div(0):neg():item() } do
    expect.equal(tostring(value), "nan")
    expect.equal(value .. "", "nan")
    expect.equal(table.concat { value, value }, "nannan")
    expect.equal(("%g|%6.1f|%-6g|%e|%a|%s|%+.2f"):format(value, value, value, value, value, value, value),
      "nan|   nan|nan   |nan|nan|nan|+nan")
    expect.equal(tostring(ml.complex(value, value)), "nan+nani")
    expect.equal(tostring(ml.tensor { value }), "{nan}\nTensor (1,) float32")
    local file = assert(io.tmpfile())
    file:write(value, " ", value)
    file:seek "set"
    expect.equal(file:read "a", "nan nan")
    file:close()
  end
  expect.equal(tostring(-ml.inf) .. ("%5.1f|%g"):format(1.5, -2), "-inf  1.5|-2")
  local path = os.tmpname()
  ml.data.write_csv(path, ml.tensor({ { negative, quiet } }, { dtype = ml.float64 }))
  local file = assert(io.open(path))
  expect.truthy(file:read("a"):find("%f[%w-]nan,nan\n$"))
  file:close()
  os.remove(path)
end)

test("extremes", function()
  expect.equal(tostring(ml.tensor(2.5)), "2.5000  Tensor () float32")
  expect.equal(tostring(ml.zeros(0, 3)), "{}\nTensor (0, 3) float32")
  expect.equal(tostring(ml.tensor { ml.inf, -ml.inf, 0.5 }):match "^[^\n]+", "{   inf,   -inf, 0.5000}")
  expect.truthy(tostring(ml.tensor { 1e-9, 1.5 }):find("1.0000e-09", 1, true))
  expect.truthy(tostring(ml.tensor { math.maxinteger }):find(tostring(math.maxinteger), 1, true))
  expect.truthy(tostring(ml.tensor { 0 / 0 }):find "nan")
end)

test("large tensors are summarised", function()
  local text = tostring(ml.zeros(100, 100))
  expect.truthy(text:find("...", 1, true))
  expect.truthy(#text < 1000)
end)

test("history shows", function()
  local x = ml.tensor({ 1.0 }, { requires_grad = true })
  expect.truthy(tostring(x):find "requires_grad$")
  expect.truthy(tostring(x * 2):find "grad_fn=Mul")
end)

harness.run()
