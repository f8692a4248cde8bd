-- scripts/gpu_check/large.lua: tensors of more than 2^31 elements, whose positions pass 32 bits, in
-- as many dtypes as there is memory for.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local check = common.check

local count = common.emulated and 70002 or (1 << 31) + 12346
local BYTES = { uint8 = 1, float16 = 2, bfloat16 = 2, float32 = 4, int64 = 8, float64 = 8 }

local function item(x) return x:item() + 0.0 end

-- What looks at elements one by one, and what walks along all.
local function elementwise(dtype, x)
  local y = x + 1
  check(item(y[count]) == 6 and item(y[4]) == 1, "%s add: %s", dtype, item(y[count]))
  check(y:ne(1):sum():item() == 3, "%s ne: %s", dtype, y:ne(1):sum():item())
  y:copy_(x)
  y:masked_fill_(x:eq(5), 3)
  check(item(y[count]) == 3 and item(y[3]) == 1, "%s masked_fill_: %s", dtype, item(y[count]))
  y:free()
end

local function reductions(dtype, x)
  check(item(x:sum()) == 8, "%s sum: %s", dtype, item(x:sum()))
  check(x:argmax():item() == count, "%s argmax: %s", dtype, x:argmax():item())
  check(item(x:max()) == 5, "%s max: %s", dtype, item(x:max()))
  local rows = x:view(2, -1)
  check(item(rows:sum(2)[2]) == 7 and item(rows:sum(2)[1]) == 1, "%s sum of rows", dtype)
  check(item(rows:sum(1)[-1]) == 5, "%s sum of columns: %s", dtype, item(rows:sum(1)[-1]))
end

local function positions(dtype, x)
  local at = ml.tensor({ count, 3, count - 7 }, { device = "cuda" })
  local got = x:index_select(1, at):to "cpu"
  check(item(got[1]) == 5 and item(got[2]) == 1 and item(got[3]) == 2, "%s index_select", dtype)
  check(item(x:gather(1, at)[1]) == 5, "%s gather", dtype)
  x:index_fill_(1, at:narrow(1, 3, 1), 4)
  check(item(x[count - 7]) == 4, "%s index_fill_: %s", dtype, item(x[count - 7]))
  local turned = x:view(2, -1):t():contiguous()
  check(item(turned[-1][2]) == 5 and item(turned[3][1]) == 1, "%s transposed copy", dtype)
end

-- Rows whose elements are all the same, of more than 2^31 elements together.
local function rowwise(dtype, x)
  local rows = x:narrow(1, 1, count // 1024 * 1024):view(-1, 1024)
  local y = rows:softmax(2)
  check(math.abs(item(y[-1][1]) * 1024 - 1) < 0.01, "%s softmax: %s", dtype, item(y[-1][1]))
  y:free()
  y = ml.layer_norm(rows, { 1024 })
  check(item(y[-1]:abs():max()) < 100, "%s layer norm", dtype)
  y:free()
  local groups = rows:view(2, 4, -1)
  y = ml.group_norm(groups, 4)
  local first = item(y[1][1][3])
  check(item(y[2]:abs():max()) == 0 and first > 50, "%s group norm: %s", dtype, first)
  y:free()
end

local ran = 0
for _, dtype in ipairs { "uint8", "bfloat16", "float16", "float32", "int64", "float64" } do
  collectgarbage()
  ml.cuda.empty_cache()
  local free, wanted = ml.cuda.mem_get_info(), 4 * BYTES[dtype] * count
  if free < wanted then
    common.result(dtype, ("left out: %d bytes free, %d wanted"):format(free, wanted))
  else
    local x = ml.zeros(count, { dtype = dtype, device = "cuda" })
    x[count], x[count - 7], x[3] = 5, 2, 1
    reductions(dtype, x)
    elementwise(dtype, x)
    positions(dtype, x)
    if dtype:find "float" and dtype ~= "float64" then rowwise(dtype, x) end
    if dtype == "uint8" then check(item(x:to "cpu"[count]) == 5, "copy to the host") end
    x:free()
    ran = ran + 1
    common.result(dtype, count, "elements")
  end
end
if ran == 0 then common.skip "too little memory for any dtype" end
