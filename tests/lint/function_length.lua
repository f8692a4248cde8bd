-- tests/lint/function_length.lua: no function in C++, CUDA or Lua passes 60 lines.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local functions = require "functions"
local root = arg[1]

local kMax = 60
local problems = {}

-- Adds the functions of a source that are too long to the problems; returns the number of all.
local function check(path, text)
  local ok, found = pcall(path:find "%.lua$" and functions.lua or functions.cpp, text)
  if not ok then
    problems[#problems + 1] = ("%s: not understood: %s"):format(path, found)
    return 0
  end
  for _, f in ipairs(found) do
    local lines = f.last - f.first + 1
    if lines > kMax then
      problems[#problems + 1] = ("%s:%d: %s has %d lines, more than %d"):format(path, f.first, f.name, lines, kMax)
    end
  end
  return #found
end

-- The readers themselves: of each sample, with one line of body too many, just this must come.
local samples = {
  ["a.lua"] = { "-- end [[\nlocal s = [[ end\n]]\nlocal function f()\n", "  local t = {'if \\' do'}\n", "end\n",
    "a.lua:4: f has 61 lines, more than 60" },
  ["b.cpp"] = { "#define F {\nstruct S {\n  S(int n)  // {\n      : a{n}, b(g({1})) {\n", "    t(1'0, '{', R\"({)\");\n",
    "  }\n};\n", "b.cpp:3: S has 62 lines, more than 60" },
  ["c.cu"] = { "namespace m {\nBEFORE(x)\n\ntemplate <class T>\n__global__ void f() {\n", "  if (x) { y(); }\n",
    "}\nstruct T { int x; };\n}\n", "c.cu:4: f has 62 lines, more than 60" },
}
for path, sample in pairs(samples) do
  check(path, sample[1] .. sample[2]:rep(kMax - 1) .. sample[3])
  local got = table.remove(problems)
  assert(got == sample[4], ("of %s came: %s"):format(path, got))
  assert(check(path, sample[1] .. sample[2]:rep(kMax - 3) .. sample[3]) == 1 and #problems == 0, path)
end

local seen = 0
for _, path in ipairs(files.list(root)) do
  local text = files.is_source(path) and files.read(root, path)
  if text then seen = seen + check(path, text) end
end
print(("%d functions"):format(seen))
if seen == 0 then problems[1] = "no functions found in " .. root end
files.finish("function length", problems)
