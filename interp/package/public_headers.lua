-- interp/package/public_headers.lua: installs the headers that hosts include, and all that these
-- include, to FOLDER/moonlet. In the source tree headers name each other from its root; installed
-- ones say <moonlet/...>, so they need no more than FOLDER on a host's include path, and files of
-- the host with such names, as its own `tensor/core/tensor.h`, are not taken for them.
-- usage: public_headers.lua SOURCE_FOLDER BUILD_FOLDER FOLDER [LIST DEPFILE]; as a step of an
-- installation, FOLDER is under the prefix that Meson names. LIST gets the names of the headers,
-- DEPFILE what they are made of. Files whose text stays the same are left alone.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local closure = require "header_closure"

local source, build, folder = arg[1], arg[2], arg[3]
local prefix = os.getenv "MESON_INSTALL_DESTDIR_PREFIX"
if prefix and folder:sub(1, 1) ~= "/" then folder = prefix .. "/" .. folder end

-- The path below include/ of a header of the source or build tree. Hosts need not know which room
-- of tensor/ a header is in.
local function public_name(path)
  if path == "interp/embed/lua_api.h" then return "moonlet/lua.h" end
  return "moonlet/" .. path:gsub("^interp/embed/extension/", ""):gsub("^interp/embed/", "")
    :gsub("^interp/c/", ""):gsub("^interp/", "")
    :gsub("^tensor/program/program%.h$", "program.h")
    :gsub("^tensor/core/", "tensor/"):gsub("^tensor/runtime/", "tensor/")
    :gsub("^tensor/functors/", "tensor/")
end

local function write(path, text)
  local before = io.open(path, "rb")
  local same = before and before:read "a" == text
  if before then before:close() end
  if same then return end
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

local made, names, sources = {}, {}, {}
for path, text in pairs(closure.texts({ source, build }, closure.ROOTS, public_name)) do
  names[#names + 1], sources[#sources + 1] = public_name(path), path
  local target = folder .. "/" .. public_name(path)
  local parent = target:match "^(.*)/"
  if not made[parent] then assert(os.execute(("mkdir -p '%s'"):format(parent))) end
  made[parent] = true
  write(target, text)
end

local list, depfile = arg[4], arg[5]
if list then
  table.sort(names)
  table.sort(sources)
  for i, path in ipairs(sources) do
    local own = source .. "/" .. path
    local file = io.open(own, "rb")
    if file then file:close() end
    sources[i] = file and own or build .. "/" .. path
  end
  write(list, table.concat(names, "\n") .. "\n")
  write(depfile, list .. ": " .. table.concat(sources, " ") .. "\n")
end
