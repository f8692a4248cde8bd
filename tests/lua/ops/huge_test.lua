-- tests/lua/ops/huge_test.lua: tensors of more than 2^31 elements (int8, 2 GiB each): what counts
-- elements or bytes in 32 bits goes wrong here. Skipped where memory is short.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local expect = harness.expect

local HALF = 1 << 30
local N = 2 * HALF + 64
local NEEDED_GIB = 12

local function number_in(path, pattern)
  local file = io.open(path)
  local text = file and file:read "a" or ""
  if file then file:close() end
  return tonumber(text:match(pattern))
end

-- Of the machine, or of a container that may use less.
local function available_gib()
  local free = number_in("/proc/meminfo", "MemAvailable:%s*(%d+)") or 0
  local allowed = number_in("/sys/fs/cgroup/memory.max", "%d+") or math.huge
  return math.min(free / (1 << 20), allowed / (1 << 30))
end

-- A test that drops all it made: the next one needs the memory.
local function test(name, f)
  harness.test(name, function()
    if (os.getenv "MOONLET_SANITIZE" or "none") ~= "none" then harness.skip "sanitizers take too long" end
    if available_gib() < NEEDED_GIB then
      harness.skip(("less than %d GiB of memory"):format(NEEDED_GIB))
    end
    f()
    collectgarbage()
    ml.memory.empty_cache()
  end)
end

-- Zeros but for 7 at the end and -3 before it.
local function sample()
  local x = ml.zeros { N, dtype = ml.int8 }
  x[N] = 7
  x[N - 1] = -3
  return x
end

test("pointwise ops reach the end", function()
  local x = sample()
  local y = x + x
  expect.equal(y[{ { N - 2, N } }]:totable(), { 0, -6, 14 })
  ml.mul(x, 2, { out = y })
  expect.equal(y[{ { N - 2, N } }]:totable(), { 0, -6, 14 })
  x:neg_()
  expect.equal(x[{ { N - 1, N } }]:totable(), { 3, -7 })
end)

test("reductions see every element", function()
  local x = sample()
  expect.equal(x:sum():item(), 4)
  expect.equal(x:max():item(), 7)
  expect.equal(x:min():item(), -3)
  expect.equal(x:argmax():item(), N)
  expect.equal(x:argmin():item(), N - 1)
  expect.equal(x:count_nonzero():item(), 2)
  expect.equal(x:any():item(), true)
  expect.equal(x:nonzero():reshape(-1):totable(), { N - 1, N })
  local ones = ml.ones { N, dtype = ml.int8 }
  expect.equal(ones:sum():item(), N)
  expect.equal(ones:view(2, N // 2):sum(2):totable(), { N // 2, N // 2 })
  expect.equal(ones:view(N // 2, 2):sum(1):totable(), { N // 2, N // 2 })
end)

test("copies keep every position", function()
  local x = sample()
  expect.equal(x:clone()[{ { N - 1, N } }]:totable(), { -3, 7 })
  expect.equal(x:flip(1)[{ { 1, 3 } }]:totable(), { 7, -3, 0 })
  expect.equal(x:roll(1)[{ { 1, 2 } }]:totable(), { 7, 0 })
  expect.equal(x:roll(1)[N]:item(), -3)
  local turned = x:view(N // 64, 64):t():contiguous()
  expect.equal(turned[64][N // 64]:item(), 7)
  expect.equal(turned[63][N // 64]:item(), -3)
  expect.equal(turned:sum():item(), 4)
  expect.equal(ml.cat({ x:narrow(1, N - 1, 2), x:narrow(1, 1, N - 2) })[{ { 1, 3 } }]:totable(), { -3, 7, 0 })
  expect.equal(ml.cat({ x:narrow(1, 1, N - 2), x:narrow(1, N - 1, 2) })[N]:item(), 7)
end)

test("indices past 2^31 are read and written", function()
  local x = sample()
  local at = ml.tensor { N, 1, N - 1, HALF * 2 + 1 }
  expect.equal(x:index_select(1, at):totable(), { 7, 0, -3, 0 })
  expect.equal(x:gather(1, at):totable(), { 7, 0, -3, 0 })
  expect.equal(x:take(at):totable(), { 7, 0, -3, 0 })
  expect.equal(x[at]:totable(), { 7, 0, -3, 0 })
  expect.equal(x:masked_select(x:ne(0)):totable(), { -3, 7 })
  x:scatter_(1, at, ml.tensor({ 1, 2, 3, 4 }, { dtype = ml.int8 }))
  expect.equal(x:index_select(1, at):totable(), { 1, 2, 3, 4 })
  x:index_add_(1, at, ml.tensor({ 1, 1, 1, 1 }, { dtype = ml.int8 }))
  expect.equal(x:index_select(1, at):totable(), { 2, 3, 4, 5 })
  x:index_fill_(1, at, 9)
  expect.equal(x:sum():item(), 36)
  x[at] = ml.tensor({ 5, 6, 7, 8 }, { dtype = ml.int8 })
  expect.equal(x:narrow(1, HALF * 2 + 1, 1):item(), 8)
  expect.equal(x:view(2, N // 2)[2]:sum():item(), 20)
end)

test("differences of neighbours run to the end", function()
  expect.equal(sample():diff()[{ { N - 3, N - 1 } }]:totable(), { 0, -3, 10 })
end)

test("fills and draws cover everything", function()
  local x = ml.full({ N }, 3, { dtype = ml.int8 })
  expect.equal(x:eq(3):all():item(), true)
  x:random_(5, 6)
  expect.equal(x[{ { N - 1, N } }]:totable(), { 5, 5 })
  x:narrow(1, HALF * 2 + 1, 64):zero_()
  expect.equal(x:count_nonzero():item(), N - 64)
end)

test("a slice, a stride and a matrix beyond 2^31", function()
  local x = sample()
  local odd = x:as_strided({ N // 2 }, { 2 }, 1)
  expect.equal(odd[N // 2]:item(), 7)
  expect.equal(odd:clone():sum():item(), 7)
  local rows = x:view(N // 64, 64)
  expect.equal(rows[N // 64][64]:item(), 7)
  expect.equal(rows:amax(1)[64]:item(), 7)
  expect.equal(rows:sum(2)[N // 64]:item(), 4)
  expect.equal(ml.where(x:ne(0), x, x:add(1))[{ { N - 2, N } }]:totable(), { 1, -3, 7 })
end)

harness.run()
