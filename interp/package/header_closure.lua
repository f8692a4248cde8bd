-- interp/package/header_closure.lua: the headers that hosts include, and all that these include.

-- What a host may include, by its path in the source tree.
local ROOTS = { "autograd/custom_function.h", "interp/c/c.h", "interp/c/dlpack.h",
  "interp/embed/bundle.h", "interp/embed/class.h", "interp/embed/coroutine.h",
  "interp/embed/extension/extension.h", "interp/embed/extension/native_op.h",
  "interp/embed/func.h", "interp/embed/io.h", "interp/embed/lua_api.h", "interp/embed/moonlet.h",
  "interp/embed/ops.h",
  "tensor/core/boxing.h", "tensor/core/op_info.h", "tensor/core/typed_storage.h",
  "tensor/program/program.h", "tensor/runtime/modes.h", "tensor/runtime/streams.h" }

local closure = { ROOTS = ROOTS }

local function read(folders, path)
  for _, root in ipairs(folders) do
    local file = io.open(root .. "/" .. path, "rb")
    if file then
      local text = file:read "a"
      file:close()
      return text
    end
  end
end

--- The texts of `roots` and of what they include, by their paths; `folders` are looked through in
--- their order. `rename`, where it is given, says what an include's path becomes. A header that is
--- not there is an error, or with `some` left out.
function closure.texts(folders, roots, rename, some)
  local texts = {}
  local function take(path)
    if texts[path] ~= nil then return end
    texts[path] = false  -- headers are no tree
    local text = read(folders, path)
    if not text and not some then error("no header " .. path) end
    texts[path] = text and text:gsub('#include "([^"]+)"', function(name)
      take(name)
      return rename and "#include <" .. rename(name) .. ">"
    end)
  end
  for _, path in ipairs(roots) do take(path) end
  return texts
end

return closure
