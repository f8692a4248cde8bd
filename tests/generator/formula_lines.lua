-- tests/generator/formula_lines.lua: the generated tape says for every formula the line of the row's
-- file where it is written, and after it its own position.
-- usage: lua formula_lines.lua ROOT FAMILY,FAMILY,...

local root = arg[1]
package.path = root .. "/?.lua;" .. package.path
local emit_tape = require "tensor.ops.gen.emit_tape"
local parse = require "tensor.ops.gen.parse"

local families = {}
for family in arg[2]:gmatch "[^,]+" do families[#families + 1] = family end
local rows = parse.rows(root, families)

local failures, formulas, named, exact = 0, 0, 0, 0
local function problem(...)
  failures = failures + 1
  print(string.format(...))
end

local function lines_of(text)
  local out = {}
  for line in text:gmatch "([^\n]*)\n" do out[#out + 1] = line end
  return out
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- The first name of a formula: what a compiler that misses it names first.
local function first_name(statement)
  return statement:match "= ([%a_][%w_]*)%(" or statement:match "give_list%(%d+, ([%a_][%w_]*)%("
end

for _, family in ipairs(families) do
  local source = lines_of(read(("%s/tensor/ops/%s.lua"):format(root, family)))
  local emitted = lines_of(emit_tape(parse.family(rows, family), family, rows))
  for i, line in ipairs(emitted) do
    local number, path = line:match '^#line (%d+) "(.*)"$'
    if line:find "^#line" and not number then
      problem("%s: cannot read %s", family, line)
    elseif number and path:find "%.cpp$" then
      if tonumber(number) ~= i + 1 then problem("%s:%d: says that it is line %s", path, i + 1, number) end
    elseif number then
      formulas = formulas + 1
      local name, there = first_name(emitted[i + 1]), source[tonumber(number)]
      if not there then problem("%s:%s: there is no such line", path, number) end
      if name and name ~= "zeros_like" then
      named = named + 1
        if there and there:find(name, 1, true) then exact = exact + 1 end
      end
    end
  end
end

-- The rest are formulas that their file puts together.
if exact < 0.95 * named then problem("only %d of %d formulas are at their lines", exact, named) end
if named < 100 then problem("only %d formulas found", named) end
print(("%d formulas, %d of %d at their lines, %d failures"):format(formulas, exact, named, failures))
os.exit(failures == 0 and 0 or 1)
