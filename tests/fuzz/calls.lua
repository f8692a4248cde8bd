-- tests/fuzz/calls.lua: wrong calls of every row, in each form, on the CPU and (where there is one) on a
-- CUDA device. No call may crash, hang or fail with an error that does not say where; both devices
-- refuse the same calls; what both accept gives the same; an argument that lies in the memory that is
-- written is copied or refused; freed tensors are refused, and writing to memory that overlaps itself.
-- usage: MOONLET_OP_CASES=... moonlet calls.lua [CALLS_PER_OP [SEED [OP]]]
-- MOONLET_FUZZ_LOG names a file that holds the call that is running, for when the process dies.

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. here .. "/../lua/?.lua;" .. package.path
local ml = require "moonlet"
local samples = require "op_samples"
local wrong = require "wrong_arguments"

local calls_per_op, seed, only = tonumber(arg[1]) or 40, tonumber(arg[2]) or 20240607, arg[3]
local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))
local log_path = os.getenv "MOONLET_FUZZ_LOG"
local has_cuda = ml.cuda.is_available()

io.stdout:setvbuf "line"  -- nothing printed is lost when the process dies

local MAX_SECONDS = 5
local MAX_ELEMENTS = 1e6  -- of a result that is looked at: an expanded one may have any number
local problems, seen, made = 0, {}, 0

local function note(text)
  if not log_path then return end
  local file = assert(io.open(log_path, "w"))
  file:write(text, "\n")
  file:close()
end

-- Prints a problem, the first few of an op.
local function problem(case, kind, text)
  problems = problems + 1
  local key = case.name .. kind
  seen[key] = (seen[key] or 0) + 1
  if seen[key] <= 3 then print(("FAIL %s: %s\n  %s"):format(case.name, kind, text)) end
end

-- Calling ----------------------------------------------------------------------------------------

-- The tensors among results and arguments, in order.
local function tensors_in(values, list)
  for i = 1, values.n or #values do
    local value = values[i]
    if ml.is_tensor(value) then
      list[#list + 1] = value
    elseif type(value) == "table" then
      tensors_in(value, list)
    end
  end
  return list
end

-- Calls `f` and goes backward; the results on the CPU, or nil and the error.
local function attempt(case, f, values, device)
  ml.manual_seed(1234)
  local began = os.clock()
  local ok, results = pcall(function()
    local results = tensors_in(table.pack(f(table.unpack(values, 1, values.n))), {})
    for _, y in ipairs(results) do
      if y.requires_grad and y.dtype:find "float" and y:numel() <= MAX_ELEMENTS then
        y:sum():backward()
        break
      end
    end
    for i, y in ipairs(results) do
      results[i] = y:numel() <= MAX_ELEMENTS and y:detach():cpu() or y
    end
    if device ~= "cpu" then ml.cuda.synchronize() end
    return results
  end)
  if not ok and device ~= "cpu" then pcall(ml.cuda.synchronize) end
  local took = os.clock() - began
  if took > MAX_SECONDS then problem(case, "it is slow", ("%g s"):format(took)) end
  if ok then return results end
  return nil, results
end

-- Comparing --------------------------------------------------------------------------------------

local tolerances = { float16 = 1e-2, bfloat16 = 8e-2, float32 = 1e-3, complex64 = 1e-3 }

local function numbers(t)
  if t.dtype:find "^complex" then t = ml.view_as_real(t:contiguous()) end
  if t.dtype:find "^b?float" then t = t:to "float64" end
  return t:reshape(-1):tolist()
end

-- What differs between two lists of tensors, or nil.
local function difference(got, wanted)
  if #got ~= #wanted then return ("%d results and %d"):format(#got, #wanted) end
  for k, x in ipairs(got) do
    local y = wanted[k]
    if tostring(x.shape) ~= tostring(y.shape) or x.dtype ~= y.dtype then
      return ("%s %s and %s %s"):format(x.dtype, x.shape, y.dtype, y.shape)
    end
    local a, b, scale = numbers(x), numbers(y), 1
    for i = 1, #b do
      local size = type(b[i]) == "number" and math.abs(b[i]) or 0
      if size < math.huge then scale = math.max(scale, size) end
    end
    for i = 1, #b do
      local p, q = a[i], b[i]
      local same = p == q or (p ~= p and q ~= q)
      if not same and type(p) == "number" then
        same = math.abs(p - q) <= (tolerances[x.dtype] or 1e-6) * scale
      end
      if not same then return ("element %d is %s and %s"):format(i, p, q) end
    end
  end
end

-- Whether the message begins with the name that was called; errors of a backward name other ops,
-- and that there is no such device is said for all of them. What a kernel found is told by a later
-- wait, with the name of the op inside.
local function names_op(case, form, message)
  if message:find "an earlier op on cuda:0 failed: [%a_][%w_.]*: " then return true end
  local name = message:gsub("^[^ ]+:%d+: ", ""):match "^([%a_][%w_.]*): "
  return name == case.call .. (form == "_" and "_" or "") or name == "backward" or name == "cuda"
end

local function check_message(case, form, message, text)
  if type(message) ~= "string" then
    problem(case, "the error is no string", text)
  elseif not names_op(case, form, message) and not message:find "out of memory: " then
    problem(case, "the error does not begin with the op's name", message .. "\n  " .. text)
  end
end

-- Checks -----------------------------------------------------------------------------------------

local function is_finite(y)
  local whole = y.dtype:find "^complex" and ml.view_as_real(y:contiguous()) or y
  return not whole.dtype:find "float" or whole:isfinite():all():item()
end

-- Values may differ where numbers are drawn, left as they were, or out of an integer's range, and
-- where what is not finite spreads over a transform, or rows of scores, as the order of its sums has it.
local function comparable(case, results)
  if case.random or case.name:find "empty" then return false end
  -- The device's library has factors of its own for matrices that are singular or not finite.
  if case.family == "decomposition" then return false end
  if case.family == "fft" or case.name:find "attention" then
    for _, y in ipairs(results) do if not is_finite(y) then return false end end
  end
  for _, y in ipairs(results) do
    if y:numel() > MAX_ELEMENTS then return false end
    if y:numel() > 0 and y.dtype:find "int" then
      local fits = y:to "float64":abs():max():item() < 2 ^ 30
      if not fits then return false end
    end
  end
  return true
end

local function spoiled_call(case, f, form, plan, out)
  local ran, messages = {}, {}
  local devices = has_cuda and not case.cpu_only and { "cpu", "cuda" } or { "cpu" }
  for _, device in ipairs(devices) do
    note(("%s%s on %s: %s"):format(case.call, form, device, plan.text))
    local values = wrong.build(plan, device)
    if out then
      values.n = values.n + 1
      values[values.n] = { out = out(device) }
    end
    ran[device], messages[device] = attempt(case, f, values, device)
    made = made + 1
    if not ran[device] then
      check_message(case, form, messages[device], plan.text)
    elseif plan.refuse then
      problem(case, plan.refuse, ("%s%s: %s"):format(case.call, form, plan.text))
    end
  end
  if #devices < 2 then return end
  local where = ("%s%s: %s"):format(case.call, form, plan.text)
  local singular = case.family == "decomposition" and messages.cpu and messages.cpu:find "singular"
  if (ran.cpu == nil) ~= (ran.cuda == nil) and not singular then
    problem(case, ran.cpu and "only CUDA refuses" or "only the CPU refuses",
      where .. "\n  " .. tostring(messages.cpu or messages.cuda))
  elseif ran.cpu and not plan.refuse and comparable(case, ran.cpu) then
    local found = difference(ran.cuda, ran.cpu)
    if found then problem(case, "the devices differ", where .. "\n  CUDA and CPU: " .. found) end
  end
end

local function copies(values)
  local out = { n = values.n }
  for i = 1, values.n do
    out[i] = ml.is_tensor(values[i]) and values[i]:clone() or values[i]
  end
  return out
end

-- In place with an argument in the memory that is written: as with copies, or refused.
local function aliased_call(case, f, device)
  local plan = wrong.aliased(case)
  if not plan then return end
  note(("%s_ on %s: %s"):format(case.call, device, plan.text))
  local values = wrong.build(plan, device)
  local wanted = attempt(case, f, copies(values), device)
  local got = attempt(case, f, values, device)
  made = made + 1
  if not wanted or not got then return end
  local found = difference(got, wanted)
  if found then problem(case, "it reads what it overwrites", ("%s: %s: %s"):format(device, plan.text, found)) end
end

local function a_result(case)
  local ok, results = pcall(function()
    return samples.results(case, samples.arguments(case, 1))
  end)
  return ok and ml.is_tensor(results[1]) and results[1]:detach() or ml.zeros(3)
end

local function one_call(case)
  local kind = math.random(1, 6)
  local form = kind <= 3 and "" or kind <= 5 and "_" or "out"
  if form == "out" and not case.out then form = "" end
  local f = samples.find(case, form == "out" and "" or form)
  if not f then return end
  if form == "_" and math.random(1, 3) == 1 and not case.random then
    aliased_call(case, f, "cpu")
    if has_cuda and not case.cpu_only then aliased_call(case, f, "cuda") end
    return
  end
  local plan, out = wrong.plan(case, form), nil
  if form == "out" then
    local text, overlaps
    out, text, overlaps = wrong.out(a_result(case))
    plan.text = plan.text .. " | " .. text
    if overlaps then plan.refuse = "memory that overlaps itself is written" end
  end
  spoiled_call(case, f, form, plan, out)
end

for _, case in ipairs(cases) do
  if not only or case.name == only then
    math.randomseed(seed, tonumber((case.name:gsub(".", string.byte):sub(-15))))
    for _ = 1, calls_per_op do one_call(case) end
    ml.memory.collect()
  end
end
if made == 0 then error "no calls were made" end
if (ml.ones(2) + 1):sum():item() ~= 4.0 then error "the sum of two twos is wrong" end
if not has_cuda then print "SKIP refusals on CUDA: no CUDA device" end
print(("%d calls, %d problems"):format(made, problems))
if problems > 0 then os.exit(1, true) end
