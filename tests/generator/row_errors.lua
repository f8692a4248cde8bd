-- tests/generator/row_errors.lua: what is wrong in a row is said with the file and the line of the row.
-- usage: lua row_errors.lua ROOT

local root = arg[1]
package.path = root .. "/?.lua;" .. package.path
local parse = require "tensor.ops.gen.parse"

local folder = os.tmpname()
os.remove(folder)
assert(os.execute(("mkdir -p '%s/tensor/ops'"):format(folder)))

local function read_rows(text)
  local file = assert(io.open(folder .. "/tensor/ops/family.lua", "wb"))
  file:write(text)
  file:close()
  return pcall(parse.rows, folder, { "family" })
end

local failures = 0
local function expect(got, wanted)
  got = tostring(got):gsub("^" .. folder:gsub("%p", "%%%0") .. "/", "")
  if got ~= wanted then
    failures = failures + 1
    print(("got    %s\nwanted %s"):format(got, wanted))
  end
end

-- A row whose signature or fields are these, from line 3 of its file.
local function row(signature, fields)
  return ('-- A comment.\n\nop { "%s",\n     doc = "A text.", %s }\n'):format(signature, fields or 'kind = "view"')
end

local plain = "same(Tensor x) -> Tensor"
for _, case in ipairs {
  { row("same(Tensor x)"), "op same: cannot read signature 'same(Tensor x)'" },
  { row("same(Tensr x) -> Tensor"), "op same: unknown argument type 'Tensr'" },
  { row("same(Tensor) -> Tensor"), "op same: cannot read argument 'Tensor'" },
  { row("same(Tensor x, int x) -> Tensor"), "op same: two arguments are called 'x'" },
  { row("same(Tensor x, int! n) -> Tensor"), "op same: argument 'n' is marked as written, but is no tensor" },
  { row(plain, 'kind = "view", differentiable = false'),
    "op same: 'differentiable = false' is for a composite without 'grad'" },
  { row("same(Tensor x) -> Dim"), "op same: unknown result type 'Dim'" },
  { row("same(Tensor x) -> (Tensor)"), "op same: cannot read result 'Tensor'" },
  { row(plain, 'kind = "viw"'), "op same: unknown kind 'viw'" },
  { row(plain, 'kind = "view", grads = {}'), "op same: unknown field 'grads'" },
  { row(plain, 'kind = "view", grad = { z = "g" }'), "op same: gradient for 'z', which is no argument" },
  { row(plain, 'kind = "view", dtypes = "floatng"'), "op same: unknown set of dtypes 'floatng'" },
  { row(plain, 'kind = "view", constant = { "z" }'), "op same: constant for 'z', which is no argument" },
  { row(plain, 'kind = "structured", steady = "z"'), "op same: steady for 'z', which is no argument" },
  { row(plain, 'kind = "view", steady = "x"'),
    "op same: 'steady' is for ops with a kernel of their own that write to no lists" },
  { row(plain, 'kind = "view", nodiff = { "z" }'), "op same: nodiff for 'z', which is no result" },
  { row(plain, 'kind = "view", autocast = "low"'), "op same: unknown autocast policy 'low'" },
  { row(plain, 'kind = "view", overload_of = "none"'), "op same: overload of 'none', which is no op" },
  { row(plain, 'kind = "view", random = true'), "op same: 'draws' and 'random' go together for an op with a kernel" },
  { row(plain, 'kind = "pointwise", slow = true'), "op same: 'slow' is for pointwise ops of floating dtypes" },
  { row(plain, 'kind = "view", args = { z = "one" }'), "op same: a text for 'z', which is no argument" },
  { row(plain, 'kind = "view", args = { x = 1 }'), "op same: the text of argument 'x' is no string" },
  { row(plain, 'kind = "view", shapes = {}'), "op same: 'shapes' is no string" },
  { row(plain, 'kind = "view", gives = "1"'), "op same: 'gives' without an 'example'" },
  { row(plain, 'kind = "pointwise", exception = "row_minor"'),
    "op same: unknown exception 'row_minor' of a pointwise op" },
  { row(plain, 'kind = "view", exception = "row_major"'),
    "op same: unknown exception 'row_major' of a view op" },
  { row(plain, 'kind = "update"'), "op same: an update writes its first argument, so it is a 'Tensor!'" },
  { '\n\nop { kind = "view" }', "a row without a signature" },
  { '\n\nop "same"', "a row without a signature" },
} do
  local ok, got = read_rows(case[1])
  expect(ok and "no error" or got, "tensor/ops/family.lua:3: " .. case[2])
end

-- Rows that a function of the file makes stand where it is called; a formula where it is written.
local _, rows = read_rows [[
local function view(name, formula)
  op { name .. "(Tensor x) -> Tensor", kind = "view", doc = "A text.", grad = { x = formula } }
end
view("first", "g")
view("second",
  "neg(g)")
]]
expect(("%s:%d"):format(rows[1].path, rows[1].line), "tensor/ops/family.lua:4")
expect(("%s:%d"):format(rows[2].path, rows[2].line), "tensor/ops/family.lua:5")
expect(rows[2].grads[1].line, "6")

-- A signature may be broken over lines.
_, rows = read_rows [==[
op { [[long(Tensor x,
         int[2] stride={1, 1},
         int n=0) -> Tensor]],
     kind = "view", doc = "A text." }
]==]
expect(rows[1].args[2].default, "{1, 1}")
expect(rows[1].args[3].name, "n")

local _, twice = read_rows(row(plain) .. row(plain))
expect(twice:gsub(folder:gsub("%p", "%%%0") .. "/", ""),
  "tensor/ops/family.lua:7: op same: has a row at tensor/ops/family.lua:3 already")
local _, syntax = read_rows "\n\nop { 'same', }}"
expect(syntax:gsub(folder:gsub("%p", "%%%0") .. "/", ""), "tensor/ops/family.lua:3: unexpected symbol near '}'")

os.execute(("rm -r '%s'"):format(folder))
print(("row errors: %d failures"):format(failures))
os.exit(failures == 0 and 0 or 1)
