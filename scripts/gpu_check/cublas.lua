-- scripts/gpu_check/cublas.lua: the products of speed.lua by cuBLAS itself, in a program of its
-- own.
-- usage: moonlet cublas.lua PROGRAM, that of tests/bench/cublas_direct.cpp

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"

-- The folder of the cuBLAS that this process uses, which the loader may not find by itself.
local function cublas_folder()
  ml.ones(2, 2, { device = "cuda" }):mm(ml.ones(2, 2, { device = "cuda" }))
  for line in io.lines "/proc/self/maps" do
    local folder = line:match "(/.*)/libcublas%.so"
    if folder then return folder end
  end
end

local folder = cublas_folder()
local words = { ("'%s'"):format(assert(arg[1], "the program")), common.emulated and 1 or 10,
  common.emulated and 1 or 5 }
if folder then
  table.insert(words, 1, ("LD_LIBRARY_PATH='%s':\"$LD_LIBRARY_PATH\""):format(folder))
end
for _, p in ipairs(common.products()) do
  table.move({ p.dtype, p.m, p.n, p.k }, 1, 4, #words + 1, words)
end
local _, _, status = os.execute(table.concat(words, " "))
os.exit(status, true)
