-- tests/lua/files/onnx_graph_test.lua: what ONNX files are made of beside ops: sizes left open, graphs in nodes,
-- sequences, strings, functions, opsets, metadata, and what reading takes. Needs no library of ONNX.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local w = require "onnx_writer"
local test, expect = harness.test, harness.expect
local FLOAT, INT64, BOOL = w.FLOAT, w.INT64, w.BOOL
local node, graph, value, tensor = w.node, w.graph, w.value, w.tensor

-- Calls f(path) for a file of these bytes.
local function with_file(content, f)
  harness.with_temp_file(function(path)
    local file = assert(io.open(path .. ".onnx", "wb"))
    file:write(content):close()
    local results = table.pack(pcall(f, path .. ".onnx"))
    os.remove(path .. ".onnx")
    if not results[1] then error(results[2], 0) end
  end)
end

local function load(content, options)
  local model
  with_file(content, function(path)
    model = ml.onnx.load(path, options or { index_inputs = {}, index_outputs = {} })
  end)
  return model
end

local function rejects(pattern, content)
  expect.error(function() load(content) end, pattern)
end

local fx, fz = value("x", FLOAT), value("z", FLOAT)
local function simple(nodes, ...) return w.model(graph(nodes, { fx }, { fz }), ...) end
local relu = node("Relu", { "x" }, { "z" })

-- --- inputs -----------------------------------------------------------------------------------

test("sizes of -1, of 0, without a number and with a name are open", function()
  for _, size in ipairs { -1, 0, false, "batch" } do
    local model = load(w.model(graph({ relu }, { value("x", FLOAT, { size, 3 }) }, { fz })))
    expect.equal(model(ml.tensor { { -1, 2, 3.0 } }):tolist(), { { 0, 2, 3 } })
    expect.equal(tostring(model(ml.ones(5, 3)).shape), "(5, 3)")
    expect.error(function() model(ml.ones(5, 4)) end, "has the shape %(any, 3%), got %(5, 4%)")
  end
end)

-- --- branches and loops -----------------------------------------------------------------------

local function branches(first, second, more_first, more_second)
  local function branch(nodes, more) return { graph = graph(nodes, {}, { value("b", FLOAT) }, more) } end
  return w.model(graph({ node("If", { "c" }, { "z" }, { then_branch = branch(first, more_first),
    else_branch = branch(second, more_second) }) }, { value("c", BOOL), fx }, { fz }))
end

test("If runs one branch, which sees the names around it", function()
  local model = load(branches({ node("Relu", { "x" }, { "b" }) }, { node("Neg", { "x" }, { "b" }) }))
  local x = ml.tensor { -1.0, 2 }
  expect.equal(model(ml.tensor(true), x):tolist(), { 0, 2 })
  expect.equal(model(ml.tensor(false), x):tolist(), { 1, -2 })
  expect.equal(model(ml.tensor { true }, x):tolist(), { 0, 2 })
  expect.error(function() model(ml.tensor { true, false }, x) end, "node 1 %(If%): the condition must be one")
end)

test("weights in branches are parameters, and gradients flow through the branch that ran", function()
  local model = load(branches({ node("Mul", { "x", "w" }, { "b" }) }, { node("Add", { "x", "w" }, { "b" }) },
    { tensor("w", FLOAT, { 2 }, { 3, 4 }) }, { tensor("w", FLOAT, { 2 }, { 10, 20 }) }))
  expect.equal(#model:parameters(), 2)
  local x = ml.tensor({ 1.0, 2 }, { requires_grad = true })
  model(ml.tensor(true), x):sum():backward()
  expect.equal(x.grad:tolist(), { 3, 4 })
  local grads = {}
  for _, parameter in ipairs(model:parameters()) do
    grads[#grads + 1] = parameter.grad and table.concat(parameter.grad:tolist(), " ") or "none"
  end
  table.sort(grads)
  expect.equal(grads, { "1.0 2.0", "none" })
end)

-- A Loop over `nodes` with the value a, and what else it collects.
local function loop(inputs, nodes, outputs, declared, given, initializers)
  local body = graph(nodes, { value("i", INT64, {}), value("c", BOOL, {}), value("a", FLOAT) }, declared)
  return w.model(graph({ node("Loop", inputs, outputs, { body = { graph = body } }) }, given,
    { value("z", FLOAT), outputs[2] and value("s", FLOAT) or nil }, initializers))
end
local same = node("Identity", { "c" }, { "c2" })
local c2, a2 = value("c2", BOOL, {}), value("a2", FLOAT)

test("Loop with a number of trips, a condition, both and neither", function()
  local step = node("Add", { "a", "x" }, { "a2" })
  local trips = tensor("n", INT64, {}, { 3 })
  local counted = load(loop({ "n", "", "x" }, { step, same }, { "z" }, { c2, a2 }, { fx }, { trips }))
  expect.equal(counted(ml.tensor { 1.0, 2 }):tolist(), { 4, 8 })
  local less = node("Less", { "a2", "most" }, { "c2" })
  local most = tensor("most", FLOAT, {}, { 5 })
  for _, inputs in ipairs { { "", "go", "x" }, { "", "", "x" } } do
    local conditional = load(loop(inputs, { step, less }, { "z" }, { c2, a2 }, { fx },
      { most, tensor("go", BOOL, {}, { 1 }) }))
    expect.equal(conditional(ml.tensor(1.0)):item(), 5)
  end
  local both = load(loop({ "n", "go", "x" }, { step, less }, { "z" }, { c2, a2 }, { fx },
    { trips, most, tensor("go", BOOL, {}, { 1 }) }))
  expect.equal(both(ml.tensor(0.5)):item(), 2)
  local never = load(loop({ "n", "go", "x" }, { step, less }, { "z" }, { c2, a2 }, { fx },
    { trips, most, tensor("go", BOOL, {}, { 0 }) }))
  expect.equal(never(ml.tensor(0.5)):item(), 0.5)
end)

test("what a Loop collects is stacked, also of no trips, and gradients pass through all", function()
  local nodes = { node("Mul", { "a", "x" }, { "a2" }), same, node("Identity", { "a2" }, { "v" }) }
  local model = load(loop({ "n", "", "x" }, nodes, { "z", "s" }, { c2, a2, value("v", FLOAT, { 1 }) },
    { value("n", INT64, {}), fx }))
  local x = ml.tensor({ 2.0 }, { requires_grad = true })
  local z, s = model(ml.tensor(3), x)
  expect.equal(z:tolist(), { 16 })
  expect.equal(s:tolist(), { { 4 }, { 8 }, { 16 } })
  z:sum():backward()
  expect.equal(x.grad:tolist(), { 32 })  -- of x ^ 4
  z, s = model(ml.tensor(0), x)
  expect.equal(z:tolist(), { 2 })
  expect.equal(tostring(s.shape), "(0, 1)")
end)

local function scan(opset, attributes, x)
  local body = graph({ node("Add", { "s", "e" }, { "s2" }), node("Identity", { "s2" }, { "k" }) },
    { value("s", FLOAT), value("e", FLOAT) }, { value("s2", FLOAT), value("k", FLOAT) })
  attributes.body, attributes.num_scan_inputs = { graph = body }, 1
  local inputs = opset == 8 and { "", "h", "x" } or { "h", "x" }
  return load(w.model(graph({ node("Scan", inputs, { "z", "k2" }, attributes) },
    { value("h", FLOAT), fx }, { fz, value("k2", FLOAT) }), opset)), x
end

test("Scan along axes and in directions, and with a batch in opset 8", function()
  local x = ml.tensor { { 1.0, 2, 3 }, { 10, 20, 30 } }
  local z, k = scan(9, {})(ml.zeros(3), x)
  expect.equal(z:tolist(), { 11, 22, 33 })
  expect.equal(k:tolist(), { { 1, 2, 3 }, { 11, 22, 33 } })
  z, k = scan(17, { scan_input_axes = { -1 }, scan_input_directions = { 1 }, scan_output_axes = { 1 },
    scan_output_directions = { 1 } })(ml.zeros(2), x)
  expect.equal(z:tolist(), { 6, 60 })
  expect.equal(k:tolist(), { { 6, 5, 3 }, { 60, 50, 30 } })
  z, k = scan(8, { directions = { 1 } })(ml.zeros(2, 1), x:unsqueeze(3))
  expect.equal(z:tolist(), { { 6 }, { 60 } })
  expect.equal(k:tolist(), { { { 3 }, { 5 }, { 6 } }, { { 30 }, { 50 }, { 60 } } })
end)

test("graphs in nodes that are wrong", function()
  rejects("node 1 %(If%), its 'then_branch': node 1 %(Relu%) uses 'y', which no",
    branches({ node("Relu", { "y" }, { "b" }) }, { node("Neg", { "x" }, { "b" }) }))
  rejects("its 'else_branch': nothing gives the output 'b'",
    branches({ node("Neg", { "x" }, { "b" }) }, { node("Neg", { "x" }, { "q" }) }))
  rejects("the attribute 'body' holds a graph, which Relu does not take",
    simple { node("Relu", { "x" }, { "z" }, { body = { graph = graph({}, {}, {}) } }) })
  rejects("the attribute 'body' is of the wrong type", simple { node("Loop", {}, { "z" }, { body = 3 }) })
  local one = load(w.model(graph({ node("Loop", { "", "", "x" }, { "z" }, { body = { graph =
    graph({ same }, { value("i", INT64), value("c", BOOL) }, { c2 }) } }) }, { fx }, { fz })))
  expect.error(function() one(ml.ones(2)) end, "node 1 %(Loop%): its 'body' has 2 inputs, expected 3")
  -- The error is that of the node inside.
  local bad = branches({ node("MatMul", { "x", "x" }, { "b" }, nil, nil, w.bytes(3, "inner")) },
    { node("Neg", { "x" }, { "b" }) })
  expect.error(function() load(bad)(ml.tensor(true), ml.ones(2, 3)) end,
    "node 1 %(If%), its 'then_branch': node 1 %(MatMul 'inner'%): matmul: ")
  local deep = node("Neg", { "x" }, { "b" })
  for _ = 1, 40 do
    deep = node("Loop", {}, { "b" }, { body = { graph = graph({ deep }, {}, { value("b", FLOAT) }) } })
  end
  rejects("too deeply", w.model(graph({ deep }, { fx }, { value("b", FLOAT) })))
end)

-- --- sequences --------------------------------------------------------------------------------

test("sequences are lists", function()
  local model = load(w.model(graph({
    node("SequenceConstruct", { "x", "x" }, { "s1" }),
    node("Neg", { "x" }, { "y" }),
    node("SequenceInsert", { "s1", "y", "at" }, { "s2" }),
    node("SequenceErase", { "s2", "last" }, { "s3" }),
    node("SequenceAt", { "s3", "at" }, { "z" }),
    node("SequenceLength", { "s2" }, { "n" }),
    node("ConcatFromSequence", { "s2" }, { "all" }, { axis = 0 }),
    node("ConcatFromSequence", { "s2" }, { "new" }, { axis = -1, new_axis = 1 }),
  }, { fx }, { fz, value("n", INT64), w.sequence("s3", FLOAT), value("all", FLOAT), value("new", FLOAT) },
    { tensor("at", INT64, {}, { 0 }), tensor("last", INT64, {}, { -1 }) })))
  local z, n, s3, all, new = model(ml.tensor { 1.0, 2 })
  expect.equal(z:tolist(), { -1, -2 })
  expect.equal(n:item(), 3)
  expect.equal(#s3, 2)
  expect.equal(s3[2]:tolist(), { 1, 2 })
  expect.equal(all:tolist(), { -1, -2, 1, 2, 1, 2 })
  expect.equal(new:tolist(), { { -1, 1, 1 }, { -2, 2, 2 } })
end)

test("a sequence is given as a list, and mapped", function()
  local body = graph({ node("Add", { "e", "o" }, { "r" }) }, { value("e", FLOAT), value("o", FLOAT) },
    { value("r", FLOAT) })
  local model = load(w.model(graph({ node("SequenceMap", { "s", "x" }, { "t" }, { body = { graph = body } }) },
    { w.sequence("s", FLOAT), fx }, { w.sequence("t", FLOAT) })))
  local t = model({ ml.tensor { 1.0 }, ml.tensor { 2.0, 3 } }, ml.tensor { 10.0 })
  expect.equal({ t[1]:tolist(), t[2]:tolist() }, { { 11 }, { 12, 13 } })
  expect.equal(#model({}, ml.tensor { 1.0 }), 0)
  expect.error(function() model(ml.ones(2), ml.ones(1)) end, "the input 's' must be a list, got a tensor")
  expect.error(function() model({ 3 }, ml.ones(1)) end, "the input 's', element 1 must be a tensor")
  local relu_of = load(w.model(graph({ node("Relu", { "s" }, { "z" }) }, { w.sequence("s", FLOAT) }, { fz })))
  expect.error(function() relu_of { ml.ones(1) } end, "node 1 %(Relu%): its input 1 is a sequence")
end)

test("SplitToSequence", function()
  local function split(given, attributes, x)
    return load(w.model(graph({ node("SplitToSequence", { "x", given and "k" or nil }, { "t" }, attributes) },
      { fx }, { w.sequence("t", FLOAT) }, { given })))(x)
  end
  local x = ml.arange(1, 5):float()
  local function lists(t)
    local out = {}
    for i, part in ipairs(t) do out[i] = part:tolist() end
    return out
  end
  expect.equal(lists(split(nil, { keepdims = 0 }, x)), { 1, 2, 3, 4, 5 })
  expect.equal(lists(split(tensor("k", INT64, {}, { 2 }), nil, x)), { { 1, 2 }, { 3, 4 }, { 5 } })
  expect.equal(lists(split(tensor("k", INT64, { 2 }, { 1, 4 }), nil, x)), { { 1 }, { 2, 3, 4, 5 } })
  expect.error(function() split(tensor("k", INT64, { 2 }, { 1, 3 }), nil, x) end, "parts of 4 in all for 5")
end)

test("optional values are nil where they are none", function()
  local model = load(w.model(graph({ node("OptionalHasElement", { "o" }, { "has" }),
    node("Identity", { "o" }, { "same" }) }, { w.optional("o", FLOAT) },
    { value("has", BOOL), w.optional("same", FLOAT) }), 18))
  local has, out = model(ml.tensor { 1.0 })
  expect.equal({ has:item(), out:tolist() }, { true, { 1 } })
  has, out = model(nil)
  expect.equal({ has:item(), out }, { false, nil })
  local get = load(w.model(graph({ node("OptionalGetElement", { "o" }, { "z" }) }, { w.optional("o", FLOAT) },
    { fz }), 18))
  expect.error(function() get(nil) end, "node 1 %(OptionalGetElement%): its input has no element")
end)

-- --- strings and types without a dtype --------------------------------------------------------

test("strings are tables", function()
  local model = load(w.model(graph({ node("StringConcat", { "s", "w" }, { "t" }),
    node("Reshape", { "t", "shape" }, { "r" }), node("Equal", { "s", "w" }, { "e" }),
    node("Shape", { "s" }, { "n" }) }, { value("s", w.STRING, { 2 }) },
    { value("t", w.STRING), value("r", w.STRING), value("e", BOOL), value("n", INT64) },
    { tensor("w", w.STRING, { 1 }, { "b" }), tensor("shape", INT64, { 2 }, { 2, 1 }) }), 20))
  local t, r, e, n = model { "a", "b" }
  expect.equal(t, { "ab", "bb" })
  expect.equal(r, { { "ab" }, { "bb" } })
  expect.equal({ e:tolist(), n:tolist() }, { { false, true }, { 2 } })
  expect.error(function() model { "a" } end, "the input 's' has the shape %(2%), got %(1%)")
  expect.error(function() model(ml.ones(2)) end, "must be strings, got a tensor")
  expect.error(function() load(w.model(graph({ node("Relu", { "s" }, { "z" }) }, { value("s", w.STRING) },
    { fz }))) "a" end, "node 1 %(Relu%): its input 1 is strings, expected a tensor")
end)

test("splits, normalises and casts strings", function()
  local function run(op, attributes, given, kind, opset)
    return load(w.model(graph({ node(op, { "s" }, { "z" }, attributes) }, { value("s", w.STRING) },
      { value("z", kind or w.STRING) }), opset or 20))(given)
  end
  expect.equal(run("StringSplit", { maxsplit = 1 }, { " a b  c ", "d" }), { { "a", "b  c " }, { "d", "" } })
  expect.equal(run("StringSplit", { delimiter = "," }, { "a,,b" }), { { "a", "", "b" } })
  expect.equal(run("StringNormalizer", { case_change_action = "UPPER", stopwords = { "x" } }, { "X", "yes" }),
    { "YES" })
  expect.equal(run("StringNormalizer", { stopwords = { "x" } }, { "x" }), { "" })
  local numbers = run("Cast", { to = 1 }, { "1.5", "-inf", "NaN", "1e3" }, FLOAT):tolist()
  expect.equal({ numbers[1], numbers[2], numbers[3] ~= numbers[3], numbers[4] }, { 1.5, -math.huge, true, 1000 })
  expect.error(function() run("Cast", { to = 1 }, { "one" }, FLOAT) end, "'one' is no number")
  expect.equal(load(w.model(graph({ node("Cast", { "x" }, { "z" }, { to = 8 }) }, { fx },
    { value("z", w.STRING) })))(ml.tensor { 0.1, 2, 1e10 }), { "0.1", "2.0", "1e+10" })
end)

test("numbers of uint16 are those of int32, and wrap as uint16", function()
  local model = load(w.model(graph({ node("Sub", { "x", "w" }, { "z" }), node("Mul", { "x", "x" }, { "y" }) },
    { value("x", w.UINT16, { 2 }) }, { value("z", w.UINT16), value("y", w.UINT16) },
    { tensor("w", w.UINT16, { 2 }, { 65535, 3 }) })))
  local z, y = model(ml.tensor({ 1, 300 }, { dtype = ml.int32 }))
  expect.equal({ tostring(z.dtype), z:tolist(), y:tolist() }, { "int32", { 2, 297 }, { 1, 90000 - 65536 } })
  expect.error(function() model(ml.ones(2)) end, "is of dtype int32, for uint16, got float32")
  -- Tensors of the type's own dtype are taken, too.
  expect.equal(model(ml.tensor({ 1, 300 }):to "uint16"):tolist(), { 2, 297 })
end)

test("casts from and to uint64 hold numbers beyond int64", function()
  local UINT64, DOUBLE = 13, 11
  local to_float = load(w.model(graph({ node("Cast", { "x" }, { "z" }, { to = DOUBLE }) },
    { value("x", UINT64, { 2 }) }, { value("z", DOUBLE) })))
  expect.equal(to_float(ml.tensor({ -1, 5 }):view "uint64"):tolist(), { 2.0 ^ 64, 5 })
  expect.equal(to_float(ml.tensor { -1, 5 }):tolist(), { 2.0 ^ 64, 5 })
  local to_int = load(w.model(graph({ node("Cast", { "x" }, { "z" }, { to = UINT64 }) },
    { value("x", DOUBLE, { 2 }) }, { value("z", UINT64) })))
  expect.equal(to_int(ml.tensor({ 2.0 ^ 63 + 2048, 7 }, { dtype = "float64" })):view("uint64"):to("float64"):tolist(),
    { 2.0 ^ 63 + 2048, 7 })
end)

test("small floats round half to even", function()
  local model = load(w.model(graph({ node("Cast", { "x" }, { "q" }, { to = 17 }),
    node("Cast", { "q" }, { "z" }, { to = 1 }) }, { fx }, { fz }), 19))
  expect.equal(model(ml.tensor { 0.1, 17.0, 19.0, -500.0, 2 ^ -10 }):tolist(),
    { 0.1015625, 16, 20, -448, 0 })
end)

-- --- functions --------------------------------------------------------------------------------

local function with_functions(nodes, functions, opsets)
  local more = {}
  for i, f in ipairs(functions) do more[i] = w.bytes(25, w.func(f)) end
  return w.model(graph(nodes, { fx }, { fz }), opsets or { [""] = 17, my = 1 }, table.concat(more))
end

test("functions of the file, with attributes, defaults and other functions in them", function()
  local scaled = { name = "scaled", inputs = { "a" }, outputs = { "b" }, attributes = { "gradient" },
    defaults = { power = 2.0 }, nodes = {
      node("LeakyRelu", { "a" }, { "l" }, { alpha = { ref = "gradient", type = 1 } }),
      node("Constant", {}, { "p" }, { value_float = { ref = "power", type = 1 } }),
      node("Pow", { "l", "p" }, { "b" }) } }
  local twice = { name = "twice", inputs = { "a", "unused" }, outputs = { "b" }, attributes = { "s" }, nodes = {
    node("scaled", { "a" }, { "c" }, { gradient = { ref = "s", type = 1 } }, "my"),
    node("scaled", { "c" }, { "b" }, { gradient = 0.0, power = 1.0 }, "my") } }
  local model = load(with_functions({ node("twice", { "x" }, { "z" }, { s = 0.5 }, "my") }, { scaled, twice }))
  local x = ml.tensor({ -2.0, 3 }, { requires_grad = true })
  local z = model(x)
  expect.equal(z:tolist(), { 1, 9 })
  z:sum():backward()
  expect.equal(x.grad:tolist(), { -1 * 0.5 * 2, 6 })
  -- The default gradient of LeakyRelu where the call has none.
  model = load(with_functions({ node("scaled", { "x" }, { "z" }, nil, "my") }, { scaled }))
  expect.near(model(ml.tensor { -2.0 }):tolist(), { 0.0004 })
end)

test("functions have opsets of their own, overloads, and graphs in nodes", function()
  local function soft(opset, overload)
    return { name = "soft", inputs = { "a" }, outputs = { "b" }, opset = opset, overload = overload,
      nodes = { node("Softmax", { "a" }, { "b" }, { axis = 1 }) } }
  end
  local ones = ml.zeros(1, 2, 2)
  local one = load(with_functions({ node("soft", { "x" }, { "z" }, nil, "my") }, { soft(12), soft(13, "new") }))
  expect.equal(one(ones):tolist(), { { { 0.25, 0.25 }, { 0.25, 0.25 } } })
  local other = load(with_functions({ node("soft", { "x" }, { "z" }, nil, "my", w.bytes(8, "new")) },
    { soft(12), soft(13, "new") }))
  expect.equal(other(ones):tolist(), { { { 0.5, 0.5 }, { 0.5, 0.5 } } })
  local branch = { graph = graph({ node("Elu", { "a" }, { "r" }, { alpha = { ref = "k", type = 1 } }) }, {},
    { value("r", FLOAT) }) }
  local chosen = { name = "chosen", inputs = { "a" }, outputs = { "b" }, attributes = { "k" }, nodes = {
    node("Constant", {}, { "c" }, { value = { tensor = tensor("", BOOL, {}, { 1 }) } }),
    node("If", { "c" }, { "b" }, { then_branch = branch, else_branch = branch }) } }
  local model = load(with_functions({ node("chosen", { "x" }, { "z" }, { k = 3.0 }, "my") }, { chosen }))
  expect.near(model(ml.tensor { -1.0 }):tolist(), { 3 * (math.exp(-1) - 1) }, 1e-6)
end)

test("functions that are wrong", function()
  local function f(name, nodes, more)
    local out = { name = name, inputs = { "a" }, outputs = { "b" }, nodes = nodes }
    for key, item in pairs(more or {}) do out[key] = item end
    return out
  end
  local call = node("f", { "x" }, { "z" }, nil, "my")
  rejects("the function 'f' calls itself", with_functions({ call }, { f("f", { node("f", { "a" }, { "b" }, nil, "my") }) }))
  rejects("the function 'f' calls itself", with_functions({ call }, {
    f("f", { node("g", { "a" }, { "b" }, nil, "my") }), f("g", { node("f", { "a" }, { "b" }, nil, "my") }) }))
  rejects("the function 'f' stands twice", with_functions({ call }, { f("f", {}), f("f", {}) }))
  rejects("the function 'f', node 1 %(Relu%) uses 'q'", with_functions({ call },
    { f("f", { node("Relu", { "q" }, { "b" }) }) }))
  rejects("the function 'f', nothing gives the output 'b'", with_functions({ call }, { f("f", {}) }))
  rejects("which has no attribute 'k'", with_functions({ call },
    { f("f", { node("Elu", { "a" }, { "b" }, { alpha = { ref = "k", type = 1 } }) }) }))
  rejects("the attribute 'alpha' is that of a function, which has no", simple {
    node("Elu", { "x" }, { "z" }, { alpha = { ref = "k", type = 1 } }) })
  rejects("has 2 inputs and 1 outputs, the function has 1 and 1", with_functions(
    { node("f", { "x", "x" }, { "z" }, nil, "my") }, { f("f", { node("Relu", { "a" }, { "b" }) }) }))
  local chain = { f("f40", { node("Relu", { "a" }, { "b" }) }) }
  for i = 39, 0, -1 do chain[#chain + 1] = f("f" .. i, { node("f" .. i + 1, { "a" }, { "b" }, nil, "my") }) end
  rejects("call one another too deeply", with_functions({ node("f0", { "x" }, { "z" }, nil, "my") }, chain))
  local missing = load(with_functions({ node("f", {}, { "z" }, nil, "my") }, { f("f", { node("Relu", { "a" }, { "b" }) }) }))
  expect.error(function() missing(ml.ones(2)) end, "the function 'f', node 1 %(Relu%): its input 1 is missing")
end)

-- --- opsets and domains -----------------------------------------------------------------------

test("opsets 1 to 27", function()
  for _, version in ipairs { 1, 6, 7, 23, 24, 25, 26, 27 } do
    expect.equal(load(simple({ relu }, version))(ml.tensor { -1.0, 2 }):tolist(), { 0, 2 })
  end
  rejects("it uses opset 28; 1 to 27 are read", simple({ relu }, 28))
  rejects("it uses opset 0; 1 to 27 are read", simple({ relu }, 0))
  rejects("node 1 %(Nonsense%): there is no such op in opset 25, or it is not read",
    simple({ node("Nonsense", { "x" }, { "z" }) }, 25))
end)

test("ops as the first opsets have them", function()
  local function run(opset, op, attributes, ...)
    local inputs, given = { "x" }, { fx }
    for i = 2, select("#", ...) do
      inputs[i], given[i] = "y" .. i, value("y" .. i, FLOAT)
    end
    return load(w.model(graph({ node(op, inputs, { "z" }, attributes) }, given, { fz }), opset))(...)
  end
  local x = ml.ones(1, 2, 3, 1)
  expect.equal(tostring(run(6, "Add", { broadcast = 1, axis = 1 }, x, ml.tensor { 1.0, 2 }).shape), "(1, 2, 3, 1)")
  expect.equal(run(6, "Add", { broadcast = 1, axis = 1 }, x, ml.tensor { 1.0, 2 }):sum():item(), 3 * 2 + 3 * 3)
  expect.error(function() run(6, "Mul", {}, x, ml.tensor { 1.0, 2 }) end, "without 'broadcast'")
  expect.equal(run(6, "PRelu", nil, -x, ml.tensor { 1.0, 2 }):sum():item(), -9)
  expect.equal(tostring(run(1, "Reshape", { shape = { 3, 2 } }, x).shape), "(3, 2)")
  expect.equal(run(1, "Pad", { paddings = { 0, 1, 1, 0 }, value = 5.0 }, ml.ones(1, 1)):tolist(), { { 5, 1 }, { 5, 5 } })
  expect.equal(run(6, "Clip", { min = 0.0, max = 2.0, consumed_inputs = { 0 } },
    ml.tensor { -1.0, 1, 3 }):tolist(), { 0, 1, 2 })
  expect.equal(tostring(run(1, "Cast", { to = "INT32" }, x).dtype), "int32")
  expect.equal(run(6, "Dropout", { is_test = 1, ratio = 0.9 }, x):sum():item(), 6)
  expect.equal(run(1, "Upsample", { height_scale = 2.0, width_scale = 3.0 }, ml.ones(1, 1, 1, 1)):sum():item(), 6)
  expect.equal(run(1, "Tile", nil, ml.tensor { 1.0, 2 }, ml.tensor(2.0), ml.tensor(0.0)):tolist(), { 1, 2, 1, 2 })
  local statistics = { ml.tensor { 1.0 }, ml.tensor { 0.0 }, ml.tensor { 1.0 }, ml.tensor { 4.0 } }
  expect.near(run(6, "BatchNormalization", { is_test = 1, epsilon = 0.0 }, ml.tensor { { 3.0 } },
    table.unpack(statistics)):tolist(), { { 1 } })
end)

test("ops of other domains are named with their domain", function()
  rejects("node 1 %(Scaler%) is of the domain 'ai.onnx.ml', which is not read: ops of ai%.onnx%.ml",
    simple({ node("Scaler", { "x" }, { "z" }, nil, "ai.onnx.ml") }, { ["ai.onnx.ml"] = 3 }))
  rejects("does not say which version of the domain 'ai.onnx'", simple({ relu }, { ["ai.onnx.ml"] = 3 }))
  rejects("it does not say which set of ops it uses", simple({ relu }, {}))
end)

test("a Gradient in the graph, also where nothing is recorded", function()
  local opsets = { [""] = 12, ["ai.onnx.preview.training"] = 1 }
  local gradient = node("Gradient", { "x", "u" }, { "z", "dz" }, { xs = { "x", "u" }, y = "y" },
    "ai.onnx.preview.training")
  local model = load(w.model(graph({ node("Neg", { "x" }, { "u" }), node("Mul", { "x", "u" }, { "y" }), gradient },
    { fx }, { fz, value("dz", FLOAT) }), opsets))
  local z, dz = ml.no_grad(function() return model(ml.tensor { 3.0, 4 }) end)
  expect.equal({ z:tolist(), dz:tolist() }, { { -6, -8 }, { 3, 4 } })
  rejects("its 'y' names 'q', which nothing before it gives", w.model(graph({ node("Gradient", { "x" }, { "z" },
    { xs = { "x" }, y = "q" }, "ai.onnx.preview.training") }, { fx }, { fz }), opsets))
  rejects("its 'xs' are not the names of its inputs", w.model(graph({ node("Gradient", { "x" }, { "z" },
    { xs = { "q" }, y = "x" }, "ai.onnx.preview.training") }, { fx }, { fz }), opsets))
end)

-- --- parameters and metadata ------------------------------------------------------------------

test("weights in Constant nodes are parameters; settings and single numbers are none", function()
  local function constant(name, type, dims, values)
    return node("Constant", {}, { name }, { value = { tensor = tensor("", type, dims, values) } })
  end
  local model = load(simple { constant("w", FLOAT, { 2, 2 }, { 1, 2, 3, 4 }), constant("one", FLOAT, { 1 }, { 5 }),
    constant("bias", FLOAT, { 1 }, { 7 }), constant("shape", INT64, { 2 }, { 1, 2 }),
    constant("scales", FLOAT, { 4 }, { 1, 1, 2, 2 }), node("MatMul", { "x", "w" }, { "a" }),
    node("Mul", { "a", "one" }, { "b" }), node("Gemm", { "b", "w", "bias" }, { "c" }),
    node("Unsqueeze", { "c", "shape" }, { "d" }), node("Resize", { "d", "", "scales" }, { "z" }) })
  local names = {}
  for name in pairs(model:state_dict()) do names[#names + 1] = name end
  table.sort(names)
  expect.equal(names, { "bias", "w" })
  model(ml.ones(1, 2)):sum():backward()
  expect.truthy(model.w.grad and model.bias.grad)
  -- Beside weights that are initialisers only what is surely a weight is one.
  model = load(w.model(graph({ constant("mask", FLOAT, { 2 }, { 0, 1 }), constant("w", FLOAT, { 2, 2 }, { 1, 2, 3, 4 }),
    node("MatMul", { "x", "w" }, { "a" }), node("Add", { "a", "mask" }, { "b" }), node("Add", { "b", "bias" }, { "z" }) },
    { fx }, { fz }, { tensor("bias", FLOAT, { 2 }, { 5, 6 }) })))
  names = {}
  for name in pairs(model:state_dict()) do names[#names + 1] = name end
  table.sort(names)
  expect.equal(names, { "bias", "w" })
end)

test("what a file says about itself is the second result of ml.load", function()
  local more = w.bytes(14, w.bytes(1, "names") .. w.bytes(2, "a\nb")) .. w.bytes(2, "somebody") .. w.bytes(6, "text")
  with_file(simple({ relu }, 17, more), function(path)
    local model, metadata = ml.load(path)
    expect.equal(model(ml.tensor { -1.0 }):tolist(), { 0 })
    expect.equal({ metadata.names, metadata.producer_name, metadata.doc_string }, { "a\nb", "somebody", "text" })
  end)
end)

-- --- bytes ------------------------------------------------------------------------------------

test("elements in all fields that they may stand in", function()
  local function read(type, fields, dims)
    local proto = w.number(1, dims or 2) .. w.number(2, type) .. w.bytes(8, "w") .. fields
    return load(w.model(graph({ node("Identity", { "w" }, { "z" }) }, {}, { value("z", type) }, { proto })))():tolist()
  end
  local v = w.varint
  expect.equal(read(1, w.bytes(4, ("<ff"):pack(1.5, -2))), { 1.5, -2 })
  expect.equal(read(1, w.float(4, 1.5) .. w.float(4, -2)), { 1.5, -2 })
  expect.equal(read(11, w.bytes(10, ("<dd"):pack(1.5, -2))), { 1.5, -2 })
  expect.equal(read(7, w.bytes(7, v(300) .. v(-1))), { 300, -1 })
  expect.equal(read(7, w.number(7, 300) .. w.number(7, -1)), { 300, -1 })
  expect.equal(read(2, w.bytes(5, v(200) .. v(7))), { 200, 7 })
  expect.equal(read(9, w.bytes(5, v(1) .. v(0))), { true, false })
  expect.equal(read(16, w.bytes(5, v(0x3f80) .. v(0xc000))), { 1, -2 })
  expect.equal(read(3, w.bytes(5, v(5) .. v(-7))), { 5, -7 })
  expect.equal(read(10, w.bytes(5, v(0x3c00) .. v(0xc000))), { 1, -2 })
  expect.equal(read(12, w.bytes(11, v(5) .. v(0xffffffff))), { 5, 0xffffffff })
  expect.equal(read(4, w.bytes(5, v(5) .. v(65535))), { 5, 65535 })
  expect.equal(read(22, w.bytes(9, "\xf7"), 2), { 7, -1 })
  expect.equal(read(17, w.bytes(9, "\x38\xc0"), 2), { 1, -2 })
  expect.equal(#read(7, w.bytes(7, v(1):rep(20000)), 20000), 20000)
  expect.error(function() read(7, w.bytes(7, v(1):rep(3))) end, "has 3 elements, its shape wants 2")
end)

test("a mapped file gives the same, where elements are aligned and where they are not", function()
  for pad = 0, 3 do
    local content = w.model(graph({ node("Mul", { "x", "w" }, { "y" }), node("Where", { "b", "y", "x" }, { "z" }) },
      { fx }, { fz }, { tensor("w", FLOAT, { 2 }, { 3, 4 }), tensor("b", BOOL, { 2 }, { 1, 0 }) }), 17,
      w.bytes(6, ("d"):rep(pad)))
    content = w.bytes(2, ("p"):rep(pad)) .. content
    with_file(content, function(path)
      expect.equal(ml.load(path, { mmap = true })(ml.tensor { 1.0, 2 }):tolist(), { 3, 2 })
    end)
  end
end)

test("damaged bytes, messages in messages without end, and lengths that lie", function()
  for _, content in ipairs { "\x3a\x05\x0a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x3a\xff\xff\xff\x7f",
    "\0\0", "\x3b\x3c", "\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\1" } do
    rejects("it is no ONNX model, or damaged or cut off, near byte", content)
  end
  local deep = ""
  for _ = 1, 200 do deep = w.bytes(1, w.bytes(5, w.bytes(6, deep))) end
  rejects("it nests too deeply", w.model(deep))
  local type = w.bytes(1, w.number(1, 1))
  for _ = 1, 20 do type = w.bytes(4, w.bytes(1, type)) end
  rejects("its type nests too deeply", w.model(graph({ relu }, { w.bytes(1, "x") .. w.bytes(2, type) }, { fz })))
end)

test("what reading may take is counted once", function()
  local weights, nodes = {}, {}
  for i = 1, 40 do
    weights[i] = w.number(1, 25000) .. w.number(2, FLOAT) .. w.bytes(8, "w" .. i) .. w.bytes(9, ("\0"):rep(100000))
    nodes[i] = node("Add", { i == 1 and "x" or "a" .. i - 1, "w" .. i }, { i == 40 and "z" or "a" .. i })
  end
  local content = w.model(graph(nodes, { fx }, { fz }, weights))
  expect.equal(#load(content, { max_bytes = 5000000 }):parameters(), 40)
  expect.error(function() load(content, { max_bytes = 3000000 }) end, "takes more than 3000000 bytes")
end)

test("reading takes little more than the weights", function()
  if not io.open "/proc/self/status" then harness.skip "there is no /proc" end
  local program = arg[-1]
  harness.with_temp_file(function(path)
    local raw = ("\0"):rep(48 << 20)
    local weight = w.number(1, 3072) .. w.number(1, 4096) .. w.number(2, FLOAT) .. w.bytes(8, "w") .. w.bytes(9, raw)
    local file = assert(io.open(path, "wb"))
    file:write(w.model(graph({ node("MatMul", { "x", "w" }, { "z" }) }, { fx }, { fz }, { weight }))):close()
    local script = path .. ".lua"
    file = assert(io.open(script, "w"))
    file:write(([[local ml = require "moonlet"
      local function peak()
        for line in io.lines "/proc/self/status" do
          local kilobytes = line:match "^VmHWM:%%s+(%%d+)"
          if kilobytes then return tonumber(kilobytes) << 10 end
        end
      end
      local before = peak()
      local model = ml.onnx.load(%q)
      print(peak() - before, #model:parameters())]]):format(path)):close()
    local pipe <close> = assert(io.popen(("'%s' '%s' 2>&1"):format(program, script)))
    local text = pipe:read "a"
    os.remove(script)
    local taken, count = text:match "^(%d+)%s+(%d+)"
    expect.equal(count, "1", text)
    -- Under a sanitizer freed memory stays for a while.
    if (os.getenv "MOONLET_SANITIZE" or "none") == "none" then
      expect.truthy(tonumber(taken) < 1.2 * (48 << 20), taken)
    end
  end)
end)

harness.run()
