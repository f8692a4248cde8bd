-- interp/package/windows/c_functions.lua: writes the list of what libmoonlet.dll exports: the
-- functions of moonlet/c.h.
-- usage: c_functions.lua OUTPUT C_H
local file = assert(io.open(arg[2]))
local header = file:read "a":gsub("/%*.-%*/", "")
file:close()
local out = { "EXPORTS" }
for declaration in header:gmatch "\nMOONLET_API ([^;]*);" do
  out[#out + 1] = assert(declaration:match "([%w_]+)%s*%(", declaration)
end
assert(#out > 50, "no functions were found")
file = assert(io.open(arg[1], "w"))
file:write(table.concat(out, "\n"), "\n")
file:close()
