-- luacheck settings: plain Lua 5.4, lines as long as the style allows.
std = "lua54"
max_line_length = 100
self = false
exclude_files = { "build*/**", "subprojects/**" }
-- Op rows and build-time specs are data files written with a few words of their own.
files["tensor/ops/*.lua"] = { globals = { "op" }, max_line_length = false }
