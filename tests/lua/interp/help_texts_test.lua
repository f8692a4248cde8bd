-- tests/lua/interp/help_texts_test.lua: that the text of every op, function, class and method is
-- whole: a summary, the meaning of each argument, shapes, and an example that prints what it says.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local source = os.getenv "MOONLET_SOURCE" or (arg[0]:match "^(.*)/" or ".") .. "/../../.."
package.path = source .. "/?.lua;" .. package.path
local ascii_math = require "interp.gen.ascii_math"
local doc_comments = require "interp.gen.doc_comments"
local index = require "moonlet.help.index"
local layout = require "moonlet.help.layout"
local missing_docs = require "interp.gen.missing_docs"
local run_examples = require "interp.gen.run_examples"
local test, expect = harness.test, harness.expect

test("no text lacks a summary, an argument's meaning, shapes or an example", function()
  local lacking, count = {}, 0
  for _, entry in ipairs(index.entries) do
    count = count + 1
    local lacks = missing_docs.of(entry, index.by_name)
    if #lacks > 0 then lacking[#lacking + 1] = entry.name .. ": " .. table.concat(lacks, ", ") end
  end
  if #lacking > 0 then error(table.concat(lacking, "\n"), 0) end
  expect.truthy(count > 2000, count)
end)

-- What the examples of an entry do wrong, or nil. Those of cuda and onnx need them.
local function problem_of(examples, entry)
  local need = entry.name:match "^(cuda)%." or entry.name:match "^(onnx)%."
  if need and not run_examples.runs_here("-- needs " .. need) then return nil end
  return run_examples.check(examples)
end

test("every example runs and prints its result", function()
  local failures, count = {}, 0
  for _, entry in ipairs(index.entries) do
    for _, form in ipairs { entry, table.unpack(entry.more or {}) } do
      if form.examples then
        count = count + 1
        local problem = problem_of(form.examples, entry)
        if problem then failures[#failures + 1] = entry.name .. ": " .. problem end
      end
    end
  end
  expect.truthy(count > 250, count)
  if #failures > 0 then error(table.concat(failures, "\n"), 0) end
end)

-- --- the checks themselves ---------------------------------------------------------------------

local function whole_entry()
  return { name = "f", kind = "function", calls = { "ml.f(x)" }, results = "Tensor",
    doc = "The sum of `x`.", params = { { name = "x", type = "Tensor", text = "the input" } },
    shapes = { "x (*) -> ()" }, examples = { { code = "1 + 1", gives = "2" } } }
end

local function lacks(change)
  local entry = whole_entry()
  change(entry)
  return table.concat(missing_docs.of(entry, {}), ", ")
end

test("what a text lacks is found", function()
  expect.equal(lacks(function() end), "")
  expect.equal(lacks(function(e) e.doc = "" end), "summary")
  expect.equal(lacks(function(e) e.params[1].text = "" end), "argument x")
  expect.equal(lacks(function(e) e.shapes = nil end), "shapes")
  expect.equal(lacks(function(e) e.examples[1].gives = nil end), "example with its result")
  expect.equal(lacks(function(e) e.examples = {} end), "example with its result")
  expect.equal(lacks(function(e) e.more = { { kind = "function", doc = "", params = {} } } end), "summary")
  expect.equal(lacks(function(e)
    e.kind, e.params[1] = "class", { name = "n", type = "integer", text = "the size" }
    e.parent, e.shapes = "nn.Module", nil
  end), "")
  local layer = whole_entry()
  layer.kind, layer.parent, layer.shapes = "class", "nn.Module", nil
  expect.equal(missing_docs.of(layer, { ["nn.Module"] = { name = "nn.Module" } })[1], "shapes")
end)

local function check(code, gives) return run_examples.check { { code = code, gives = gives } } end

test("a wrong result of an example is found", function()
  expect.equal(check("1 + 1", "2"), nil)
  expect.truthy(check("1 + 1", "3"))
  expect.truthy(check("1 + 1", nil))
  expect.truthy(check("y = 1", "1"))
  expect.truthy(check("nosuch.field", "1"):find("nosuch.field", 1, true))
  expect.equal(check("x = ml.tensor {1, 2}; x + 1", "{2, 3}\nTensor (2,) int64"), nil)
  expect.equal(check("x = {1; 2}\n#x", "2"), nil)
  expect.equal(check("print 'a'; 'b'", "a\nb"), nil)
  expect.equal(check("ml.tensor {1 / 3}", "{0.3334}\nTensor (1,) float32"), nil)
  expect.truthy(check("ml.tensor {1 / 3}", "{0.3433}\nTensor (1,) float32"))
  expect.truthy(check("ml.tensor {1 / 3}", "{0.3333}\nTensor (2,) float32"))
  expect.equal(check("os.time()  -- varies", nil), nil)
  expect.equal(run_examples.check { { code = "local y = 2" }, { code = "y", gives = "2" } }, nil)
  expect.truthy(check("y", "2"))
end)

-- --- formulas -----------------------------------------------------------------------------------

-- The words that a formula may use: arguments, sizes in shapes, and those of the field.
local function words_of(entry, form)
  local known = setmetatable({}, { __index = ascii_math.words })
  for _, each in ipairs { entry, form } do
    for _, param in ipairs(each.params or {}) do known[param.name] = true end
    for word in table.concat(each.shapes or {}, " "):gmatch "[%a_][%w_]*" do known[word] = true end
    for word in (each.results or ""):gmatch "[%a_][%w_]*" do known[word] = true end
  end
  return known
end

-- That each tag of MathML is closed in its order, and has as many parts as it must.
local function check_balanced(mathml)
  local PARTS = { mfrac = 2, msub = 2, msup = 2, munder = 2, mover = 2, msubsup = 3, munderover = 3 }
  local open = { {} }
  for slash, name in mathml:gmatch "<(/?)(%a+)[^>]*>" do
    if slash == "" then
      open[#open].parts = (open[#open].parts or 0) + 1
      open[#open + 1] = { name = name }
    else
      local last = table.remove(open)
      expect.equal(last.name, name)
      if PARTS[name] then expect.equal(last.parts, PARTS[name], mathml) end
    end
  end
  expect.equal(#open, 1)
end

test("every formula is mathematics whose symbols are known", function()
  local failures = {}
  for _, entry in ipairs(index.entries) do
    for _, form in ipairs { entry, table.unpack(entry.more or {}) } do
      if form.formula then
        local ok, problem = pcall(function()
          check_balanced(ascii_math.mathml(form.formula))
          local unknown = ascii_math.unknown(form.formula, words_of(entry, form))
          if #unknown > 0 then error("what is " .. table.concat(unknown, ", ") .. " in " .. form.formula, 0) end
        end)
        if not ok then failures[#failures + 1] = ("%s: %s"):format(entry.name, problem) end
      end
    end
  end
  if #failures > 0 then error(table.concat(failures, "\n"), 0) end
end)

-- The text that a formula shows, without what is only for its looks.
local function shown(formula)
  local mathml = ascii_math.mathml(formula)
  check_balanced(mathml)
  return (mathml:gsub("<m?s?pace[^>]*>", ""):gsub('<(/?)(%a+)[^>]*>', function(slash, name)
    local marks = { mfrac = "F", msub = "_", msup = "^", msubsup = "_^", munder = "u", munderover = "uo", msqrt = "R" }
    return marks[name] and (slash == "" and marks[name] .. "[" or "]") or ""
  end):gsub("&#8289;", ""):gsub("&#160;", " "))
end

test("formulas are set as they are meant", function()
  for formula, expected in pairs {
    ["y_i = exp(x_i) / sum_j exp(x_j)"] = "_[yi]=F[exp(_[xi])u[∑j]exp(_[xj])]",
    ["(a + b) / (2 c)"] = "F[a+b2c]",
    ["(a + b) (c) / d"] = "F[(a+b)(c)d]",
    ["x * 180 / pi"] = "F[x⋅180π]",
    ["1 / n sum_i x_i^2"] = "F[1n]u[∑i]_^[xi2]",
    ["sum_(k = 0)^inf 1 / k!"] = "uo[∑k=0∞]F[1k!]",
    ["h_(t-1) + W_ih alpha'"] = "_[ht−1]+_[Wih]α′",
    ["kernel_size loss_i log_2(x)"] = "kernel_size_[lossi]_[log2](x)",
    ["sqrt(abs(x)^2) floor(x)"] = "R[^[|x|2]]⌊x⌋",
    ["a |x| / ||x||_p"] = "F[a|x|_[‖x‖p]]",
    ["x if x >= 0, else y"] = "x if x≥0, else y",
    ["n! / prod_i x_i! prod_i p_i"] = "F[n!u[∏i]_[xi]!]u[∏i]_[pi]",
    ["gamma(x) gamma"] = "Γ(x)γ",
    ["p = 1 / (to - from)"] = "p=F[1to−from]",
    ["a -> b != -c"] = "a→b≠−c",
  } do
    expect.equal(shown(formula), expected, formula)
  end
end)

test("what is no formula is refused", function()
  for formula, problem in pairs { ["x +"] = "without its right side", ["(x"] = "'%)' expected", ["x)"] = "cannot stand here",
    ["x # y"] = "no symbol", ["x_"] = "a symbol expected", ["x / -y"] = "needs brackets", ["|x"] = "'|' expected" } do
    expect.error(function() ascii_math.mathml(formula) end, (problem:gsub("%%", "")))
  end
  local unknown = ascii_math.unknown("y = foo * bar(x) + sin(theta) / size\nbar = 1", { size = true })
  expect.equal(table.concat(unknown, " "), "foo")
end)

-- --- how comments are read ----------------------------------------------------------------------

test("the tags of a comment are read", function()
  local doc = doc_comments.parse {
    "--- The linear layer. It has a weight.",
    "---@param x moonlet.Tensor the input,",
    "---  which goes on",
    "---@param n? number of layers",
    "---@param k integer|string its kind",
    "---@param options.depth? integer how deep",
    "---@return moonlet.Tensor y the output",
    "---@shape x (*, n) -> (*, m)",
    "---@shape x (n) -> (m)",
    "---@formula y = x W^T",
    "---  + b",
    "---@error a shape that does not fit",
    "---@source Gauss, 1809",
  }
  expect.equal(doc.text, "The linear layer. It has a weight.")
  expect.equal(doc.params[1].text, "the input, which goes on")
  expect.equal(doc.params[1].type, "moonlet.Tensor")
  expect.equal(doc.params[2].text, "number of layers")
  expect.equal(doc.params[2].type, "any")
  expect.equal(doc.params[3].type, "integer|string")
  expect.equal(doc.params[4].name, "depth")
  expect.equal(doc.params[4].field_of, "options")
  expect.equal(doc.returns[1].text, "the output")
  expect.equal(table.concat(doc.shapes, ";"), "x (*, n) -> (*, m);x (n) -> (m)")
  expect.equal(doc.formulas[1], "y = x W^T + b")
  expect.equal(doc.errors[1], "a shape that does not fit")
  expect.equal(doc.sources[1], "Gauss, 1809")
end)

test("examples are read with what they print", function()
  local doc = doc_comments.parse {
    "--- Says so.", "--- > f(1,", "---   2)", "---   {{1,", "---     2}}", "---", "---   end",
    "--- > g()", "--- More.",
  }
  expect.equal(doc.text, "Says so.\nMore.")
  expect.equal(doc.examples[1].code, "f(1,\n2)")
  expect.equal(doc.examples[1].gives, "{{1,\n  2}}\n\nend")
  expect.equal(doc.examples[2].code, "g()")
  expect.equal(doc.examples[2].gives, nil)
end)

-- --- how help shows them ------------------------------------------------------------------------

test("help has a section for each part of a text", function()
  local entry = whole_entry()
  entry.doc = "The sum.\n\n" .. ("word "):rep(19) .. "\nlast words\n\n- an item"
  entry.params[2] = { name = "keepdim", type = "boolean", default = "false", text = "whether" }
  entry.formula, entry.errors, entry.source = "y = sum_i x_i", { "none" }, "Gauss, 1809"
  entry.examples[1].code = "f(1,\n2)"
  local words = ("word "):rep(18)
  expect.equal(layout.entry(entry), ([[
ml.f(x) -> Tensor

  The sum.

  %sword
  last words

  - an item

  Arguments:
    x        Tensor: the input
    keepdim  boolean: whether (default false)

  Shapes:
    x (*) -> ()

  Formula:
    y = sum_i x_i

  Errors:
    none

  Example:
    > f(1,
    >> 2)
    2

  Source: Gauss, 1809]]):format(words))
end)

test("no line of help is longer than a terminal", function()
  local LIMIT = 100
  for _, entry in ipairs(index.entries) do
    for line in layout.entry(entry):gmatch "[^\n]+" do
      local is_fixed = line:find "^    >" or line:find "^    [^ ]*$"
      expect.truthy(is_fixed or utf8.len(line) <= LIMIT, entry.name .. ": " .. line)
    end
  end
end)

harness.run()
