-- tests/lua/interp/sizes_test.lua: shapes as values, and lists of sizes and dims that hold nil.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local x = ml.zeros(2, 3, 4)

test("a shape is read from both ends", function()
  local s = x.shape
  expect.equal(#s, 3)
  expect.equal(s[1], 2)
  expect.equal(s[-1], 4)
  expect.equal(s[-3], 2)
  expect.equal(s[4], nil)
  expect.equal(s:numel(), 24)
  expect.equal(ml.tensor(1).shape:numel(), 1)
  expect.equal(ml.zeros(2, 0).shape:numel(), 0)
  expect.error(function() return s[0] end, "positions start at 1")
  expect.error(function() return s[-4] end, "%(2, 3, 4%) has 3 sizes")
  expect.error(function() return s.numl end, "did you mean 'numel'")
  expect.error(function() return s.x1 end, "no method 'x1'")
end)

test("a shape goes where lists go", function()
  local s = x.shape
  expect.equal(table.concat(s, "x"), "2x3x4")
  expect.equal(select("#", table.unpack(s)), 3)
  local by_index, by_pairs = {}, {}
  for i, size in ipairs(s) do by_index[i] = size end
  for i, size in pairs(s) do by_pairs[i] = size end
  expect.equal(table.concat(by_index, ","), "2,3,4")
  expect.equal(table.concat(by_pairs, ","), "2,3,4")
  expect.equal(table.concat(s:tolist(), ","), "2,3,4")
  expect.equal(table.concat(table.move(s, 1, 3, 1, {}), ","), "2,3,4")
  expect.equal(tostring(ml.zeros(s).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.zeros(s, { dtype = "int8" }).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.full(s, 1).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.ones(24):view(s).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.ones(24):view(x:size()).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.zeros(4):expand(s).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.tensor(s).shape), "(3,)")
  expect.equal(ml.tensor { s, s }[2][3]:item(), 4)
  expect.equal(tostring(x:as_strided(s, x:stride()).shape), "(2, 3, 4)")
end)

test("shapes compare and join", function()
  expect.truthy(x.shape == ml.ones(2, 3, 4).shape)
  expect.truthy(x.shape == { 2, 3, 4 } and { 2, 3, 4 } == x.shape)
  expect.truthy(x.shape ~= ml.ones(2, 3).shape and x.shape ~= { 2, 3, 5 })
  expect.equal("shape " .. x.shape .. "!", "shape (2, 3, 4)!")
  expect.equal(x[1][1].shape .. 1, "(4,)1")
  expect.equal(x.shape .. x[1].shape, "(2, 3, 4)(3, 4)")
  expect.equal(("%s"):format(x.shape), "(2, 3, 4)")
  expect.error(function() return x.shape .. {} end, "got table")
end)

test("a shape is not changed by assignment", function()
  local s = x.shape
  expect.error(function() s[1] = 5 end, "not changed by assignment")
  expect.error(function() s[4] = 5 end, "not changed by assignment")
  expect.error(function() s.n = 3 end, "not changed by assignment")
  expect.error(function() table.insert(s, 5) end, "not changed by assignment")
  expect.error(function() table.sort(s, function(a, b) return a > b end) end, "not changed by assignment")
  expect.equal(tostring(s), "(2, 3, 4)")
  expect.error(function() setmetatable(s, nil) end, "protected")
  rawset(s, next(s), "short")
  expect.equal(#s, 0)
end)

local varargs = {
  { "view", x, 24 }, { "reshape", x, 24 }, { "expand", ml.zeros(1), 3 }, { "permute", ml.zeros(2), 1 },
  { "tile", x, 2 }, { "flip", x, 1 }, { "resize_", ml.zeros(3), 3 },
}

test("nil among sizes is refused, also behind them", function()
  for _, case in ipairs(varargs) do
    local name, t, size = table.unpack(case)
    local f = t[name]
    f(t, size)
    local message = name .. ": item %d of '%%w+' is nil"
    expect.error(function() return f(t, size, nil) end, message:format(2))
    expect.error(function() return f(t, size, nil, size) end, message:format(2))
    expect.error(function() return f(t, nil, size) end, message:format(1))
    expect.error(function() return f(t, nil) end, message:format(1))
    expect.error(function() return f(t, { size, nil, size }) end, "must hold integers, got nil")
  end
  for _, name in ipairs { "zeros", "ones", "rand", "randn", "empty" } do
    local f = ml[name]
    local message = name .. ": item %d of 'size' is nil"
    expect.error(function() return f(2, nil) end, message:format(2))
    expect.error(function() return f(2, nil, 3) end, message:format(2))
    expect.error(function() return f(nil, 3) end, message:format(1))
    expect.error(function() return f { 2, nil, 3 } end, "must hold integers, got nil")
    expect.error(function() return f(2, nil, { dtype = "float64" }) end, message:format(2))
  end
  expect.error(function() return x:view(-1, x.shape[5]) end, "view: item 2 of 'size' is nil")
  expect.equal(tostring(x:view(-1, x.shape[-1]).shape), "(6, 4)")
end)

test("nil still leaves out what may be left out", function()
  expect.equal(tostring(x:sum(nil, true).shape), "(1, 1, 1)")
  expect.equal(tostring(x:sum(1, nil).shape), "(3, 4)")
  expect.equal(tostring(x:squeeze(nil).shape), "(2, 3, 4)")
  expect.equal(tostring(ml.full({ 2 }, 1, nil).shape), "(2,)")
end)

-- A shape of those sizes.
local function shape_of(sizes)
  local strides = {}
  for i = 1, #sizes do strides[i] = 0 end
  return ml.empty_strided(sizes, strides).shape
end

-- A shape for a plain list of sizes; nil for what is no such list.
local function as_shape(value)
  if type(value) ~= "table" or getmetatable(value) or next(value) == nil then return nil end
  for key, item in pairs(value) do
    if math.type(key) ~= "integer" or math.type(item) ~= "integer" or item < 0 then return nil end
  end
  return shape_of(value)
end

-- Whether two lists of results have the same elements.
local function same(a, b)
  if #a ~= #b then return false end
  for i, item in ipairs(a) do
    local other = b[i]
    if ml.is_tensor(item) then
      if not item:equal(other) and item:isnan():sum():item() == 0 then return false end
    elseif type(item) ~= "table" and item ~= other then
      return false
    end
  end
  return true
end

test("every op that takes a list of sizes takes a shape", function()
  local samples = require "op_samples"
  local count, ops = 0, {}
  for _, case in ipairs(dofile(os.getenv "MOONLET_OP_CASES")) do
    for i = 1, #case.samples do
      local args = samples.arguments(case, i)
      for at, kind in ipairs(case.args) do
        local shape = (kind:find "^int%[" or kind:find "^Dim%[") and as_shape(args[at])
        if shape then
          local wanted = samples.results(case, samples.arguments(case, i))
          local given = samples.arguments(case, i)
          given[at] = shape
          local got = samples.results(case, given)
          local undefined = case.name:find "empty"
          expect.truthy(undefined or same(got, wanted), ("%s: %s"):format(case.name, case.samples[i]))
          count, ops[case.name] = count + 1, true
        end
      end
    end
  end
  local names = 0
  for _ in pairs(ops) do names = names + 1 end
  expect.truthy(count > 150 and names > 60, ("%d calls of %d ops"):format(count, names))
end)

-- Arguments of the library that have several types, tried by a call of each: `int[N]` and its like
-- are tried by their types.
local OUTPUT_SIZES = { adaptive_avg_pool = 1, adaptive_max_pool = 1, adaptive_max_pool_with_indices = 1 }

test("every function of the library that takes a list of sizes takes a shape", function()
  local signature = require "moonlet.signature"
  for _, entry in ipairs(require "moonlet.reference") do  -- loads all modules
    if not entry.name:find "::" and entry.kind ~= "op" then
      pcall(function()
        local at = ml
        for part in entry.name:gmatch "[^.]+" do at = at[part] end
      end)
    end
  end
  for _, part in ipairs { "state", "convert", "copy", "hooks", "lookup", "summary" } do
    require("moonlet.nn." .. part)
  end
  local count = 0
  for name, declared in pairs(signature.all) do
    for number, parameter in ipairs(declared.parameters) do
      local length = parameter.type:match "int%[(%d*)%]"
      if length then
        local sizes = {}
        for i = 1, tonumber(length) or 3 do sizes[i] = i end
        local by_list = declared:convert(number, sizes)
        expect.equal(declared:convert(number, shape_of(sizes)), by_list, name .. ": " .. parameter.name)
        expect.truthy(by_list, name .. ": " .. parameter.name)
        count = count + 1
      end
    end
  end
  expect.truthy(count > 200, count .. " parameters")
  local F, nn = ml.nn.functional, ml.nn
  for d = 1, 3 do
    local sizes = { 2, 3, 2 }
    local input = ml.rand(table.unpack({ 2, 2, 4, 5, 6 }, 1, 2 + d))
    local shape = shape_of { table.unpack(sizes, 1, d) }
    for name in pairs(OUTPUT_SIZES) do
      local full = name:gsub("pool", "pool" .. d .. "d")
      expect.equal(tostring(F[full](input, shape).shape), "(2, 2, " .. table.concat(shape, ", ") .. ")", full)
    end
    for _, name in ipairs { "AdaptiveAvgPool", "AdaptiveMaxPool" } do
      expect.equal(#nn[name .. d .. "d"](shape)(input).shape, 2 + d)
    end
  end
end)

harness.run()
