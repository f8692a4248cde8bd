-- tests/reference/write_onnx.lua: writes the cases of tests/lua/onnx_case.lua as ONNX files with inputs
-- and results, which check_onnx.py compares with onnxruntime.
-- usage: moonlet write_onnx.lua FOLDER [NAME]

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/../lua/?.lua;" .. package.path
local case = require "onnx_case"
local ml = require "moonlet"

local folder, only = arg[1], arg[2]
local names = {}

-- Positions count from 0 in the files.
local function from_zero(tensor, is_position) return is_position and tensor - 1 or tensor end

for _, one in ipairs(case.all()) do
  if not only or one.name == only then
    local path = ("%s/%s"):format(folder, one.name)
    case.export(one, path .. ".onnx")
    local zero = {}
    for _, i in ipairs(one.options.zero or {}) do zero[i] = true end
    for _, batch in ipairs(case.BATCHES) do
      local arrays = {}
      local inputs, results = case.run(one, batch)
      for i, tensor in ipairs(inputs) do
        arrays["in" .. i] = from_zero(tensor, one.options.ids and one.options.ids[i])
      end
      for i, tensor in ipairs(results) do
        arrays["out" .. i] = from_zero(tensor, zero[i]):contiguous()
      end
      ml.save(("%s_%d.npz"):format(path, batch), arrays)
    end
    names[#names + 1] = one.name
  end
end
local file <close> = assert(io.open(folder .. "/names.txt", "w"))
file:write(table.concat(names, "\n"), "\n")
