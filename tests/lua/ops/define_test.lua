-- tests/lua/ops/define_test.lua: ops that scripts define: how they are called, in all forms, what
-- sees them, and what a definition may not say.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- Every definition of this file gets a name of its own.
local count = 0
local function fresh(rest)
  count = count + 1
  return ("t%d%s"):format(count, rest), "t" .. count
end

local function snake(x, a) return x + (x * a):sin():square() / a end

local function define_snake(more)
  local schema, name = fresh "(Tensor x, float a=1.0) -> Tensor"
  local definition = { schema, forward = snake }
  for key, value in pairs(more or {}) do definition[key] = value end
  return ml.ops.define(definition), name
end

local function equal(got, want) expect.truthy(ml.equal(got, want), tostring(got)) end

test("arguments come by position, by name, and by default", function()
  local f, name = define_snake { method = true }
  local x = ml.randn(3)
  expect.truthy(rawequal(ml[name], f))
  equal(f(x), snake(x, 1.0))
  equal(f(x, 2), snake(x, 2.0))
  equal(f(x, { a = 2 }), snake(x, 2.0))
  equal(f { x, a = 2 }, snake(x, 2.0))
  equal(f { a = 2, x = x }, snake(x, 2.0))
  equal(x[name](x, 2), snake(x, 2.0))
  equal(x[name](x, { a = 2 }), snake(x, 2.0))
end)

test("errors name the op, the argument, what came and what is expected", function()
  local f, name = define_snake()
  local x = ml.ones(2)
  expect.error(function() f(3) end, name .. ": argument 'x' must be a tensor, got number 3")
  expect.error(function() f(x, "two") end, name .. ": argument 'a' must be a number, got string")
  expect.error(function() f() end, name .. ": argument 'x' is missing; use: " .. name .. "%(x, a=1.0%)")
  expect.error(function() f(x, { b = 1 }) end, name .. ": unknown option 'b'")
  expect.error(function() f(x, 1, 2) end, name .. ": too many arguments")
  expect.error(function() f(x, 1, { a = 2 }) end, "argument 'a' is given twice")
  -- The line is that of this file.
  expect.error(function() f(3) end, "define_test%.lua:%d+: " .. name)
end)

test("dimensions and positions count from 1, lists and other types are read", function()
  local seen
  local schema, name = fresh("(Tensor x, Dim dim=-1, int[2] size=3, bool on=true, string how=\"up\", "
    .. "Index at=2, Dim[] dims={1}, Scalar s=1, Tensor? bias, DType? dtype, int[*] all={1, 2}, "
    .. "float[*] weights={0.5}) -> Tensor")
  local f = ml.ops.define { schema, forward = function(...)
    seen = table.pack(...)
    return (...)
  end }
  local x = ml.ones(2, 3)
  f(x)
  expect.equal(seen.n, 12)
  expect.equal(seen[2], -1)
  expect.equal(table.concat(seen[3], " "), "3 3")
  expect.equal(seen[4], true)
  expect.equal(seen[5], "up")
  expect.equal(seen[6], 2)
  expect.equal(table.concat(seen[7], " "), "1")
  expect.equal(seen[8], 1)
  expect.equal(seen[9], nil)
  expect.equal(seen[10], nil)
  expect.equal(table.concat(seen[11], " "), "1 2")
  expect.equal(seen[12][1], 0.5)
  f(x, 2, { 4, 5 }, false, "down", -1, { 1, -1 }, 2.5, x, "float64", { 7 }, { 1, 2.5 })
  expect.equal(seen[2], 2)
  expect.equal(table.concat(seen[3], " "), "4 5")
  expect.equal(seen[6], -1)
  expect.equal(table.concat(seen[7], " "), "1 -1")
  expect.truthy(rawequal(seen[9], x))
  expect.equal(seen[10], "float64")
  expect.error(function() f(x, 0) end, name .. ": dim 0: dimensions start at 1")
  expect.error(function() f(x, { at = 0 }) end, name .. ": at 0: positions start at 1")
  expect.error(function() f(x, { size = { 1, 2, 3 } }) end, "'size' must hold 2 integers, got 3")
end)

test("lists of tensors, and operands", function()
  local sum = ml.ops.define { (fresh "(Tensor[] xs, Operand by=1) -> Tensor"),
    forward = function(xs, by)
      local out = xs[1]
      for i = 2, #xs do out = out + xs[i] end
      return out * by
    end }
  equal(sum { ml.ones(2), ml.ones(2) }, ml.ones(2) * 2)
  equal(sum({ ml.ones(2), ml.ones(2) }, ml.tensor(3.0)), ml.ones(2) * 6)
  equal(sum({ ml.ones(2) }, 0.5), ml.ones(2) * 0.5)
  expect.error(function() sum({ 1 }) end, "item 1 of 'xs' must be a tensor, got number")
end)

test("several results, lists of tensors and plain values", function()
  local parts = ml.ops.define { (fresh "(Tensor x) -> (Tensor low, Tensor high)"),
    forward = function(x) return x:amin(), x:amax() end }
  local low, high = parts(ml.tensor { 1.0, 5, 3 })
  expect.equal(low:item(), 1)
  expect.equal(high:item(), 5)
  local pieces = ml.ops.define { (fresh "(Tensor x) -> Tensor[]"),
    forward = function(x) return { x, x * 2 } end }
  expect.equal(#pieces(ml.ones(2)), 2)
  local count_of = ml.ops.define { (fresh "(Tensor x) -> int"), forward = function(x) return x:numel() end }
  expect.equal(count_of(ml.ones(2, 3)), 6)
  local nothing = ml.ops.define { (fresh "(Tensor! x) -> ()"), forward = function(x) x:zero_() end }
  local x = ml.ones(2)
  expect.equal(select("#", nothing(x)), 0)
  expect.equal(x[1]:item(), 0)
end)

test("a forward that gives other results than the schema says is an error", function()
  local function with(results)
    local schema, name = fresh "(Tensor x) -> Tensor"
    return ml.ops.define { schema, forward = function() return table.unpack(results, 1, results.n) end }, name
  end
  local x = ml.ones(1)
  local f, name = with { n = 0 }
  expect.error(function() f(x) end, name .. ": its forward gives 0 results, 1 is expected")
  f, name = with { x, x, n = 2 }
  expect.error(function() f(x) end, name .. ": its forward gives 2 results, 1 is expected")
  f, name = with { "text", n = 1 }
  expect.error(function() f(x) end, name .. ": result must be a tensor, got string")
  f, name = with { nil, n = 1 }
  expect.error(function() f(x) end, name .. ": result is missing")
end)

test("over the first argument and into given tensors", function()
  local f, name = define_snake { method = true, inplace = true, out = true }
  local x = ml.randn(4)
  local want = f(x, 2)
  local y = x:clone()
  expect.truthy(rawequal(y[name .. "_"](y, 2), y))
  equal(y, want)
  y = x:clone()
  expect.truthy(rawequal(ml[name .. "_"](y, { a = 2 }), y))
  equal(y, want)
  local out = ml.empty(4)
  expect.truthy(rawequal(f(x, 2, { out = out }), out))
  equal(out, want)
  local version = out._version
  f(x, { out = out })
  expect.truthy(out._version > version, "the version does not rise")
  local empty = ml.empty(0)
  f(x, { out = empty })
  expect.equal(empty.shape[1], 4)
  expect.error(function() f(x, { out = ml.empty(3) }) end, name .. ": out has shape %(3,%)")
  expect.error(function() f(x:clone():requires_grad_(true), { out = out }) end,
    name .. ": the out form is not recorded")
  expect.error(function() ml.zeros(2, { dtype = ml.int64 })[name .. "_"](ml.zeros(2, { dtype = ml.int64 })) end,
    name .. "_: result type float32 cannot be stored in int64")
  expect.error(function()
    local leaf = ml.ones(2, { requires_grad = true })
    leaf[name .. "_"](leaf)
  end, "leaf")
end)

test("in place it is recorded", function()
  local f, name = define_snake { inplace = true }
  local change = ml[name .. "_"]
  local function gradient(g)
    local leaf = ml.tensor({ 0.3, 1.2 }, { dtype = ml.float64, requires_grad = true })
    local y = leaf * 2
    local back = g(y)
    return ml.grad((back * back):sum(), leaf)
  end
  equal(gradient(function(y) return change(y, 2) end), gradient(function(y) return f(y, 2) end))
end)

test("several results into given tensors", function()
  local parts = ml.ops.define { (fresh "(Tensor x) -> (Tensor a, Tensor b)"), out = true,
    forward = function(x) return x + 1, x * 2 end }
  local a, b = ml.empty(2), ml.empty(2)
  local c, d = parts(ml.ones(2), { out = { a, b } })
  expect.truthy(rawequal(a, c) and rawequal(b, d))
  equal(a, ml.ones(2) + 1)
  expect.error(function() parts(ml.ones(2), { out = { a } }) end, "'out' must hold 2 tensors, got 1")
end)

test("libraries of ops are namespaces of ml.ops", function()
  count = count + 1
  local space, other = "lib" .. count, "mine" .. count
  ml.ops.define { space .. ".twice(Tensor x) -> Tensor", forward = function(x) return x * 2 end }
  ml.ops.define { space .. ".thrice(Tensor x) -> Tensor", forward = function(x) return x * 3 end }
  equal(ml.ops[space].twice(ml.ones(2)), ml.ones(2) * 2)
  expect.error(function() return ml.ops[space].twise end, "did you mean 'twice'")
  expect.error(function() return ml.ops[other] end, "has no")
  -- A name of the library is free there.
  ml.ops.define { space .. ".exp(Tensor x) -> Tensor", forward = function(x) return x end }
  equal(ml.ops[space].exp(ml.ones(1)), ml.ones(1))
  equal(ml.exp(ml.zeros(1)), ml.ones(1))
  expect.error(function()
    ml.ops.define { "info.f(Tensor x) -> Tensor", forward = function(x) return x end }
  end, "'ml.ops.info' is a function of the library")
end)

test("names of the library are refused, and those of other definitions", function()
  local function define(schema, more)
    local definition = { schema, forward = function(x) return x end }
    for key, value in pairs(more or {}) do definition[key] = value end
    return function() ml.ops.define(definition) end
  end
  expect.error(define "exp(Tensor x) -> Tensor", "'exp' is a name of the library")
  expect.error(define "nn(Tensor x) -> Tensor", "'nn' is a name of the library")
  expect.error(define "compile(Tensor x) -> Tensor", "'compile' is a name of the library")
  expect.error(define "native_conv_grad_weight(Tensor x) -> Tensor", "is a name of the library")
  local schema, name = fresh "(Tensor x) -> Tensor"
  define(schema)()
  expect.error(define(schema), "the op '" .. name .. "' is defined already %(.*define_test%.lua:%d+%)")
  local before = ml[name]
  define(schema, { replace = true })()
  expect.falsy(rawequal(before, ml[name]))
  equal(before(ml.ones(1)), ml.ones(1))
  expect.error(define("shape(Tensor x) -> Tensor", { method = true }), "'shape'")
  expect.error(define("detach(Tensor x) -> Tensor", { method = true }), "'detach'")
end)

test("schemas that cannot be read are refused with a reason", function()
  local function refused(schema, reason)
    expect.error(function() ml.ops.define { schema, forward = function(x) return x end } end, reason, schema)
  end
  for _, schema in ipairs { "", "f", "f()", "f(", "f(Tensor x) Tensor", "(Tensor x) -> Tensor", "f x -> Tensor",
    ("("):rep(5000), "f(Tensor x) -> Tensor -> Tensor", "f)x( -> Tensor" } do
    refused(schema, "ops.define: the schema")
  end
  refused("f1(Tensr x) -> Tensor", "unknown type Tensr for 'x'; did you mean 'Tensor'")
  refused("f1(x) -> Tensor", "has the argument \"x\": expected 'Type name'")
  refused("f1(Tensor x, ) -> Tensor", "has the argument")
  refused("f1(Tensor x, Tensor x) -> Tensor", "has two arguments 'x'")
  refused("f1(Tensor end) -> Tensor", "a word of Lua")
  refused("f1(Tensor out) -> Tensor", "an argument 'out'")
  refused("f1(float a=1, Tensor x) -> Tensor", "'x' without a default after 'a'")
  refused("f1(float a=os.exit()) -> Tensor", "gives 'a' the default os.exit%(%)")
  refused("f1(float a=\"x\") -> Tensor", "argument 'a' must be a number, got string")
  refused("f1(Dim d=0) -> Tensor", "'d' is 0: dimensions start at 1")
  refused("f1(int! n) -> Tensor", "as written, which only a Tensor can be")
  refused("f1(Tensor x) -> Picture", "gives \"Picture\"")
  refused("f1(Tensor x) -> ", "has no result")
  refused("a.b.c(Tensor x) -> Tensor", "names the op 'a.b.c'")
  refused("f_(Tensor x) -> Tensor", "ends as in.* forms do")
  refused("end(Tensor x) -> Tensor", "a word of Lua")
  refused(("x"):rep(200) .. "(Tensor x) -> Tensor", "too long")
  local many = {}
  for i = 1, 30 do many[i] = "Tensor x" .. i end
  refused("f1(" .. table.concat(many, ", ") .. ") -> Tensor", "at most 22 arguments, got 30")
  refused("f1\0(Tensor x) -> Tensor", "ops.define")
end)

test("fields that do not fit are refused", function()
  local function refused(definition, reason)
    definition.forward = definition.forward or function(x) return x end
    expect.error(function() ml.ops.define(definition) end, reason)
  end
  refused({ "f1(Tensor x) -> Tensor", forwrd = 1 }, "unknown option 'forwrd'; did you mean 'forward'")
  refused({ "f1(Tensor x) -> Tensor", forward = 3 }, "'forward'")
  refused({ "f1(Tensor x) -> Tensor", autocast = "half" }, "autocast must be")
  refused({ "f1(Tensor x) -> Tensor", autocast = { gpu = "float32" } }, "unknown option 'gpu'")
  refused({ "f1(Tensor x) -> Tensor", dtypes = "floats" }, "dtypes must be of all")
  refused({ "f1(int x) -> Tensor", method = true }, "whose first argument is a Tensor")
  refused({ "f1(Tensor x) -> (Tensor a, Tensor b)", inplace = true }, "from a Tensor to a Tensor")
  refused({ "f1(Tensor x) -> int", out = true }, "gives tensors")
  refused({ "f1(Tensor x) -> Tensor", args = { y = "no" } }, "unknown option 'y'")
  refused({ "f1(Tensor x) -> Tensor", grad = { y = "g" } }, "'grad' names 'y'")
  refused({ "f1(Tensor x) -> Tensor", grad = { x = "g * z" } }, "names 'z'")
  refused({ "f1(Tensor x) -> Tensor", grad = { x = "g *" } }, "no expression")
  refused({ "f1(Tensor x) -> Tensor", grad = { x = 3 } }, "an expression or a function")
  refused({ "f1(Tensor x) -> Tensor", grad = { x = "g" }, backward = function() end }, "either 'backward' or")
  refused({ "f1(Tensor x) -> Tensor[]", backward = function() end }, "one by one")
  refused({ "f1(Tensor x) -> Tensor", differentiable = false, grad = { x = "g" } }, "differentiable = false")
  expect.error(function() ml.ops.define { "f1(Tensor x) -> Tensor" } end, "'forward' is missing")
  -- None of them is there.
  expect.error(function() return ml.f1 end, "no field 'f1'")
end)

test("errors, yields and recursion inside forward are errors of the call", function()
  local function define(forward)
    return ml.ops.define { (fresh "(Tensor x) -> Tensor"), forward = forward }
  end
  local x = ml.ones(2)
  local f = define(function() error "from the body" end)
  expect.error(function() f(x) end, "define_test%.lua:%d+: from the body")
  f = define(function(v) return v:matmul(ml.ones(3, 3)) end)
  expect.error(function() f(x) end, "define_test%.lua:%d+: matmul: inner sizes differ")
  f = define(function() error({ code = 7 }) end)
  local ok, value = pcall(f, x)
  expect.truthy(not ok and value.code == 7)
  f = define(function() coroutine.yield(1) end)
  ok, value = coroutine.resume(coroutine.create(f), x)
  expect.truthy(not ok and tostring(value):find "yield", tostring(value))
  local g
  g = define(function(v) return g(v) end)
  expect.error(function() g(x) end, "stack overflow")
  -- It defines itself anew while it runs.
  local schema, own = fresh "(Tensor x) -> Tensor"
  local function again(v)
    ml.ops.define { schema, forward = again, replace = true }
    return v * 2
  end
  ml.ops.define { schema, forward = again }
  for _ = 1, 3 do equal(ml[own](x), x * 2) end
  equal(f and x, x)
end)

test("forward may free its arguments, and collect garbage", function()
  local f = ml.ops.define { (fresh "(Tensor x) -> Tensor"), forward = function(x)
    local y = x * 2
    x:free()
    collectgarbage()
    return y
  end }
  equal(f(ml.ones(2)), ml.ones(2) * 2)
  local g, name = define_snake()
  local freed = ml.ones(1)
  freed:free()
  expect.error(function() g(freed) end, name .. ": argument 'x'.*freed")
end)

test("calls in coroutines, and ops kept over collections", function()
  local f, name = define_snake()
  local results = {}
  local routine = coroutine.wrap(function()
    results[1] = f(ml.ones(2))
    coroutine.yield()
    results[2] = ml[name](ml.ones(2))
  end)
  routine()
  collectgarbage()
  routine()
  equal(results[1], results[2])
end)

test("ml.ops and help know them", function()
  local _, name = define_snake { method = true, inplace = true, doc = "Snake activation.",
    args = { a = "the frequency" }, formula = "y = x + sin(a x)^2 / a", dtypes = "floating",
    autocast = "lower_precision" }
  local info = ml.ops.info(name)
  expect.equal(info.kind, "composite")
  expect.equal(info.schema, name .. "(Tensor x, float a=1.0) -> Tensor")
  expect.equal(info.arguments[2].default, "1.0")
  expect.equal(info.autocast.cpu, "lower_precision")
  expect.truthy(table.concat(info.dtypes, " "):find "float32")
  expect.falsy(table.concat(info.dtypes, " "):find "int64")
  expect.truthy((" " .. table.concat(ml.ops.list(), " ") .. " "):find(" " .. name .. " ", 1, true))
  expect.error(function() ml.ops.info(name .. "q") end, "did you mean '" .. name)
  for _, subject in ipairs { name, "ml." .. name, "x:" .. name, name .. "_", ml[name] } do
    local text = ml.help.text(subject)
    expect.truthy(text:find "Snake activation%." and text:find "the frequency" and text:find "defined at",
      text)
  end
  expect.truthy(ml.help.search("snake"):find(name, 1, true))
  expect.error(function() ml[name](ml.ones(2, { dtype = ml.int64 })) end, name .. ".*int64")
end)

harness.run(arg[1])
