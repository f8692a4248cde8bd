-- tests/lua/interp/refusal_test.lua: every op refuses the same wrong calls on the CPU and on the CUDA
-- device, with the same words: what protects memory is checked before a kernel of any device is
-- reached. The calls are the samples of the rows with one or two arguments spoiled.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local op_variants = require "op_variants"
local samples = require "op_samples"
local expect = harness.expect

local cases = dofile(os.getenv "MOONLET_OP_CASES")

-- Other shapes of a tensor with the same dtype, by the wrongs a caller makes.
local function shapes_of(t)
  local out = {
    t:unsqueeze(1), t:reshape(-1), t:reshape(-1):narrow(1, 1, 0),
    ml.cat({ t:reshape(-1), t:reshape(-1) }, 1),
  }
  if t:numel() > 0 then out[#out + 1] = t:reshape(-1)[1] end
  for d = 1, t.ndim do
    out[#out + 1] = ml.cat({ t, t:narrow(d, 1, math.min(1, t.shape[d])) }, d)
    out[#out + 1] = t:narrow(d, 1, 0)
    if t.shape[d] > 1 then out[#out + 1] = t:narrow(d, 1, t.shape[d] - 1) end
  end
  if t.ndim == 2 then out[#out + 1] = t:t() end
  return out
end

local dtypes = { "bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64" }

local function tensor_variants(t, kind)
  local out = shapes_of(t)
  for _, dtype in ipairs(dtypes) do
    if dtype ~= t.dtype and not t.dtype:find "^complex" then out[#out + 1] = t:to(dtype) end
  end
  if kind == "Positions" then
    for _, at in ipairs { 0, -1, 1000, math.maxinteger, math.mininteger } do
      local moved = t:clone()
      moved:fill_(at)
      out[#out + 1] = moved
    end
    out[#out + 1] = t:to "int32"
  end
  return out
end

local function number_variants(value)
  if math.type(value) ~= "integer" then return { -1.0, 0.0, 2.5, ml.nan, ml.inf } end
  return { -100, -1, 0, 1, 2, 3, 9, 1 << 40, math.mininteger }
end

local absent = {}

-- What else could stand in the place of argument `i`.
local function variants(case, args, i)
  local value, kind = args[i], case.args[i] or ""
  if ml.is_tensor(value) then
    local out = tensor_variants(value, kind)
    if kind:find "%?$" then out[#out + 1] = absent end
    return out
  elseif math.type(value) then
    return number_variants(value)
  elseif type(value) == "boolean" then
    return { not value }
  elseif type(value) == "table" and ml.is_tensor(value[1]) then
    return op_variants.of_tensors(value, function(t) return tensor_variants(t, "") end)
  elseif type(value) == "table" and math.type(value[1]) then
    return op_variants.of_list(value, { -3, -1, 1, 40 })
  end
  return {}
end

local function on_device(value, device)
  -- A clone, because in-place forms would change the sample; contiguous, as what another device
  -- gets is.
  if ml.is_tensor(value) then return value:detach():to(device):contiguous():clone() end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, item in pairs(value) do out[k] = on_device(item, device) end
  return out
end

local LATER = "told later: "

-- What kernels found wrong with values is told at the next wait, by the name of the op inside. It
-- may be that of a call that failed for another reason then: the CPU stops at the first.
local function told_later(ok, got)
  local fine, message = pcall(ml.cuda.synchronize)
  if fine then message = tostring(got) end
  if not message:find "an earlier op on cuda:0 failed: " then return ok, got end
  return false, (message:gsub("^.-an earlier op on cuda:0 failed: ", LATER)
    :gsub("; with MOONLET_CUDA_SYNC=1 .*$", ""))
end

-- Whether two errors say the same: what was told later may have another op's name.
local function same_message(want, got)
  if got:sub(1, #LATER) ~= LATER then return want == got end
  local said = want:gsub("^[^:]*:%d+: ", ""):gsub("^[^:]*: ", "")
  return said == got:sub(#LATER + 1):gsub("^[^:]*: ", "")
end

-- Results as text: shapes and dtypes, or the error without the device's name.
local function outcome(case, args, form, device)
  local there = { n = args.n }
  for i = 1, args.n do there[i] = on_device(args[i], device) end
  local ok, got = pcall(samples.results, case, there, form)
  if device == "cuda" then ok, got = told_later(ok, got) end
  if not ok then
    if tostring(got):find "out of memory" then return false, "out of memory" end
    return false, (tostring(got):gsub("cuda:0", "cpu"):gsub("on cuda", "on cpu"):gsub("CUDA", "CPU"))
  end
  local parts = {}
  for k, y in ipairs(got) do
    parts[k] = ml.is_tensor(y) and ("%s %s"):format(y.dtype, y.shape) or tostring(y)
  end
  return true, table.concat(parts, "; ")
end

local function describe(args)
  local parts = {}
  for i = 1, args.n do
    local v = args[i]
    parts[i] = ml.is_tensor(v) and ("%s %s"):format(v.dtype, v.shape)
      or type(v) == "table" and "{" .. table.concat(v, ", ", 1, math.type(v[1]) and #v or 0) .. "}" or tostring(v)
  end
  return table.concat(parts, ", ")
end

local function compare(case, args, form, failures)
  local fine, want = outcome(case, args, form, "cpu")
  local there, got = outcome(case, args, form, "cuda")
  if fine ~= there or not (fine and want == got or same_message(want, got)) then
    failures[#failures + 1] = ("%s%s(%s)\n    CPU:  %s\n    CUDA: %s"):format(case.name, form or "",
      describe(args), want, got)
  end
  return fine
end

local function replaced(args, i, value)
  if value == absent then value = nil end
  return op_variants.replaced(args, i, value)
end

local function next_int_of(seed)
  local state = seed
  return function(most)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % most + 1
  end
end

-- Every change of one argument, then some of two; returns how many calls were refused.
local function spoil(case, sample, form, failures)
  local args = samples.arguments(case, sample)
  local refused, options = 0, {}
  for i = 1, args.n do
    options[i] = variants(case, args, i)
    for _, value in ipairs(options[i]) do
      if not compare(case, replaced(args, i, value), form, failures) then refused = refused + 1 end
    end
  end
  local next_int = next_int_of(#case.name * 31 + sample)
  for _ = 1, args.n > 1 and 20 or 0 do
    local i, j = next_int(args.n), next_int(args.n)
    if i ~= j and #options[i] > 0 and #options[j] > 0 then
      local changed = replaced(args, i, options[i][next_int(#options[i])])
      compare(case, replaced(changed, j, options[j][next_int(#options[j])]), form, failures)
    end
  end
  return refused
end

for _, case in ipairs(cases) do
  if not case.cpu_only and #case.samples > 0 and #case.args > 0 then
    harness.test(case.name, function()
      if not ml.cuda.is_available() then harness.skip "no CUDA device" end
      local failures, refused, most = {}, 0, 0
      for sample = 1, #case.samples do
        most = math.max(most, samples.arguments(case, sample).n)
        if case.plain then refused = refused + spoil(case, sample, nil, failures) end
        if case.inplace then refused = refused + spoil(case, sample, "_", failures) end
      end
      expect.truthy(#failures == 0, ("%d calls differ\n  %s"):format(#failures,
        table.concat(failures, "\n  ", 1, math.min(#failures, 5))))
      -- `fill` takes any tensor and any number.
      local takes_all = case.kind == "pointwise" or case.kind == "composite" or most == 1
        or table.concat(case.args, ",") == "Tensor,Scalar"
      expect.truthy(refused > 0 or takes_all,
        "no spoiled call was refused")
    end)
  end
end

harness.run()
