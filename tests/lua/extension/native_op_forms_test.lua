-- tests/lua/extension/native_op_forms_test.lua: what scripts can do with ops of an extension: forms,
-- arguments, errors, transforms, modes, programs, several interpreters. Run by
-- tests/extensions/host.cpp, which has loaded it as `extension`.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "op_checks"

local test, expect = harness.test, harness.expect
local mylib = ml.ops.mylib

-- What the host has set.
local host = setmetatable({}, { __index = function(_, name) return rawget(_G, name) end })
local extension, check_extension_file = host.extension, host.check_extension_file
local in_another_interpreter, in_a_plain_state = host.in_another_interpreter, host.in_a_plain_state

local function same(what, got, want) checks.compare(what, got, want, 0) end
local function close(what, got, want, tol) checks.compare(what, got, want, tol or 1e-9) end

local function snake(x, a)
  a = a or 1
  return x + (a * x):sin() ^ 2 / a
end

local function doubles(...) return ml.randn(...):double() end

-- --- what loading gives ---------------------------------------------------------------------------

test("the module has functions, values, classes and ops", function()
  expect.equal(extension.twice(4.0), 8.0)
  expect.equal(extension.answer, 42)
  same("shifted", extension.shifted(ml.ones(2), 2.0), ml.ones(2) * 3)
  local counter = extension.Counter(3)
  expect.equal(counter:add(4), 7)
  expect.equal(extension.snake, mylib.snake)
  expect.equal(extension.snake_, mylib.snake_)
  expect.error(function() extension.twice "a" end, "mylib.twice: argument 1: expected number, got string 'a'")
  expect.error(function() extension.Counter("a") end, "Counter")
end)

test("functions and methods", function()
  local x = doubles(3, 4)
  close("function", mylib.snake(x, 2.0), snake(x, 2))
  same("method", x:snake(2.0), mylib.snake(x, 2.0))
  same("default", x:snake(), mylib.snake(x, 1.0))
  same("without a library", ml.mylib_doubled(x), x + x)
  same("its method", x:mylib_doubled(), x + x)
  expect.equal(ml._methods.sum_of, nil)
  expect.error(function() return mylib.snaky end, "snake")
end)

test("arguments by name, from 1, and their errors", function()
  local x = doubles(3, 4)
  same("by name", mylib.snake { x, a = 2.0 }, mylib.snake(x, 2.0))
  same("all by name", mylib.snake { x = x, a = 2.0 }, mylib.snake(x, 2.0))
  local norm, mean = mylib.norm_and_mean(x, 1)
  expect.equal(tostring(norm.shape), "(4,)")
  close("mean", mean, x:mean(1))
  local last = mylib.norm_and_mean(x)
  close("the last dim", last, x:norm(2, 2))
  same("from the end", mylib.norm_and_mean(x, -2), norm)
  expect.error(function() mylib.norm_and_mean(x, 3) end, "mylib::norm_and_mean")
  expect.error(function() mylib.norm_and_mean(x, 0) end, "mylib::norm_and_mean.*start at 1")
  expect.error(function() mylib.norm_and_mean(ml.tensor(2), 1) end,
    "mylib::norm_and_mean: argument 'dim': expected a tensor of 1 dimension or more, got 0")
  expect.error(function() mylib.snake() end, "mylib::snake")
  expect.error(function() mylib.snake(3) end, "mylib::snake.*'x'.*tensor")
  expect.error(function() mylib.snake(x, "b") end, "mylib::snake.*'a'.*number")
  expect.error(function() mylib.snake(x, 1, 2) end, "mylib::snake")
  expect.error(function() mylib.snake { x, b = 2 } end, "mylib::snake.*'b'")
  expect.equal(mylib.snake(x:long()).dtype, "float32")
  expect.error(function() mylib.snake(x:to "complex64") end, "mylib::snake: dtype complex64 is not supported")
  expect.error(function() mylib.swish(x:long()) end, "mylib::swish.*int64")
  expect.error(function() mylib.affine(x, x:float()) end, "mylib::affine.*float")
  expect.error(function() mylib.affine(x, x, x[1]) end, "mylib::affine: shapes differ")
  expect.error(function() mylib.signs(x, 2.5) end, "mylib::signs.*'base'.*integer")
  same("a string", mylib.signs(x, 3, "down"), x:sign() * -3)
  same("a string's default", mylib.signs { x, base = 3 }, x:sign() * 3)
end)

test("a tensor or a number, and a tensor that may be left out", function()
  local x, y = doubles(3, 4), doubles(4)
  close("broadcasts", mylib.blend(x, y, 0.25), x + 0.25 * (y - x))
  close("a number", mylib.blend(x, 3), x + 0.5 * (3 - x))
  close("complex", mylib.blend(x:to "complex128", y), (x + 0.5 * (y - x)):to "complex128")
  expect.equal(mylib.blend(x:float(), y).dtype, "float64")
  close("left out", mylib.affine(x, x), x * x)
  close("given", mylib.affine(x, x, x), x * x + x)
  expect.equal(mylib.halved(ml.tensor({ 7, -7 }, { dtype = "int16" })).dtype, "int16")
  same("of integers", mylib.halved(ml.tensor { 7, -7 }:long()), ml.tensor { 3, -3 }:long())
end)

-- --- forms ----------------------------------------------------------------------------------------

test("in place", function()
  local x = doubles(3, 4)
  local want, version = mylib.snake(x), x._version
  expect.equal(x:snake_(), x)
  same("snake_", x, want)
  expect.truthy(x._version > version)
  local rows, scale = doubles(3, 4), doubles(3)
  local scaled = rows * scale:unsqueeze(2)
  same("on a copy", mylib.scale_rows(rows, scale), scaled)
  local before = rows:clone()
  same("unchanged", rows, before)
  mylib.scale_rows_(rows, scale)
  same("scale_rows_", rows, scaled)
  local square = doubles(3, 3)
  local diagonal = square * square:diagonal():unsqueeze(2)
  mylib.scale_rows_(square, square:diagonal())
  same("reads what it writes", square, diagonal)
  expect.error(function() mylib.scale_rows_(ml.ones(1, 4):expand(3, 4), ml.ones(3)) end, "mylib::scale_rows")
  expect.error(function() mylib.scale_rows(rows, ml.ones(2):double()) end, "mylib::scale_rows: expected x %(n, m%)")
end)

test("in place with a history", function()
  local x, scale = doubles(3, 4):requires_grad_(true), doubles(3):requires_grad_(true)
  local function loss(change)
    local y = x * 2
    local view = y[{ {}, { 1, 2 } }]
    y = change(y)
    return (y ^ 3):sum() + (view ^ 2):sum()
  end
  local got = { ml.grad(loss(function(y) return mylib.scale_rows_(y, scale) end), { x, scale }) }
  local want = { ml.grad(loss(function(y) return y:mul_(scale:unsqueeze(2)) end), { x, scale }) }
  close("by x", got[1], want[1])
  close("by scale", got[2], want[2])
  local by_snake = ml.grad(loss(function(y) return y:snake_(2.0) end), x)
  close("snake_", by_snake, ml.grad(loss(function(y) return y:copy_(snake(y * 1, 2)) end), x))
  expect.error(function() x:snake_() end, "leaf")
  expect.error(function() mylib.scale_rows_(x, scale) end, "leaf")
end)

test("out=", function()
  local x = doubles(3, 4)
  local out = ml.empty(3, 4):double()
  expect.equal(mylib.snake { x, out = out }, out)
  same("snake", out, mylib.snake(x))
  local norm, mean = ml.empty(3):double(), ml.empty(3):double()
  mylib.norm_and_mean { x, 2, out = { norm, mean } }
  local norm2, mean2 = mylib.norm_and_mean(x, 2)
  same("norm", norm, norm2)
  same("mean", mean, mean2)
  -- It is computed where it is to be, unless it is read or looks otherwise.
  local memory = out:data_ptr()
  mylib.snake { out, out = out }
  same("of itself", out, mylib.snake(mylib.snake(x)))
  local other = ml.empty(4, 3):double():t()
  mylib.affine { x, x, out = other }
  same("of other strides", other, x * x)
  mylib.affine { other, other, other, out = other }
  same("of arguments", other, (x * x) * (x * x) + x * x)
  mylib.blend { x, 1, out = out }
  same("a pointwise op's", out, mylib.blend(x, 1))
  expect.equal(out:data_ptr(), memory)
  local half = ml.empty(3, 4, { dtype = "float16" })
  mylib.snake { x, out = half }
  same("of another dtype", half, mylib.snake(x):half())
  local empty = ml.empty { 0 }:double()
  same("an empty one takes the shape", mylib.snake { x, out = empty }, mylib.snake(x))
  expect.error(function() mylib.snake { x, out = ml.empty(2, 2):double() } end, "mylib::snake")
  expect.error(function() mylib.affine { x, x, out = ml.empty(2, 2):double() } end, "mylib::affine")
  expect.error(function() mylib.snake { x, out = ml.empty(3, 4):long() } end, "mylib::snake")
  expect.error(function() mylib.norm_and_mean { x, 2, out = { norm, norm } } end, "mylib::norm_and_mean")
  expect.error(function() mylib.snake { x, out = ml.empty(1, 4):double():expand(3, 4) } end, "mylib::snake")
  local before = out._version
  mylib.snake { x, out = out }
  expect.truthy(out._version > before)
  mylib.swish { x, out = out }
  same("a composite's", out, mylib.swish(x))
  expect.error(function() mylib.snake { x:requires_grad_(true), out = out } end,
    "mylib::snake: the out form is not recorded")
end)

-- --- derivatives ----------------------------------------------------------------------------------

test("gradcheck and gradgradcheck", function()
  local x = doubles(3, 4):requires_grad_(true)
  for name, f in pairs {
    snake = function(t) return mylib.snake(t, 1.5) end,
    blend = function(t) return mylib.blend(t, t * t, 0.3) end,
    affine = function(t) return mylib.affine(t, t * 2, t) end,
    norm_and_mean = function(t) return mylib.norm_and_mean(t, 2) end,
    scale_rows = function(t) return mylib.scale_rows(t, t:sum(2)) end,
    sum_of = function(t) return mylib.sum_of { t, t * t, t } end,
    cube = mylib.cube, swish = mylib.swish, mylib_doubled = ml.mylib_doubled,
  } do
    expect.truthy(ml.autograd.gradcheck(f, { x }), name)
    expect.truthy(ml.autograd.gradgradcheck(f, { x }), name)
  end
end)

test("nodes have the op's name and what it saves", function()
  local x = doubles(3):requires_grad_(true)
  local y = mylib.norm_and_mean(x)
  expect.equal(y.grad_fn.name, "NormAndMeanBackward")
  same("saved", y.grad_fn._saved_x, x)
  same("saved result", y.grad_fn._saved_norm, y)
  expect.equal(mylib.cube(x).grad_fn.name, "MulBackward")
  expect.equal(mylib.swish(x).grad_fn.name, "SwishBackward")
  expect.falsy(mylib.signs(x).requires_grad)
  local z = mylib.snake(x)
  x:detach():add_(1)
  expect.error(function() z:sum():backward() end, "changed in place")
end)

test("only the gradients that are wanted", function()
  local x, w = doubles(3), doubles(3):requires_grad_(true)
  local y = mylib.affine(x, w)
  close("by w", ml.grad(y:sum(), w), x)
  expect.error(function() ml.grad(y:sum(), w) end, "freed")
end)

-- --- transforms -----------------------------------------------------------------------------------

local jvp = ml.func.jvp

test("forward mode: by the gradient, by a rule, linear, in place", function()
  local x, t = doubles(3, 4), doubles(3, 4)
  local _, got = jvp(function(v) return mylib.snake(v, 2.0) end, { x }, { t })
  local _, want = jvp(function(v) return snake(v, 2) end, { x }, { t })
  close("snake", got, want)
  _, got = jvp(function(v, w) return mylib.blend(v, w, 0.25) end, { x, t }, { t, x })
  close("a rule", got, 0.75 * t + 0.25 * x)
  _, got = jvp(function(v) return mylib.blend(t, v, 0.25) end, { x }, { t })
  close("a rule, of one", got, 0.25 * t)
  _, got = jvp(function(v, w) return mylib.sum_of { v, w, x } end, { x, t }, { t, x })
  close("linear", got, t + x)
  _, got = jvp(function(v) return (v * 1):snake_(2.0) end, { x }, { t })
  close("in place", got, want)
  _, got = jvp(function(v) return mylib.scale_rows_(v * 1, v:sum(2)) end, { x }, { t })
  _, want = jvp(function(v) return v * v:sum(2):unsqueeze(2) end, { x }, { t })
  close("an update", got, want)
  for _, name in ipairs { "cube", "swish" } do
    local plain = { cube = function(v) return v ^ 3 end, swish = function(v) return v * v:sigmoid() end }
    _, got = jvp(mylib[name], { x }, { t })
    _, want = jvp(plain[name], { x }, { t })
    close(name, got, want)
  end
end)

test("vmap, and vmap of gradients", function()
  local x = doubles(5, 3, 4)
  local vmap, grad = ml.func.vmap, ml.func.grad
  same("pointwise", vmap(function(v) return mylib.snake(v, 2.0) end)(x), mylib.snake(x, 2.0))
  same("a rule", (vmap(function(v) return (mylib.norm_and_mean(v, 1)) end)(x)), (mylib.norm_and_mean(x, 2)))
  same("all", vmap(function(v) return mylib.affine(v, v) end)(x), mylib.affine(x, x))
  same("composite", vmap(mylib.cube)(x), mylib.cube(x))
  local rows = vmap(function(v) return mylib.scale_rows(v, v:sum(2)) end)(x)
  close("sample by sample", rows, x * x:sum(3):unsqueeze(3))
  close("in place", vmap(function(v) return mylib.scale_rows_(v * 1, v:sum(2)) end)(x), rows)
  close("whole", vmap(mylib.swish)(x), mylib.swish(x))
  local by_sample = vmap(grad(function(v) return mylib.snake(v, 2.0):sum() end))(x)
  close("gradients", by_sample, 1 + (4 * x):sin())
  local hessian = ml.func.hessian(function(v) return mylib.snake(v, 1.0):sum() end)(x[1][1])
  close("hessian", hessian, ml.diag(2 * (2 * x[1][1]):cos()))
end)

test("checkpoint", function()
  local x = doubles(3, 4):requires_grad_(true)
  local y = ml.utils.checkpoint.checkpoint(function(v) return mylib.swish(mylib.snake(v, 2.0)) end, x)
  close("gradient", ml.grad(y:sum(), x), ml.grad(mylib.swish(mylib.snake(x, 2.0)):sum(), x))
end)

-- --- modes ----------------------------------------------------------------------------------------

test("interception", function()
  local x, seen = doubles(3), {}
  do
    local _ <close> = ml.override(function(op, arguments, proceed)
      seen[#seen + 1] = op.name
      if op.name == "mylib::snake" then
        arguments.a = 3.0
      end
      return proceed(arguments)
    end)
    close("changed", mylib.snake(x, 2.0), snake(x, 3))
    seen = {}
    mylib.cube(x)
    mylib.swish(x)
    local y = x:clone()
    y:snake_()
    mylib.snake { x, out = y }
  end
  expect.equal(table.concat(seen, " "), "mylib::cube mul mul mylib::swish clone mylib::snake_ mylib::snake_out")
end)

test("autocast", function()
  local x = ml.randn(3)
  local _ <close> = ml.autocast("cpu", { dtype = "bfloat16" })
  expect.equal(mylib.affine(x, x).dtype, "bfloat16")
  expect.equal(mylib.snake(x).dtype, "float32")
end)

test("the profiler counts calls by name", function()
  local x = doubles(3)
  local profile = ml.profile(function()
    mylib.snake(x)
    mylib.snake(x)
    mylib.cube(x)
  end)
  local counts = {}
  for _, event in ipairs(profile.events) do counts[event.name] = (counts[event.name] or 0) + event.count end
  expect.equal(counts["mylib::snake"], 2)
  expect.equal(counts["mylib::cube"], 1)
  expect.equal(counts.mul, 2)
end)

-- --- programs -------------------------------------------------------------------------------------

local function layers(x, w)
  local y = mylib.snake(x * 2, 1.5) + 1
  local norm, mean = mylib.norm_and_mean(y, 1)
  y = mylib.affine(y, w) / norm - mean
  return mylib.scale_rows(mylib.swish(mylib.cube(y)), y:sum(2))
end

test("compiled functions have the bits of eager ones, and their gradients", function()
  local x, w = ml.randn(3, 4), ml.randn(3, 4)
  local fast = ml.compile(layers)
  for _ = 1, 4 do same("result", fast(x, w), layers(x, w)) end
  local report = tostring(fast:explain())
  expect.truthy(report:find("mylib::snake", 1, true), report)
  expect.falsy(report:find("eager", 1, true), report)
  local a, b = x:clone():requires_grad_(true), w:clone():requires_grad_(true)
  local train = ml.compile(function(p, q) return layers(p, q):sum() end)
  for _ = 1, 4 do
    local want = { ml.grad(layers(a, b):sum(), { a, b }) }
    local got = { ml.grad(train(a, b), { a, b }) }
    same("by x", got[1], want[1])
    same("by w", got[2], want[2])
  end
  local out = ml.empty(3, 4)
  local into = ml.compile(function(v)
    mylib.affine { mylib.snake { v * 2, out = out }, v, out = out }
    return out * 2
  end)
  for _ = 1, 4 do same("out", into(x), mylib.affine(mylib.snake(x * 2), x) * 2) end
  expect.truthy(tostring(into:explain()):find("mylib::affine", 1, true), tostring(into:explain()))
  local in_place = ml.compile(function(v)
    local y = v * 1
    y:snake_(2.0)
    mylib.scale_rows_(y, v:sum(2))
    return y
  end)
  for _ = 1, 4 do
    same("in place", in_place(x), mylib.scale_rows(mylib.snake(x, 2.0), x:sum(2)))
  end
end)

test("programs in files", function()
  local x, w = ml.randn(3, 4), ml.randn(3, 4)
  local program = ml.export(layers, { x, w })
  same("exported", program(x, w), layers(x, w))
  harness.with_temp_file(function(path)
    program:save(path)
    same("loaded", ml.load(path)(x, w), layers(x, w))
    local code = ([[
      local ml = require "moonlet"
      local program = ml.load(%q)
      local ok, y = pcall(program, ml.ones(3, 4), ml.ones(3, 4))
      return tostring(ok)]]):format(path)
    expect.equal(in_another_interpreter(code), "true")
    -- As where no extension has declared the op, or another one of that name.
    local file <close> = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    local function changed(from, to)
      local replaced, count = bytes:gsub(from, to)
      expect.truthy(count > 0)
      local out <close> = assert(io.open(path, "wb"))
      out:write(replaced)
    end
    changed("mylib::snake", "mylib::snaky")
    expect.error(function() return ml.load(path) end, "it needs the op 'mylib::snaky', which is not there")
    changed("float a=1.0", "float a=9.0")
    expect.error(function() return ml.load(path) end,
      "it needs the op 'mylib::snake' as mylib::snake%(Tensor x, float a=9.0%) %-> Tensor, here it is")
  end)
end)

-- --- interpreters and files ------------------------------------------------------------------------

test("another interpreter loads the same library", function()
  expect.equal(in_another_interpreter [[
    local ml = require "moonlet"
    local x = ml.ones(2):double()
    assert(extension.snake == ml.ops.mylib.snake and extension.Counter(1):add(2) == 3)
    return ("%.6f"):format(x:snake(2.0)[1]:item())]],
    ("%.6f"):format(mylib.snake(ml.ones(2):double(), 2.0)[1]:item()))
end)

test("a state that no host has opened", function()
  local path = os.tmpname()
  expect.equal(in_a_plain_state(([[
    log = function(text)
      local file <close> = io.open(%q, "a")
      file:write(text, "\n")
    end
    -- Older than all that the extension makes, so that its finalizer runs last.
    watch = setmetatable({}, { __gc = function()
      log("at the end " .. tostring(extension.twice(4)) .. " " .. tostring(pcall(extension.Counter, 1)))
    end })]]):format(path), [[
    local ml = require "moonlet"
    local counter = extension.Counter(3)
    assert(counter:add(4) == 7 and extension.snake == ml.ops.mylib.snake)
    held = setmetatable({ counter }, { __gc = function(t) log("counter " .. t[1]:add(1)) end })
    for _ = 1, 3 do
      local ok, message = pcall(extension.twice, "a")
      assert(not ok and message:find "mylib.twice: argument 1", message)
    end
    local thread = coroutine.wrap(function() coroutine.yield(extension.twice(2)) end)
    local x = ml.ones(2, { requires_grad = true })
    x:snake():sum():backward()
    return ("%.4f %g"):format(x.grad[1]:item(), thread())]]), ("%.4f %g"):format(1 + math.sin(2), 4))
  local file <close> = assert(io.open(path))
  expect.equal(file:read "a", "counter 8\nat the end 8.0 true\n")
  os.remove(path)
  expect.truthy(in_a_plain_state("mylib_doubled = 1 require('moonlet').mylib_doubled = print", "")
    :find "native_op: ml.mylib_doubled is another function already")
end)

test("files that are no extension, or of other headers", function()
  harness.with_temp_file(function(path)
    local function write(text)
      local file <close> = assert(io.open(path, "wb"))
      file:write(text)
    end
    write "nothing of it"
    expect.error(function() check_extension_file(path) end, "is no extension of Moonlet")
    write "\0moonlet-extension-abi: 0.0.1 headers 0123, libstdc++\0"
    expect.error(function() check_extension_file(path) end,
      "compiled against other headers %(0.0.1 headers 0123, libstdc%+%+%)")
  end)
  expect.error(function() check_extension_file "/no/such/file.so" end, "/no/such/file.so: cannot be read")
end)

-- --- wrong calls ----------------------------------------------------------------------------------

local values = {
  function() return ml.randn(3, 4) end, function() return ml.randn {} end, function() return ml.randn(0, 3) end,
  function() return ml.randn(3, 4):double() end, function() return ml.randn(4, 3):t() end,
  function() return ml.randn(2, 3, 4):half() end, function() return ml.randint(-3, 3, { 3, 4 }) end,
  function() return ml.randn(3):to "complex64" end, function() return ml.ones(3):bool() end,
  function() return ml.randn(1, 4):expand(3, 4) end, function() return doubles(3, 4):requires_grad_(true) end,
  function() return ml.randn(4, { requires_grad = true }) * 2 end, function() return -1 end,
  function() return 0 end, function() return 3 end, function() return 1.5 end, function() return 0 / 0 end,
  function() return math.mininteger end, function() return "up" end, function() return true end,
  function() return {} end, function() return { ml.ones(3), ml.ones(3) } end, function() return { 1, 2 } end,
  function() return print end, function() return ml.complex(1, 2) end, function() return nil end,
  function()
    local freed = ml.ones(3)
    freed:free()
    return freed
  end,
}

-- An op called with anything computes or fails by an error that has a name in it.
test("calls with arguments of all kinds", function()
  local names, state = {}, 12345
  for name in pairs(mylib) do names[#names + 1] = name end
  table.sort(names)
  local function pick(list)
    state = (state * 1103515245 + 12345) % 2147483648
    return list[(state >> 8) % #list + 1]
  end
  local fine = 0
  for _ = 1, 2000 do
    local name, args = pick(names), { n = pick { 0, 1, 1, 2, 2, 3, 4 } }
    for k = 1, args.n do args[k] = pick(values)() end
    if pick { true, false, false, false } then
      args.n = args.n + 1
      args[args.n] = { out = pick(values)(), dim = pick(values)() }
    end
    local call = pick { "plain", "plain", "plain", "vmap" } == "vmap" and ml.func.vmap(mylib[name]) or mylib[name]
    local results = table.pack(pcall(call, table.unpack(args, 1, args.n)))
    if not results[1] then
      expect.truthy(tostring(results[2]):find "[%w_]+: ", tostring(results[2]))
    else
      fine = fine + 1
    end
  end
  expect.truthy(fine > 100, fine)
end)

test("ops that scripts define have other names", function()
  expect.error(function()
    ml.ops.define { "mylib.snake(Tensor x) -> Tensor", forward = function(x) return x end }
  end, "ops.define: 'snake' is a name of the library")
  expect.error(function()
    ml.ops.define { "mylib_doubled(Tensor x) -> Tensor", forward = function(x) return x end }
  end, "ops.define: 'mylib_doubled'")
end)

test("what ml.ops.info says", function()
  local info = ml.ops.info "mylib::snake"
  expect.equal(info.schema, "mylib::snake(Tensor x, float a=1.0) -> Tensor")
  expect.equal(info.kind, "pointwise")
  expect.equal(info.declared.call, "ops.mylib.snake")
  expect.equal(info.declared.usage, "ops.mylib.snake(x, a=1.0)")
  expect.equal(ml.ops.info("mylib::norm_and_mean").declared.usage, "ops.mylib.norm_and_mean(x, dim=-1)")
  expect.equal(ml.ops.info("exp").declared, nil)
end)

test("help and stubs", function()
  local text = ml.help.text "mylib.snake"
  expect.truthy(text:find("ml.ops.mylib.snake(x, a=1.0) -> Tensor", 1, true), text)
  expect.truthy(text:find("x:snake(a=1.0)", 1, true), text)
  expect.truthy(text:find("the frequency, above 0", 1, true), text)
  for _, subject in ipairs { mylib.snake, mylib.snake_, extension.snake, "snake", "mylib::snake", "ops.mylib.snake_" } do
    expect.equal(ml.help.text(subject), text)
  end
  expect.truthy(ml.help.text(mylib.norm_and_mean):find("norm, mean", 1, true))
  local stubs = ml.ops.stubs()
  expect.truthy(load(stubs:gsub("^", "local ml = { ops = {} } ")), stubs)
  local stub = "---@param a? number the frequency, above 0\n---@return moonlet.Tensor y\n"
    .. "function ml.ops.mylib.snake(x, a) end"
  expect.truthy(stubs:find(stub, 1, true), stubs)
  expect.truthy(stubs:find("function Tensor:scale_rows_(scale) end", 1, true), stubs)
end)

harness.run()
