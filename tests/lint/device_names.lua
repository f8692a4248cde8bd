-- tests/lint/device_names.lua: outside of cuda/ C++ names CUDA in one registration and where a script
-- does: ml.cuda, x:cuda(), x.is_cuda, and devices as examples in errors.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

-- Code that may name it, as plain text by file. Each must be there, so that the list stays short.
local allowed = {
  ["tensor/runtime/registered_backends.cpp"] = { '{.name = "cuda", .title = "CUDA"' },
  ["interp/binding/module.cpp"] = { 'device_type_from_name("cuda")' },
  ["interp/binding/tensor/fields.cpp"] = { 'device_type_from_name("cuda")', '"is_cuda"' },
  ["interp/binding/tensor/sparse_rows.cpp"] = { 'device_type_from_name("cuda")', '"is_cuda"' },
  ["interp/binding/tensor/methods.cpp"] = { '{"cuda", "cuda(x,', '{"cuda", op_guard<l_cuda>}' },
  ["interp/binding/settings.cpp"] = { [[such as \"cuda:0\"]] },
  ["interp/binding/arg_reader.cpp"] = { [[\"cpu\" or \"cuda:0\"]] },
  ["interp/state/nearest.cpp"] = { [[\"cpu\" or \"cuda:0\"]] },
  ["interp/binding/device/device_graphs.cpp"] = { '"CUDAGraph"' },
  ["interp/binding/device/streams.cpp"] = { '"ml.cuda."', "a stream of ml.cuda is expected",
    '"cuda_stream"' },
  -- The numbers of DLPack.
  ["interp/c/dlpack.h"] = { "kDLCUDA = 2", "kDLCUDAHost = 3", "kDLCUDAManaged = 13" },
  ["interp/c/dlpack.cpp"] = { 'find_device_type("cuda") == device.type', "return {kDLCUDA, device.index}",
    "case kDLCUDAHost:", "case kDLCUDA:", "case kDLCUDAManaged:", [["cuda:", device.device_id]],
    "memory of the CPU or of a CUDA device" },
}

local problems, seen = {}, 0
local used = {}

local function without_allowed(path, line)
  for _, text in ipairs(allowed[path] or {}) do
    local from, to = line:find(text, 1, true)
    while from do
      used[path .. text] = true
      line = line:sub(1, from - 1) .. line:sub(to + 1)
      from, to = line:find(text, 1, true)
    end
  end
  return line
end

-- Whether code names it as a word or a part of a name; __CUDACC__ and its kind tell compilers apart.
local function names_cuda(line)
  line = line:gsub("//.*$", "")
  for word in line:gmatch "[%w_]+" do
    local lower = word:lower()
    if lower:find "cuda" and not word:find "^__CUDA" and word ~= "MOONLET_CUDA_EMULATED" and word ~= "l_cuda"
      and word ~= "IsCuda" then
      return true
    end
  end
  return false
end

for _, path in ipairs(files.list(root)) do
  local folder = path:match "^(%a+)/"
  local own = folder == "tensor" or folder == "autograd" or folder == "interp"
  local text = own and (path:find "%.cpp$" or path:find "%.h$") and files.read(root, path)
  if text then
    seen = seen + 1
    text = text:gsub("/%*.-%*/", function(comment) return comment:gsub("[^\n]", "") end)
    local number = 0
    for line in (text .. "\n"):gmatch "(.-)\n" do
      number = number + 1
      if names_cuda(without_allowed(path, line)) then
        problems[#problems + 1] = ("%s:%d: names CUDA; ask the backend what it has (tensor/runtime/backend.h)")
          :format(path, number)
      end
    end
  end
end
for path, texts in pairs(allowed) do
  for _, text in ipairs(texts) do
    if not used[path .. text] then problems[#problems + 1] = ("%s: has no %s, which is allowed"):format(path, text) end
  end
end
if seen < 500 then problems[#problems + 1] = ("only %d files were found"):format(seen) end
print(seen .. " files")
files.finish("device names", problems)
