-- tests/lua/interp/locale_test.lua: numbers in texts are written 1.5 and read as such also where the locale
-- writes 1,5. Lua's own print and string.format follow the locale.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- Runs a script under the locale. All that it writes must have `wanted` in it and no comma between
-- digits.
local function expect_points(script, ...)
  local output = harness.run_with_decimal_commas(
    "local ml = require 'moonlet' local function show(x) print(tostring(x)) end " .. script)
  for _, wanted in ipairs { ... } do
    expect.truthy(output:find(wanted, 1, true), ("no '%s' in:\n%s"):format(wanted, output))
  end
  expect.falsy(output:find "%d,%d", output)
end

test("tensors and messages", function()
  expect_points([[
    show(ml.tensor { 1.5, 2e10, -3.25 }) show(ml.tensor(0.125)) show(ml.tensor { 1.0, 2.0 })
    show(ml.tensor { 0.5 }:to(ml.complex64))
    print(pcall(ml.ones(3).index_select, ml.ones(3), 1, ml.tensor { 1.5 }))
    print(select(2, pcall(function() return ml.ones(3)[1.5] end)))
    print(select(2, pcall(ml.nn.Dropout, 1.5)))
    print(select(2, pcall(ml.optim.SGD, { ml.nn.Parameter(ml.ones(1)) }, { lr = -0.5 })))
    print(select(2, pcall(ml.optim.Adam, { ml.nn.Parameter(ml.ones(1)) }, { betas = { 0.5, 1.25 } })))
    print(select(2, pcall(ml.data.random_split, ml.data.TensorDataset(ml.ones(4)), { 0.5, 0.625 })))
  ]], "1.5000e+00", "0.1250", "1., 2.", "0.5000+0.0000i", "1.5", "-0.5", "1.25", "1.125")
end)

test("modules, optimisers and profiles", function()
  expect_points([[
    show(ml.nn.Sequential(ml.nn.Dropout(0.25), ml.nn.LeakyReLU(0.125)))
    show(ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 0.375 }))
    show(ml.profile(function() ml.randn(100, 100):matmul(ml.randn(100, 100)) end))
  ]], "Dropout(0.25)", "(0.125)", "lr = 0.375", " ms")
end)

test("plots and progress bars", function()
  expect_points([[
    local fig = ml.plot.line({ 0.25, 0.5, 0.75 })
    print(fig:svg():match '>(0.5)<') print(fig:text { ascii = true, color = false })
    print(ml.plot.bar({ 0.375, 1 }):text { color = false })
    print(ml.plot.bar({ 1, 2 }, { labels = { 0.0625, 1 } }):svg():match '>(0.0625)<')
    print(ml.plot.line({ [0.03125] = { 1, 2 } }):svg():match '>(0.03125)<')
    print(select(2, pcall(ml.plot.line, { 1 }, { width = 1.75 })))
    local bar = ml.progress.new { total = 4, out = io.stdout, tty = false, lines = true }
    bar:set { loss = 0.4375 } bar:update(4) bar:close()
  ]], "0.5\n", "0.375", "0.0625\n", "0.03125\n", "got 1.75", "loss=0.4375")
end)

test("arguments of scripts", function()
  expect_points([[
    local parser = ml.args.parser { { 'rate', type = 'number', default = 0.5, help = 'step' } }
    local values = assert(parser:try_parse { '--rate', '0.25' })
    print(values.rate * 4 == 1, (parser:try_parse { '--rate', '0' .. ',25' }) == nil)
    print(parser:usage())
  ]], "true\ttrue", "default: 0.5")
end)

test("saved values come back", function()
  harness.with_temp_file(function(path)
    expect_points(([[
      local value = { rate = 0.1, tiny = 5e-324, list = { 1.5, { x = ml.tensor { 2.5 } } } }
      ml.save('%s', value, { metadata = { note = '1.5' } })
      local loaded, metadata = ml.load('%s')
      print(loaded.rate == 0.1 and loaded.tiny == 5e-324 and loaded.list[1] == 1.5
        and loaded.list[2].x:item() == 2.5 and metadata.note)
    ]]):format(path, path), "1.5")
    local ml = require "moonlet"
    expect.equal(ml.load(path).rate, 0.1)
  end)
end)

test("moonlet.numbers is Lua's functions without the locale", function()
  local numbers = require "moonlet.numbers"
  expect_points([[
    local numbers = require 'moonlet.numbers'
    print(numbers.format('%.2f %s %g', 1.5, 2.25, 1e-3), numbers.tostring(0.5))
    print(numbers.tonumber '1.5' * 2 == 3, numbers.tonumber('1' .. ',5'))
    print(pcall(numbers.wrap(function() error('the locale comes back', 0) end)))
    print(('%.1f'):format(1.5):byte(2) == (','):byte(), numbers.wrap(select)('#', 1, nil, nil))
  ]], "1.50 2.25 0.001\t0.5", "true\tnil", "false\tthe locale comes back", "true\t3")
  expect.error(function() numbers.wrap(1) end, "function expected")
  expect.error(function() numbers.format("%d", 1.5) end, "no integer representation")
end)

harness.run()
