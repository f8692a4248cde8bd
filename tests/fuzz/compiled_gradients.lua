-- tests/fuzz/compiled_gradients.lua: random functions, eager and compiled side by side, with their
-- gradients: the same calls on the same tensors, while sizes, dtypes, weights, upvalues, fields and
-- modes change between them. Results, inputs, weights, gradients and what the functions raise must be
-- the same to the bit.
-- usage: moonlet compiled_gradients.lua COUNT [SEED]

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. package.path
local ml = require "moonlet"
local functions = require "compiled_functions"

local count, seed = tonumber(arg[1] or 200), tonumber(arg[2] or 1)

-- Equal to the bit, with the same layout.
local function same(a, b)
  if ml.is_tensor(a) ~= ml.is_tensor(b) then return false, "one is no tensor" end
  if not ml.is_tensor(a) then
    return a == b or (a ~= a and b ~= b), ("%s, expected %s"):format(tostring(b), tostring(a))
  end
  for _, what in ipairs { "dtype", "requires_grad", "ndim" } do
    if a[what] ~= b[what] then
      return false, ("%s is %s, expected %s"):format(what, tostring(b[what]), tostring(a[what]))
    end
  end
  for d = 1, a.ndim do
    if a.shape[d] ~= b.shape[d] then return false, "the shape differs" end
    if a.shape[d] > 1 and a:stride(d) ~= b:stride(d) then return false, "the strides differ" end
  end
  local bits = { float32 = "int32", float64 = "int64" }
  local function plain(x)
    x = x:detach():contiguous()
    return bits[x.dtype] and x:view(bits[x.dtype]) or x
  end
  if not ml.equal(plain(a), plain(b)) then
    return false, ("values differ:\n%s\nexpected\n%s"):format(tostring(b), tostring(a))
  end
  return true
end

-- The first difference between two tables of tensors and numbers.
local function difference(eager, compiled, what)
  for key, value in pairs(eager) do
    local ok, message
    if type(value) == "table" then
      message = type(compiled[key]) ~= "table" and "no table"
        or difference(value, compiled[key], what .. "." .. tostring(key))
    else
      ok, message = same(value, compiled[key])
      if ok then message = nil end
    end
    if message then return ("%s[%s]: %s"):format(what, tostring(key), message) end
  end
  for key in pairs(compiled) do
    if eager[key] == nil then return ("%s[%s]: expected nil"):format(what, tostring(key)) end
  end
end

-- One call of a side: what it gives, in a table, or its error.
local function call(side, inputs, case)
  ml.manual_seed(case.seed)
  ml.set_grad_enabled(case.grad)
  local out = table.pack(pcall(side.run, table.unpack(inputs)))
  local backward
  if out[1] and case.grad then
    for i = 2, out.n do
      local y = out[i]
      if ml.is_tensor(y) and y.requires_grad and not backward then
        backward = pcall(function() y:sum():backward() end)
      end
    end
  end
  ml.set_grad_enabled(true)
  -- What a backward that fails has added up by then depends on when nodes were made.
  if backward == false then side.drop_gradients(inputs) end
  if not out[1] then out = { false, (tostring(out[2]):gsub("^[^\n]-:%d+: ", ""):match "[^\n]*") } end
  local grads = {}
  for i, x in ipairs(inputs) do grads[i] = ml.is_tensor(x) and x.grad or false end
  return { out = out, inputs = inputs, state = side.state(), grads = grads, backward = backward or false }
end

local compiled_runs, foretold = 0, 0

local function run_program(number)
  ml._compiled.leave_out(number % 2 * 1000000)
  local program = functions.program(seed * 1000003 + number)
  local eager, other = program.side(), program.side()
  other.run = ml.compile(other.run, { dynamic = program.many and number % 2 == 0 or nil })
  for step, case in ipairs(program.calls) do
    program.change(eager, case)
    program.change(other, case)
    local expected = call(eager, program.inputs(case), case)
    local got = call(other, program.inputs(case), case)
    local message = difference(expected, got, "call " .. step)
    if message then
      io.stderr:write(("program %d of seed %d: %s\n%s\n"):format(number, seed, message, program.source))
      io.stderr:write(other.run:explain(), "\n")
      return false
    end
  end
  local text = other.run:explain()
  compiled_runs = compiled_runs + (text:match "run (%d+) time" or 0)
  if text:find "as foretold" then foretold = foretold + 1 end
  return true
end

local failed = 0
for number = 1, count do
  if not run_program(number) then failed = failed + 1 end
  if failed == 5 then break end
end
print(("%d programs, %d calls ran compiled, %d with foretold sizes, %d failed"):format(count,
  compiled_runs, foretold, failed))
if compiled_runs < count then
  print "too few calls ran compiled"
  os.exit(1)
end
os.exit(failed == 0 and 0 or 1)
