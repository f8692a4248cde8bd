-- cuda/gen/device_headers.lua: writes a C++ file with the texts of the headers that sources of loops
-- include, and of those that they include, by their names: NVRTC finds no files.
-- usage: lua device_headers.lua ROOT OUTPUT DEPFILE HEADER...

local root, output, depfile = arg[1], arg[2], arg[3]

local texts, order = {}, {}

local function add(name)
  if texts[name] then return end
  local file = assert(io.open(root .. "/" .. name))
  local text = file:read "a"
  file:close()
  -- Lines that are comments say nothing to a compiler.
  text = ("\n" .. text):gsub("\n[ \t]*//[^\n]*", "\n"):gsub("\n\n+", "\n"):sub(2)
  texts[name] = text
  order[#order + 1] = name
  for included in text:gmatch '#include "([^"]+)"' do add(included) end
end
for i = 4, #arg do add(arg[i]) end
table.sort(order)

local out = {
  "// Generated: the headers that sources of loops include.",
  '#include "cuda/loops/device_headers.h"',
  "",
  "namespace moonlet::cuda::loops {",
  "const DeviceHeader kDeviceHeaders[] = {",
}
for _, name in ipairs(order) do out[#out + 1] = ('    {"%s", R"moonlet(%s)moonlet"},'):format(name, texts[name]) end
out[#out + 1] = "};"
out[#out + 1] = ("const int kDeviceHeaderCount = %d;"):format(#order)
out[#out + 1] = "}  // namespace moonlet::cuda::loops\n"

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end
write(output, table.concat(out, "\n"))
local paths = {}
for i, name in ipairs(order) do paths[i] = root .. "/" .. name end
write(depfile, output .. ": " .. table.concat(paths, " ") .. "\n")
