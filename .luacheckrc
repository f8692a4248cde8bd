-- luacheck settings: plain Lua 5.4, lines as long as the style allows.
std = "lua54"
max_line_length = 100
self = false
exclude_files = { "build*/**", "subprojects/**" }
-- Op rows and build-time specs are data files written with a few words of their own.
files["tensor/ops/*.lua"] = { globals = { "op" }, max_line_length = false }
files["tensor/ops/text/*.lua"] = { max_line_length = false }
-- Descriptions for editors: their functions do nothing, and a field's text is one line.
files["interp/meta/*.lua"] = { ignore = { "211", "212", "241" }, max_line_length = false }
-- A template of C++ or a row of a test reads better whole.
for _, pattern in ipairs { "**/gen/*.lua", "tests/**/*.lua" } do
  files[pattern] = { max_line_length = 125 }
end
-- A snippet and what must come of it, on one line where they fit.
files["tests/hostile/*.lua"] = { max_line_length = 160 }
-- The runner hands its arguments on by setting `arg`; NaN makes `not (x <= y)` more than `x > y`.
files["tests/lua/**/*.lua"] = { globals = { "arg" }, ignore = { "581" }, max_line_length = 125 }
