-- tests/lint/families.lua: a family of ops has one name in every folder: what a row needs is
-- defined in a file named after the row's family, FAMILY.cpp or FAMILY_part.cpp.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

package.path = root .. "/?.lua;" .. package.path
local cpptext = require "tensor.ops.gen.cpptext"
local parse = require "tensor.ops.gen.parse"

local paths, families = files.list(root), {}
for _, path in ipairs(paths) do
  families[#families + 1] = path:match "^tensor/ops/([%w_]+)%.lua$"
end
local rows = parse.rows(root, families)

local problems = {}
local function problem(text, ...) problems[#problems + 1] = text:format(...) end

-- The functions that the files of a folder define outside unnamed namespaces: their files by name.
local function definitions(pattern)
  local out = {}
  for _, path in ipairs(paths) do
    local base = path:match(pattern)
    local text = base and files.read(root, path)
    if text then
      text = ("\n" .. text):gsub("\nnamespace {.-\n}  // namespace\n", "\n")
      for name in text:gmatch "\n[%a][%w_:<>,&* ]-[ &]([%a_][%w_]*)%([^;{}]*%) {" do
        out[name] = out[name] or {}
        table.insert(out[name], { path = path, base = base })
      end
    end
  end
  return out
end

-- The family that a file belongs to: the longest name that it is, or begins with.
local function family_of(base)
  local found = ""
  for _, family in ipairs(families) do
    local fits = base == family or base:sub(1, #family + 1) == family .. "_"
    if fits and #family > #found then found = family end
  end
  return found
end

local shapes = definitions "^tensor/shapes/([%w_]+)%.cpp$"
local kernels = { cpu = definitions "^tensor/cpu/[%w_/]*%f[%w_]([%w_]+)%.cpp$",
  cuda = definitions "^cuda/kernels/[%w_/]*%f[%w_]([%w_]+)%.cu$" }
local composites = definitions "^autograd/composite/([%w_]+)%.cpp$"
local formulas = definitions "^autograd/formulas/([%w_]+)%.cpp$"

local seen = 0
local function expect(found, what, name, family)
  if not found[name] then return problem("op family %s: no file defines the %s %s", family, what, name) end
  for _, position in ipairs(found[name]) do
    seen = seen + 1
    if family_of(position.base) ~= family then
      problem("%s: the %s %s of family %s: its file is named after the family", position.path, what, name, family)
    end
  end
end

local function expect_kernels(row)
  expect(shapes, "shape function", row.name, row.family)
  for device, found in pairs(kernels) do
    if device == "cpu" or not row.cpu_only then expect(found, device .. " kernel", row.name, row.family) end
  end
end

-- The families whose rows call each function of the formulas.
local callers = {}
local function note_formulas(row)
  for _, grad in ipairs(row.grads) do
    for name in grad.expression:gmatch "([%a_][%w_]*)%s*%(" do
      if formulas[name] then
        callers[name] = callers[name] or {}
        callers[name][row.family] = true
      end
    end
  end
end

-- What is generated of the optimisers' rows.
local generated = {}
for _, row in ipairs(require("tensor.functors.optimizers").rows) do
  generated[row.name .. "_step"], generated[row.name .. "_capturable_step"] = true, true
end

-- Pointwise kernels are generated and views have no folder of families.
for _, row in ipairs(rows) do
  if row.kind == "composite" then
    expect(composites, "composite", row.name .. "_composite", row.family)
  elseif cpptext.has_kernel(row) and row.kind ~= "pointwise" and not generated[row.name] then
    expect_kernels(row)
  end
  note_formulas(row)
end

-- What several families share is in common.cpp.
for name, of in pairs(callers) do
  if formulas[name][1].base ~= "common" then
    for family in pairs(of) do expect(formulas, "formula", name, family) end
  end
end

-- No other file stands beside those of the families.
for _, path in ipairs(paths) do
  local base = path:match "^autograd/composite/([%w_]+)%.cpp$" or path:match "^autograd/formulas/([%w_]+)%.cpp$"
  if base and base ~= "common" and family_of(base) == "" then problem("%s: no family has this name", path) end
end

if seen < 200 then problem("only %d functions of rows found", seen) end
table.sort(problems)
print(("%d functions of %d families"):format(seen, #families))
files.finish("families", problems)
