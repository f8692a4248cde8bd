-- tests/lua/program_case.lua: what the tests of compiled functions share: the compiled and the plain
-- function side by side, and how often plans ran.

local harness = require "harness"
local ml = require "moonlet"

local case = {}

--- Whether two results are the same to the last bit: tensors by dtype, shape and elements, tables
--- by their fields.
function case.same(a, b)
  if ml.is_tensor(a) then
    return ml.is_tensor(b) and a.dtype == b.dtype and tostring(a.shape) == tostring(b.shape)
      and a:equal(b)
  end
  if type(a) ~= "table" then return a == b or (a ~= a and b ~= b) end
  for key, value in pairs(a) do
    if not case.same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

--- Whether two tensors are the same to the last bit, a NaN or the sign of a zero included.
function case.same_bits(a, b)
  return a.dtype == b.dtype and a.shape == b.shape
    and a:contiguous():to_bytes() == b:contiguous():to_bytes()
end

--- A program as it is read again from its file.
function case.again(program)
  local loaded
  harness.with_temp_file(function(path)
    program:save(path)
    loaded = ml.load(path)
  end)
  return loaded
end

--- How often plans ran.
function case.runs(fast)
  local runs = 0
  for count in fast:explain():gmatch "run (%d+) time" do runs = runs + math.tointeger(count) end
  return runs
end

--- Calls both with the arguments that `arguments(i)` gives and compares, `count` times.
function case.compare(fast, f, arguments, count)
  for i = 1, count or 5 do
    local got = table.pack(fast(arguments(i)))
    local want = table.pack(f(arguments(i)))
    if not case.same(got, want) then
      error(("call %d: results differ"):format(i), 2)
    end
  end
end

--- Fails unless a plan ran in at least `count` calls.
function case.expect_runs(fast, count)
  local runs = case.runs(fast)
  if runs < count then error(("%d runs of plans, expected %d\n%s"):format(runs, count,
    fast:explain()), 2) end
end

--- Fails unless the function was left as it is, with a reason in which `pattern` is found.
function case.expect_eager(fast, pattern)
  local text = fast:explain()
  if case.runs(fast) > 0 then error("a plan ran\n" .. text, 2) end
  if not text:find(pattern) then error("no '" .. pattern .. "' in\n" .. text, 2) end
end

return case
