-- tests/abi/stubs.lua: writes C that defines each function of moonlet/c.h, so that its debug information
-- has the whole interface; and the constants of its enums, one a line.
-- usage: stubs.lua C_H OUTPUT CONSTANTS
local file = assert(io.open(arg[1]))
local header = file:read "a":gsub("/%*.-%*/", "")
file:close()
local out = { ('#include "%s"\n'):format(arg[1]) }
for declaration in header:gmatch "\nMOONLET_API ([^;]*);" do
  out[#out + 1] = declaration .. " { __builtin_trap(); }\n"
end
assert(#out > 50, "no functions were found")
file = assert(io.open(arg[2], "w"))
file:write(table.concat(out))
file:close()

file = assert(io.open(arg[3], "w"))
for constant in header:gmatch "MOONLET_[%u%d_]+ = %d+" do file:write(constant, "\n") end
file:close()
