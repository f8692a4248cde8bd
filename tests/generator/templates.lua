-- tests/generator/templates.lua: what the emitters' templates make of values and of long lines.
-- usage: lua templates.lua ROOT

package.path = arg[1] .. "/?.lua;" .. package.path
local template = require "tensor.ops.gen.template"

local failures = 0
local function expect(got, wanted)
  if got == wanted then return end
  failures = failures + 1
  print(("got:\n%s\nwanted:\n%s"):format(got, wanted))
end

local text = [[
int $name_out($arguments) {
  $none
  $lines

  return "$name";
}
]]
local values = { name = "add", arguments = "int x", lines = { "if (x) {", "  f(100%);\n\n  g();", "}" } }
expect(template.fill(text, values), [[
int add_out(int x) {
  if (x) {
    f(100%);

    g();
  }

  return "add";
}]])
expect(select(2, pcall(template.fill, "a $missing b", {})), "template: no value for $missing in:\na $missing b")

-- Broken after the last comma that fits, and never within a string where there is a position outside.
local long = "  f(" .. ('"one, two", '):rep(12) .. "x);"
local short = template.short_lines(long)
expect((short:gsub("\n      ", " ")), long)
for line in short:gmatch "[^\n]+" do
  if #line > 100 then expect(line, "at most 100 columns") end
  expect(select(2, line:gsub('"', "")) % 2, 0)
end

-- A string longer than a line is closed and opened again.
local sentence = ("word, "):rep(40) .. "end"
short = template.short_lines(('  s = "%s";'):format(sentence))
local joined = {}
for part in short:gmatch '"([^"]*)"' do joined[#joined + 1] = part end
expect(table.concat(joined), sentence)

-- Directives and comments are left alone, as are lines that fit.
for _, line in ipairs { "#define X " .. ("a, "):rep(50), "// " .. ("a, "):rep(50), "f(a, b);" } do
  expect(template.short_lines(line), line)
end

print(("templates: %d failures"):format(failures))
os.exit(failures == 0 and 0 or 1)
