-- tests/lua/interp/repl_test.lua: the texts of results at the prompt, and what Tab offers.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local repl = require "moonlet.repl"
local test, expect = harness.test, harness.expect

_G.ml = ml  -- as at the prompt

local function shows(value, wanted)
  expect.equal(repl.text(value), wanted)
end

test("plain values print as print does", function()
  expect.equal(repl.text(1, "a\nb", nil, true), "1\na\nb\nnil\ntrue")
  expect.equal(repl.text(1.5, "a", nil), "1.5\ta\tnil")
  expect.equal(repl.text(nil), "nil")
  shows(ml.ones(2, 2), tostring(ml.ones(2, 2)))
  shows(ml.nn.Linear(1, 2), tostring(ml.nn.Linear(1, 2)))
end)

test("tables show what is in them", function()
  shows({}, "{}")
  shows({ 1, 2.0, "three", true }, '{1, 2.0, "three", true}')
  shows({ 1, nil, 3 }, "{1, nil, 3}")
  shows({ a = 1, b = { 2, c = {} }, ["d e"] = "x", [-1] = 0, [2.5] = 1, [true] = 2 },
    '{[-1] = 0, [2.5] = 1, a = 1, b = {2, c = {}}, ["d e"] = "x", [true] = 2}')
  shows({ "a\n\t\"b\"\\\0", "ä", "\255" }, '{"a\\n\\t\\"b\\"\\\\\\000", "ä", "\\xFF"}')
  shows({ k10 = 1, k9 = 2 }, "{k9 = 2, k10 = 1}")
  expect.truthy(repl.text({ f = print }):find "^{f = function: ")
end)

test("cycles are marked, and one table at two positions is not one", function()
  local loop, twice = { 1 }, { 2 }
  loop.again = { loop }
  shows(loop, "{1, again = {<cycle>}}")
  shows({ twice, twice }, "{{2}, {2}}")
end)

test("long and deep tables are cut", function()
  local list, named, deep, wide = {}, {}, {}, {}
  for i = 1, 3000 do list[i], named["k" .. i] = i, i end
  local text = repl.text(list)
  expect.truthy(text:find "99, 100, %.%.%. 2900 more\n}$", text)
  for line in text:gmatch "[^\n]+" do expect.truthy(#line <= 78, line) end
  text = repl.text(named)
  expect.truthy(text:find "\n  k50 = 50,\n  %.%.%. 2950 more\n}$", text)
  for _ = 1, 100 do deep = { deep } end
  expect.truthy(#repl.text(deep) < 40 and repl.text(deep):find("{...}", 1, true))
  for i = 1, 100 do wide[i] = {} for j = 1, 100 do wide[i][j] = { j } end end
  expect.truthy(#repl.text(wide) < 20000)
  text = repl.text { ("x"):rep(10000) }
  expect.truthy(#text < 300 and text:find("(10000 bytes)", 1, true), text)
end)

test("tensors inside take one line", function()
  local freed = ml.ones(2)
  freed:free()
  shows({ ml.tensor(2.5), ml.ones(2), ml.ones(3, 4), w = ml.ones(2, 2, { requires_grad = true }),
    f = freed }, [[
{
  2.5000  Tensor () float32,
  {1., 1.}  Tensor (2,) float32,
  Tensor (3, 4) float32,
  f = Tensor (freed),
  w = Tensor (2, 2) float32 requires_grad
}]])
end)

test("state dicts are columns of name, shape and dtype", function()
  shows({ ["0.weight"] = ml.ones(3, 2), ["10.bias"] = ml.ones(3, { dtype = ml.float64 }),
    ["2.count"] = ml.tensor(7) }, [[
name      shape   dtype
0.weight  (3, 2)  float32
2.count   ()      int64    7
10.bias   (3,)    float64]])
  local text = repl.text { model = ml.nn.Linear(2, 3):state_dict(), epoch = 3 }
  expect.equal(text, [[
{
  epoch = 3,
  model = {
    bias    (3,)    float32
    weight  (3, 2)  float32
  }
}]])
  local many = {}
  for i = 1, 150 do many["t" .. i] = ml.zeros(1) end
  expect.truthy(repl.text(many):find "\nt100 +%(1,%) +float32\n%.%.%. 50 more$")
end)

test("objects", function()
  shows(setmetatable({ 1 }, { __name = "Thing" }), "Thing {1}")
  shows(setmetatable({ 1 }, { __index = error, __len = error, __pairs = error }), "{1}")
  shows({ setmetatable({}, { __tostring = function() return "one\ntwo" end }) }, "{one ...}")
  shows({ setmetatable({}, { __tostring = error }) }, "{<an error in its __tostring>}")
  shows({ ml.nn.Sequential(ml.nn.ReLU()), ml.nn.ReLU }, "{Sequential(...), class ReLU}")
  expect.error(function() repl.text(setmetatable({}, { __tostring = function() error "bad" end })) end,
    "bad")
end)

test("modules show all their names, those too that are not loaded yet", function()
  local function has(text, ...)
    for _, name in ipairs { ... } do
      expect.truthy((" " .. text:gsub("%s+", " ") .. " "):find(" " .. name .. " ", 1, true), name)
    end
    for line in text:gmatch "[^\n]+" do expect.truthy(#line <= 78, line) end
  end
  has(repl.text(ml.nn), "Linear", "Conv2d", "Module", "functional", "init", "utils")
  has(repl.text(ml.optim), "Adam", "lr_scheduler")
  has(tostring(ml.nn.functional), "relu", "pad")
  has(tostring(ml), "nn", "optim", "json", "save", "zeros", "float32", "describe")
  has(tostring(ml.metrics), "Accuracy")
  for _, hidden in ipairs { "_internal", " signature", " columns", " terminal" } do
    expect.equal(tostring(ml):find(hidden, 1, true), nil, hidden)
  end
  expect.truthy(tostring(ml.optim):find "^module optim: %d+ names\n  ASGD")
  expect.truthy(repl.text { ml.optim }:find "^{module optim: %d+ names ...}$")
end)

-- The names that complete `code`, joined, with the text that they replace.
local function offers(code, above)
  local start, names = repl.complete(code, above or "")
  return table.concat(names, " "), code:sub(start)
end

local function expect_offers(code, wanted, above)
  expect.equal(offers(code, above), wanted, code)
end

local function expect_has(code, ...)
  local names = " " .. offers(code) .. " "
  for _, name in ipairs { ... } do
    local absent = name:match "^!(.*)"
    local found = names:find(" " .. (absent or name) .. " ", 1, true)
    expect.equal(found ~= nil, absent == nil, code .. " and " .. name)
  end
end

test("Tab: fields and methods of tensors and storages", function()
  _G.x, _G.s = ml.zeros(2, 3), ml.Storage(3)
  expect_offers("x.sha", "shape")
  expect_offers("print(x.sha", "shape")
  expect_offers("x:vi", "view view_as view_as_complex view_as_real")
  expect_offers("x:sha", "")
  expect_has("x.", "shape", "dtype", "grad", "is_leaf", "sum", "add_")
  expect_has("x:", "sum", "add_", "!shape", "!adam_step", "!sgd_step")
  expect_offers("x.shape.x", "")
  expect_offers("x.grad.sh", "")
  expect_offers("s.is_sh", "is_shared")
  expect_offers("s:resi", "resize")
  _G.x.requires_grad = true
  ml.embedding(_G.x, ml.tensor { 1 }, { sparse = true }):sum():backward()
  expect_offers("x.grad.is_sp", "is_sparse")
  expect_offers("x.grad:to_", "to_dense")
  expect_offers("x.grad:sha", "")
  expect_offers("x[1].sha", "shape")
  _G.x, _G.s = nil, nil
end)

test("Tab: modules, namespaces and strings", function()
  _G.net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
  _G.t = { layers = { net = _G.net }, ["a b"] = { inner = 1 } }
  expect_has("net.", "training", "forward", "state_dict", "!_registry", "!__index")
  expect_offers("net._reg", "_registry")
  expect_offers("net[1].weig", "weight")
  expect_offers("t.layers.net[1].in_f", "in_features")
  expect_offers("t['a b'].in", "inner")
  expect_offers('t["layers"].n', "net")
  expect_has("ml.nn.", "Linear", "Module", "!_x")
  expect_offers("ml.nn.Ident", "Identity")
  expect_offers("ml.nn.Linear.for", "forward")
  expect_has("ml.optim.Ada", "Adam", "AdamW")
  expect_has("ml.", "nn", "optim", "save", "load", "randn", "!_methods", "!_internal",
    "!silu_grad_x", "!native_layer_norm")
  for name in pairs(dofile(arg[0]:gsub("[^/]*$", "../../../stdlib/init.lua"))) do
    expect_has("ml." .. name:sub(1, 2), name)
  end
  expect_offers("ml.silu_g", "")
  expect_has("ml.op", "ops", "optim")
  expect_offers("('x'):up", "")
  _G.text = "abc"
  expect_offers("text:upp", "upper")
  expect_offers("net.missing.x", "")
  expect_offers("f().x", "")
  expect_offers("'a' ..str", "string")
  expect_offers("3", "")
  _G.net, _G.t, _G.text = nil, nil, nil
end)

test("Tab: globals and keywords", function()
  expect_has("", "string", "while", "print", "!_G", "!_VERSION")
  expect_offers("_VER", "_VERSION")
  expect_offers("retur", "return")
  expect_offers("for i = 1, 2 do pri", "print")
  expect_offers("-- pri", "")
  expect_offers("--[[ pri", "")
  expect_offers("--[[ a ]] pri", "print")
end)

test("Tab: options of calls", function()
  expect_offers("ml.randn({3}, {requ", "requires_grad")
  expect_offers("ml.zeros{3, 4, requ", "requires_grad")
  expect_offers("ml.tensor({1, 2}, {dty", "dtype")
  expect_offers("y = ml.ones(2, 3):sum({ keep", "keepdim")
  expect_offers("ml.nn.Conv2d(1, 2, 3, {dil", "dilation")
  expect_offers("ml.nn.Conv2d(1, 2, 3, {padding = 1, stri", "stride")
  expect_offers("ml.nn.Conv2d(1, 2, 3, {padding = stri", "string")
  expect_offers("ml.optim.SGD(net, {mom", "momentum")
  expect_offers("ml.optim.SGD(net, {\nlr = 1,\n  mom", "momentum")
  expect_offers("  mom", "momentum", "o = ml.optim.SGD(net,\n{ lr = 1,\n")
  expect_offers("ml.nn.Linear(2, 3, {bias = f({1, 2}), dev", "device")
  expect_offers("t = {pri", "print")
  expect_offers("f({pri", "print")
  expect_offers("ml.randn({requ", "requires_grad")
  expect_offers("ml.data.DataLoader(set, {bat", "batch_sampler batch_size")
  expect_offers("ml.save('x', t, {meta", "metadata")
  expect_offers("ml.load('x', {mm", "mmap")
  expect_offers("net:load_state_dict(t, {str", "strict")
  expect_offers("ml.nn.functional.cross_entropy(x, y, {red", "reduction")
  expect_offers("loss:backward({retain", "retain_graph")
  expect_offers("ml.plot.line({1, 2}, {x_la", "x_label")
  expect_offers("ml.Storage{read", "read_only")
end)

test("Tab: files inside strings", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir -p '%s/data set' && touch '%s/digits.csv' '%s/.hidden' '%s/ä'")
    :format(folder, folder, folder, folder)))
  local names, word = offers(("ml.load('%s/di"):format(folder))
  expect.equal({ names, word }, { "digits.csv", "di" })
  expect_offers(('io.open("%s/da'):format(folder), "data set/")
  expect_offers(("x = [[%s/"):format(folder), "data set/ digits.csv ä")
  expect_offers(("'%s/.h"):format(folder), ".hidden")
  expect_offers("'/nowhere/x", "")
  expect_offers(("f('a', '%s/dig"):format(folder), "digits.csv")
  expect_offers(("f('it\\'s', \"%s/dig"):format(folder), "digits.csv")
  os.execute(("rm -r '%s'"):format(folder))
end)

-- What a line gives at the prompt.
local function run_line(code)
  local plain = load("return " .. code, "=stdin")
  if plain then code = "return " .. code else plain = assert(load(code, "=stdin")) end
  local bound, message = repl.bind(code)
  if message then error(message, 0) end
  return (bound or plain)()
end

test("locals of a line are there in later ones, as the same variables", function()
  run_line "local n = 0 local function inc() n = n + 1 return n end"
  run_line "inc() inc()"
  expect.equal(run_line "n", 2)
  run_line "n = 10"
  expect.equal(run_line "inc()", 11)
  run_line "local n = 'new'"
  expect.equal({ run_line "n, inc()" }, { "new", 12 })
  expect.equal(rawget(_G, "n"), nil)
  run_line "local k <const>, m = 7, 8 -- the end"
  expect.equal(run_line "k + m", 15)
  expect.error(function() run_line "k = 1" end, "attempt to assign to const variable 'k'")
  run_line "local one <const> = 1"
  expect.equal(run_line "one", 1)
  expect.error(function() run_line "one = 2" end, "const variable 'one'")
  expect.equal(run_line "local z = 4 return z * 2", 8)
  expect.equal(run_line "z", 4)
  run_line "local function f() return f end"
  expect.equal(run_line "f() == f", true)
  run_line "local m = m .. 'x' local m = m .. 'y'"
  expect.equal(run_line "m", "8xy")
  expect_offers("pri", "print")
  run_line "local private = { inside = 1 }"
  expect_offers("pri", "print private")
  expect_offers("private.in", "inside")
end)

test("what blocks declare, and _, end where they end in Lua", function()
  run_line "do local inner = 1 end for i = 1, 2 do local turn = i end"
  run_line "if true then local branch = 1 else local other = 2 end repeat local last = 1 until last"
  run_line "local t = { g = function() local hidden = 1 return hidden end }"
  run_line "local _, second = 'first', 'second'"
  run_line [====[local s1 = "a\z
     local lost1 = 1" local s2 = 'x\
local lost2 = 2' local s3 = [==[ return local lost3 = 3 ]==] --[[ local lost4 = 4 ]] ]====]
  for _, name in ipairs { "inner", "i", "turn", "branch", "other", "last", "hidden", "_", "lost1",
    "lost2", "lost3", "lost4" } do
    expect.equal(run_line(name), nil, name)
  end
  expect.equal(run_line "second .. #s1 .. #s2 .. t.g()", "second16171")
  run_line "goto done local jumped = 1 ::done::"
  expect.equal(run_line "jumped", nil)
  run_line "local _keep = 5"
  expect.equal(run_line "_keep", 5)
  run_line "return"
  local most = {}
  for i = 1, 190 do most[i] = "v" .. i end
  run_line("local " .. table.concat(most, ", ") .. " = 1")
  run_line "local v190 = 2 local w = v1 + v190"
  expect.equal(run_line "w", 3)
end)

test("<close> variables end with the prompt, the last one first", function()
  local order = {}
  _G.closing = function(name)
    return setmetatable({}, { __close = function() order[#order + 1] = name end })
  end
  run_line "local a <close> = closing 'a'"
  run_line "local b <close>, c = closing 'b', 3"
  run_line "local _ <close> = closing '_'"
  expect.equal(order, { "_" })
  expect.error(function() run_line "local d <close> = 5" end, "'d' got a non%-closable value")
  run_line "local e <close> = nil"
  do local _ <close> = repl.block end
  expect.equal(order, { "_", "b", "a" })
  _G.closing = nil
end)

test("the commands of the prompt: one table for calls, Tab and help", function()
  local commands, help = require "moonlet.repl.commands", require "moonlet.help"
  local globals = {}
  commands.install(globals)
  for _, command in ipairs(commands.list) do
    expect.equal(globals[command.name], command.run)
    expect_has(command.name:sub(1, 2), command.name)
    local call = command.name .. command.arguments
    for _, text in ipairs { help.text(), help.text(command.run) } do
      expect.truthy(text:find(call, 1, true) and text:find(command.text, 1, true), text)
    end
    expect.equal(commands.find(command.name), command)
  end
  expect.equal(commands.find "print", nil)
end)

test("Tab: names inside the strings of commands", function()
  expect_offers('help("nn.Ident', "nn.Identity")
  expect_offers("help 'optim.Ada", "optim.Adadelta optim.Adafactor optim.Adagrad optim.Adam optim.AdamW optim.Adamax")
  expect_offers('help( "softmi', "softmin")
  expect_offers('help "nn.nothing', "")
  expect_offers('apropos("/', "")
  local _, word = offers 'help("nn.Ident'
  expect.equal(word, "nn.Ident")
  expect_has("x.help('/", "tmp/")
end)

harness.run()
