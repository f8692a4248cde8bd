-- stdlib/torch7/ffi.lua: LuaJIT's module ffi as far as Torch7's packages get without it:
-- declarations
-- are taken in, and no library can be loaded, which packages test for.

local separators = require "moonlet.files.separators"

local ffi = { os = separators.on_windows and "Windows" or "Linux", C = {} }

function ffi.cdef(text)
  if type(text) ~= "string" then error("cdef: declarations are expected as a string", 2) end
end

function ffi.load(name)
  error(("ffi.load: no library can be loaded, not %s: there is no ffi in this Lua"):format(
    tostring(name)), 2)
end

--- nn's RReLU reads torch's generator through a pointer to a pointer; its functions here draw from
--- the generator by themselves.
function ffi.typeof()
  return function(value) return { [0] = value } end
end

return ffi
