-- interp/package/public_headers.lua: installs the headers that hosts include, and all that these
-- include, to FOLDER/moonlet. In the source tree headers name each other from its root; installed
-- ones say <moonlet/...>, so they need no more than FOLDER on a host's include path, and files of
-- the host with such names, as its own `tensor/core/tensor.h`, are not taken for them.
-- usage: public_headers.lua SOURCE_FOLDER BUILD_FOLDER FOLDER; as a step of an installation, FOLDER
-- is under the prefix that Meson names.

local source, build, folder = arg[1], arg[2], arg[3]
local prefix = os.getenv "MESON_INSTALL_DESTDIR_PREFIX"
if prefix and folder:sub(1, 1) ~= "/" then folder = prefix .. "/" .. folder end

local roots = { "autograd/custom_function.h", "interp/embed/func.h", "interp/embed/moonlet.h",
  "interp/embed/class.h", "interp/embed/coroutine.h", "interp/embed/io.h",
  "interp/embed/lua_api.h", "interp/embed/ops.h", "tensor/core/boxing.h", "tensor/core/op_info.h",
  "tensor/core/typed_storage.h", "tensor/program/program.h", "tensor/runtime/modes.h",
  "tensor/runtime/streams.h" }

local function read(path)
  for _, root in ipairs { source, build } do
    local file = io.open(root .. "/" .. path, "rb")
    if file then
      local text = file:read "a"
      file:close()
      return text
    end
  end
  error("no header " .. path)
end

-- The path below include/ of a header of the source or build tree. Hosts need not know which room
-- of tensor/ a header is in.
local function public_name(path)
  if path == "interp/embed/lua_api.h" then return "moonlet/lua.h" end
  return "moonlet/" .. path:gsub("^interp/embed/", ""):gsub("^interp/", "")
    :gsub("^tensor/program/program%.h$", "program.h")
    :gsub("^tensor/core/", "tensor/"):gsub("^tensor/runtime/", "tensor/")
    :gsub("^tensor/functors/", "tensor/")
end

local texts = {}
local function take(path)
  if texts[path] then return end
  texts[path] = true  -- headers are no tree
  texts[path] = read(path):gsub('#include "([^"]+)"', function(name)
    take(name)
    return "#include <" .. public_name(name) .. ">"
  end)
end
for _, path in ipairs(roots) do take(path) end

local made = {}
for path, text in pairs(texts) do
  local target = folder .. "/" .. public_name(path)
  local parent = target:match "^(.*)/"
  if not made[parent] then assert(os.execute(("mkdir -p '%s'"):format(parent))) end
  made[parent] = true
  local file = assert(io.open(target, "wb"))
  assert(file:write(text))
  assert(file:close())
end
