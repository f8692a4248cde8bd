-- tests/platforms/aarch64_left_out.lua: tests that cannot run where qemu runs programs for aarch64 on
-- another processor, with the reasons, by files and names.

local NO_NVCC = "nvcc is for the machine that builds"

return {
  ["ext/ext"] = {
    ["sources for CUDA are compiled by nvcc"] = NO_NVCC,
    ["its loops for CUDA compile, beside those for the CPU"] = NO_NVCC,
    ["the cell of scripts/extension_lltm computes what its twin in Lua does"] =
      "a compiler for another processor has no -march=native",
  },
  ["interp/repl"] = {
    ["Tab: names inside the strings of commands"] = "qemu shows the folder of libraries as the root",
  },
}
