-- scripts/gpu_check/large.lua: tensors of more than 2^31 elements, whose positions pass 32 bits.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local check = common.check

local count = (1 << 31) + 12345
if common.emulated then count = 70001 end
local free = ml.cuda.mem_get_info()
if free < 6 * count then common.skip(("%d bytes free, %d expected"):format(free, 6 * count)) end

local x = ml.zeros(count, { dtype = "uint8", device = "cuda" })
x[count], x[count - 7], x[3] = 5, 2, 1
check(x:sum():item() == 8, "sum: %s", x:sum():item())
check(x:argmax():item() == count, "argmax: %s", x:argmax():item())
local y = x + 1
check(y[count]:item() == 6 and y[4]:item() == 1, "add: %s", y[count]:item())
check(y:ne(1):sum():item() == 3, "ne: %s", y:ne(1):sum():item())
check(x:to "cpu"[count]:item() == 5, "copy to the host")
local rows = x[{ { 1, count // 3 * 3 } }]:view(3, -1):t()
check(rows:contiguous():sum():item() == rows:sum():item(), "transposed copy")
common.result("elements", count)
