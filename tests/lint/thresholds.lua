-- tests/lint/thresholds.lua: the numbers by which CPU kernels decide are rows of
-- tensor/cpu/common/thresholds.h, each with what is known of it, and each is used. A number that is none,
-- as it follows from a layout, a library, a type or mathematics, is named here.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local TABLE = "tensor/cpu/common/thresholds.h"

-- Names by file, without the path of the folder of all kernels.
local NO_THRESHOLDS = {
  ["common/abandonable.cpp"] = "kLook",                 -- how often a thread asks
  ["common/columns.h"] = "kSlack",                      -- what OpenBLAS reads behind the end
  ["common/dense_copy.h"] = "kPage",                    -- the hardware's
  ["common/prepared_operands.h"] = "kMostBytes",        -- what a program may hold
  ["conv/conv.h"] = "kAxes",
  ["conv/conv_parts.cpp"] = "kVector",                  -- what libraries pad channels to
  ["copy/copy.cpp"] = "kLine",                          -- a cache line
  ["fft/fft.h"] = "kRows",                              -- the layout of a batch
  ["fft/fft_plan.cpp"] = "kPi",
  ["fft/fft_simd.cpp"] = "kRadix",
  ["gemm/blas_call.cpp"] = "kBuffer",                   -- what OpenBLAS takes
  ["gemm/gemm_onednn.cpp"] = "kSize",                   -- of a first product that is thrown away
  ["image/image_grid.h"] = "kMostGridTaps kMostGridDims",
  ["image/image_grid_simd.cpp"] = "kFar",               -- beyond every neighbour
  ["image/image_sample.cpp"] = "kBefore kAround",
  ["index/gather.cpp"] = "kLine",                       -- a cache line
  ["linalg/linalg_distance.h"] = "kPointVectors",       -- what points are padded to
  ["nn/nn_attention_rows.h"] = "kScoreLanes",           -- what rows are padded to
  ["nn/recurrent.cpp"] = "kMost",                       -- the operands of a step
  ["pool/pool_fractional.cpp"] = "kAxes",
  ["random/random.h"] = "kBatch",                       -- lanes of a generator
  ["reduce/reduce_arg.cpp"] = "kRows",                  -- what 32 bits hold
  ["reduce/reduce_extremes.cpp"] = "kNumber",           -- bits of a number
  ["reduce/reduce_loops.h"] = "kLanes",                 -- accumulators side by side
  ["simd/simd_exp-inl.h"] = "kLn2 kLog2e",
  ["simd/simd_pow-inl.h"] = "kTerms",                   -- of a series
  ["simd/simd_trig-inl.h"] = "kHalfPi",
}

local problems, rows, used, left_out = {}, {}, {}, {}
local function problem(...) problems[#problems + 1] = string.format(...) end

-- Calls f(name, value) for what a line declares as constants.
local function each_constant(line, f)
  local list = line:match "constexpr%s+[%w_:]+%s+(k%u[^;]*)"
  for name, value in (list or ""):gmatch "(k%u%w*)%s*=%s*([^,;]*)" do f(name, value) end
end

local function is_number(value)
  value = value:gsub("int64_t", ""):gsub("size_t", "")
  return value:find "%d" ~= nil and not value:find "%f[%w_][%a_]"
end

local function read_table()
  local comment, family = "", nil
  for line in assert(files.read(root, TABLE)):gmatch "([^\n]*)\n" do
    family = line:match "^namespace (%w+) {" or not line:find "^}  // namespace %w+$" and family or nil
    if line:find "^//" then comment = comment .. line:sub(3)
    else
      each_constant(line, function(name)
        rows[(family and family .. "::" or "") .. name] = true
        if not comment:find "Not measured%.$" and not comment:find "Known: .+%.$" then
          problem("%s: %s does not say what is known of it", TABLE, name)
        end
      end)
      comment = ""
    end
  end
end

local function read_source(path)
  local short, text = path:match "^tensor/cpu/(.*)$", files.read(root, path):gsub("//[^\n]*", "")
  local allowed = " " .. (NO_THRESHOLDS[short] or "") .. " "
  for statement in text:gsub("\n", " "):gmatch "constexpr[^;]*;" do
    each_constant(statement, function(name, value)
      if not is_number(value) then return end
      if allowed:find(" " .. name .. " ", 1, true) then left_out[short .. " " .. name] = true
      else problem("%s: %s is a number, so it is a row of %s", path, name, TABLE) end
    end)
  end
  for name in text:gmatch "thresholds::([%w_:]+)" do used[name] = true end
  for alias, family in text:gmatch "namespace (%w+) = thresholds::(%w+);" do
    for name in text:gmatch(alias .. "::(k%w+)") do used[family .. "::" .. name] = true end
  end
end

read_table()
for _, path in ipairs(files.list(root)) do
  if path:find "^tensor/cpu/" and files.is_source(path) and path ~= TABLE then read_source(path) end
end
for name in pairs(rows) do
  if not used[name] and name ~= "kGrain" then problem("%s: nothing uses %s", TABLE, name) end
end
for path, names in pairs(NO_THRESHOLDS) do
  for name in names:gmatch "%S+" do
    if not left_out[path .. " " .. name] then problem("tensor/cpu/%s has no number %s", path, name) end
  end
end
files.finish("thresholds", problems)
