-- tests/lua/interp/bad_input_test.lua: wrong input at language level: every mistake is a Lua error that
-- names the op and what was wanted, and the process goes on. Random wrong calls are in tests/fuzz.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- Each row: a call and a pattern its error must match.
local function mistakes(name, rows)
  test(name, function()
    local failures = {}
    for _, row in ipairs(rows) do
      local line = debug.getinfo(row[1], "S").linedefined
      local ok, message = pcall(expect.error, row[1], row[2], "line " .. line)
      if not ok then failures[#failures + 1] = message end
      expect.equal((ml.ones(2) + 1):sum():item(), 4.0)
    end
    if #failures > 0 then error(table.concat(failures, "\n"), 0) end
  end)
end

local x = ml.ones(3, 4)
local cube = ml.ones(2, 3, 4)

test("a userdata keeps its metatable", function()
  local meta = debug.getmetatable(ml.ones(1))
  local file = io.tmpfile()
  expect.error(function() debug.setmetatable(file, meta) end, "a userdata keeps its metatable")
  file:close()
  expect.equal(debug.setmetatable({ 7 }, nil)[1], 7)
  expect.error(function() return ml.add(setmetatable({}, meta), 1) end, "got table")
end)

mistakes("keys that name nothing", {
  { function() return ml.zeros { 2, [x] = 3 } end, "zeros: an option's name must be a string, got userdata" },
  { function() return ml.zeros { 2, [0] = 3 } end, "zeros: an option's name must be a string, got number" },
  { function() return x:sum { [true] = 1 } end, "sum: an option's name must be a string, got boolean" },
  { function() return ml.cat { x, x, [9] = x } end, "cat: an option's name must be a string, got number" },
  { function() return ml.tensor { 1, 2, [1.5] = 3 } end, "tensor: an option's name must be a string" },
  { function() return ml.Storage { 1, 2, [-1] = 3 } end, "Storage: an option's name must be a string" },
})

test("a light userdata does not pass as a value of the library", function()
  local light = debug.upvalueid(test, 1)
  for _, value in ipairs { ml.ones(1), ml.ones(1):storage(), ml.Generator(), ml.no_grad,
    io.stdout } do
    local meta = debug.getmetatable(value)
    expect.error(function() debug.setmetatable(light, meta) end, "a userdata keeps its metatable")
  end
  expect.error(function() return ml.add(light, 1) end, "got")
end)

test("metamethods with a wrong self", function()
  local guard <close> = ml.no_grad()
  local profile <close>, mode = nil, ml.ones(1)
  local values = { ml.ones(2), ml.ones(2):storage(), ml.Generator { seed = 1 }, guard, mode,
    debug.getmetatable(io.stdout) and io.stdout }
  local wrong = { 42, "x", {}, print, debug.upvalueid(test, 1), io.stdout, table.unpack(values) }
  for i, value in ipairs(values) do
    local meta = debug.getmetatable(value)
    for name, method in pairs(meta) do
      if type(method) == "function" and not (i == 6 or name == "__close" or name == "__gc") then
        pcall(method)
        for _, self in ipairs(wrong) do
          pcall(method, self)
          pcall(method, self, self, self)
        end
      end
    end
    for _, name in ipairs { "__gc", "__close" } do
      if i < 6 and meta[name] then
        pcall(meta[name])
        for k = 1, 5 do pcall(meta[name], wrong[k]) end
      end
    end
  end
  expect.equal(profile, nil)
  expect.equal((ml.ones(2) + 1):sum():item(), 4.0)
end)

test("finalizers of the library's own values, called on others", function()
  local workers = require "moonlet.workers"
  local pool = workers.start(1, "moonlet.data.worker")
  local values = { workers.kept(), pool }
  if ml.cuda.is_available() then
    for _, v in pairs(ml.cuda.CUDAGraph()) do
      if type(v) == "userdata" then values[#values + 1] = v end
    end
    expect.equal(#values, 3)
  end
  local others = { 42, "x", {}, print, io.stdout, ml.ones(2), ml.Generator(), workers.kept(), pool }
  for _, value in ipairs(values) do
    local meta = debug.getmetatable(value)
    for _, name in ipairs { "__gc", "__close" } do
      if meta[name] then
        pcall(meta[name])
        for _, other in ipairs(others) do pcall(meta[name], other) end
      end
    end
  end
  expect.error(function() workers.exchange(ml.ones(1)) end, "what `kept` gave is expected")
  expect.error(function() pool:send(1) end, "a pool is expected")
end)

test("finalizers that a script calls itself", function()
  local freed, s, g = ml.ones(3), ml.ones(3):storage(), ml.Generator()
  for _, value in ipairs { freed, s, g } do
    local finish = debug.getmetatable(value).__gc
    if finish then
      finish(value)
      finish(value)
    end
  end
  expect.error(function() return freed + 1 end, "freed")
  expect.error(function() return s[1] end, "freed")
  for _ = 1, 2 do
    do
      local mode = ml.override(function(_, arguments, call) return call(arguments) end)
      local meta = debug.getmetatable(mode)
      meta.__gc(mode)
      meta.__gc(mode)
      pcall(meta.__close, mode)
    end
    collectgarbage()
  end
  local guard = ml.no_grad()
  local meta = debug.getmetatable(guard)
  meta.__gc(guard)
  meta.__gc(guard)
  meta.__close(guard)
  expect.equal(ml.is_grad_enabled(), true)
  collectgarbage()
  expect.equal((ml.ones(2) + 1):sum():item(), 4.0)
end)

test("C functions keep their upvalues, arguments and the registry", function()
  local meta = debug.getmetatable(x)
  expect.equal(select("#", debug.getupvalue(meta.__index, 1)), 0)
  expect.error(function() debug.setupvalue(meta.__index, 1, nil) end, "keeps its upvalues")
  expect.error(function() debug.setupvalue(coroutine.wrap(print), 1, nil) end, "keeps its upvalues")
  expect.error(function() debug.getregistry() end, "not for scripts")
  ml.no_grad(function()
    expect.error(function() debug.setlocal(2, 1, nil) end, "keeps its values")
  end)
  -- What belongs to Lua functions is theirs.
  local a, b = 1, 2
  local function f() return a + b end
  expect.equal(select(2, debug.getupvalue(f, 1)), 1)
  debug.setupvalue(f, 1, 5)
  expect.equal(f(), 7)
  local function set()
    local v = 1
    debug.setlocal(1, 1, 9)
    return v
  end
  expect.equal(set(), 9)
  local co = coroutine.create(function()
    local v = 1
    coroutine.yield()
    return v
  end)
  coroutine.resume(co)
  debug.setlocal(co, 1, 1, 8)
  expect.equal(select(2, coroutine.resume(co)), 8)
  local self = coroutine.running()
  local v = 1
  debug.setlocal(self, 1, 9, debug.getlocal(self, 1, 9))
  expect.equal(v, 1)
end)

mistakes("wrong shapes", {
  { function() return x + ml.ones(3, 5) end, "add.*%(3, 4%).*%(3, 5%)" },
  { function() x:add_(ml.ones(2, 3, 4)) end, "add_" },
  { function() return ml.matmul(x, ml.ones(5, 6)) end,
    "matmul: inner sizes differ: %(3, 4%) x %(5, 6%)" },
  { function() return ml.mm(x, cube) end, "mm" },
  { function() return ml.bmm(cube, x) end, "bmm" },
  { function() return ml.linear(x, ml.ones(2, 5)) end, "linear" },
  { function() return ml.linear(x, ml.ones(2, 4), ml.ones(3)) end, "linear" },
  { function() return x:view(5, 5) end, "view.*%(5, 5%)" },
  { function() return x:view(-1, -1) end, "view" },
  { function() return x:reshape(7) end, "shape" },
  { function() return x:t():view(12) end, "view" },
  { function() return x:expand(3, 5) end, "expand.*%(3, 4%)" },
  { function() return x:permute(1, 1) end, "permute" },
  { function() return x:permute(1) end, "permute" },
  { function() return cube:t() end, "t:" },
  { function() return cube.T end, "T:" },
  { function() return ml.cat({ x, cube }, 1) end, "cat" },
  { function() return ml.cat({}, 1) end, "cat" },
  { function() return ml.stack { x, ml.ones(4, 3) } end, "stack" },
  { function() return ml.conv2d(ml.ones(1, 3, 8, 8), ml.ones(4, 2, 3, 3)) end, "conv2d" },
  { function() return ml.conv2d(ml.ones(1, 3, 2, 2), ml.ones(4, 3, 3, 3)) end, "conv2d" },
  { function() return ml.max_pool2d(ml.ones(4, 4), 2) end, "max_pool2d" },
  { function() return ml.max_pool2d(ml.ones(1, 1, 4, 4), 9) end, "max_pool2d" },
  { function() return ml.layer_norm(x, { 5 }) end, "layer_norm" },
  { function() return ml.cross_entropy(x, ml.tensor { 1, 2 }) end, "cross_entropy: target has shape" },
  { function() return ml.embedding(ml.ones(3), ml.tensor { 1 }) end, "embedding" },
  { function() return ml.dot(ml.ones(3), ml.ones(4)) end, "dot" },
  { function() return x:masked_fill(ml.ones(5):bool(), 0) end, "masked_fill" },
  { function() return ml.where(ml.ones(5):bool(), x, x) end, "where" },
  { function() return x:unflatten(2, { 3, 3 }) end, "unflatten" },
  { function() return x:split({ 1, 1 }, 1) end, "split" },
  { function() return ml.tensor(1.0):index_add(1, ml.tensor { 1, 1 }, ml.tensor(2.0)) end,
    "index_add: 2 positions in a tensor without dimensions" },
  { function()
    local target = ml.tensor { 1, 2 }
    return ml._internal.nll_loss_grad_log_probs(ml.tensor(1.0), target, nil, ml.zeros(0), { 2, 3 }, 1, -100)
  end, "nll_loss_grad_log_probs: total_weight has shape %(0,%)" },
  { function()
    return ml.conv2d(ml.zeros(1, 0, 4, 4), ml.zeros(0, 1, 2, 2), nil, 1, 0, 1, 1 << 62)
  end, "conv2d: groups is 4611686018427387904" },
})

mistakes("wrong dims and positions", {
  { function() return x:sum(0) end, "sum.*dim" },
  { function() return x:sum(3) end, "sum.*dim" },
  { function() return x:sum(-3) end, "sum.*dim" },
  { function() return x:sum { dim = { 1, 1 } } end, "sum" },
  { function() return x:softmax(4) end, "softmax" },
  { function() return x:unsqueeze(5) end, "unsqueeze" },
  { function() return x:transpose(1, 9) end, "transpose" },
  { function() return x[0] end, "index 0: positions start at 1" },
  { function() return x[4] end, "index 4 is out of range.*size 3" },
  { function() return x[-4] end, "index %-4 is out of range" },
  { function() return x[{ 1, 5 }] end, "index 5 is out of range for dimension 2" },
  { function() return x[{ 1, 1, 1 }] end, "%(3, 4%)" },
  { function() return x[{ { 0, 2 } }] end, "positions start at 1" },
  { function() return x[{ { 3, 1, -1 } }] end, "step" },
  { function() return x[{ { 1, 2, 0 } }] end, "step" },
  { function() return x["1:9"] end, "out of range" },
  { function() return x["1:2:3:4"] end, "too many" },
  { function() return x["1, x"] end, "cannot read" },
  { function() return x[1.5] end, "1.5" },
  { function() return x[ml.tensor { 0 }] end, "start at 1" },
  { function() return x[ml.tensor { 4 }] end, "4" },
  { function() return x[ml.tensor { 1.5 }] end, "float" },
  { function() return x[ml.ones(4):bool()] end, "mask" },
  { function() return x["..., ..."] end, "ellipsis" },
  { function() return x[{}][{}][print] end, "function" },
  { function() return ml.tensor(1)[1] end, "item" },
  { function() x[5] = 1 end, "out of range" },
  { function() x[1] = ml.ones(5) end, "%(5,%)" },
  { function() x[1] = "seven" end, "string" },
  { function() x[1] = nil end, "nil" },
  { function() return x:index_select(1, ml.tensor { 0 }) end, "index_select" },
  { function() return x:index_select(1, ml.tensor { 4 }) end, "index_select" },
  { function() return x:gather(1, ml.tensor { { 9 } }) end, "gather" },
  { function() return x:gather(1, ml.tensor { { 0 } }) end, "gather" },
  { function() return x:scatter_add(1, ml.tensor { { 9 } }, ml.ones(1, 1)) end, "scatter_add" },
  { function() return ml.embedding(x, ml.tensor { 0 }) end, "embedding" },
  { function() return ml.embedding(x, ml.tensor { 4 }) end, "embedding" },
  { function() return ml.cross_entropy(x, ml.tensor { 1, 2, 0 }) end, "0" },
  { function() return ml.cross_entropy(x, ml.tensor { 1, 2, 5 }) end, "5" },
  { function() return ml.one_hot(ml.tensor { 0 }) end, "one_hot" },
  { function() return x:select(1, 9) end, "select" },
  { function() return x:narrow(1, 2, 9) end, "narrow" },
  { function() return x:topk(9) end, "topk" },
})

mistakes("wrong dtypes", {
  { function() return ml.ones { 2, dtype = ml.int64 }:softmax(1) end, "softmax.*int64" },
  { function() return ml.matmul(x, ml.ones { 4, 2, dtype = ml.float64 }) end, "float64" },
  { function() return x:masked_fill(ml.ones(3, 4), 0) end, "masked_fill.*bool" },
  { function() return x:index_select(1, ml.ones(1)) end, "index_select.*float32" },
  { function() return ml.bitwise_and(x, x) end, "bitwise_and.*float32" },
  { function() ml.ones { 2, dtype = ml.int64 }:add_(ml.ones(2)) end, "add_" },
  { function() ml.ones { 2, dtype = ml.int64 }:mul_(1.5) end, "mul_" },
  { function() return ml.ones { 2, dtype = "float31" } end, "float31" },
  { function() return x:to "floot64" end, "floot64" },
  { function() return ml.ones { 2, dtype = 7 } end, "dtype" },
  { function() return ml.view_as_complex(ml.ones(3)) end, "view_as_complex" },
  { function() return -ml.tensor { true } end, "neg.*bool" },
  { function() return ml.tensor { 7 } // 0 end, "floor_divide" },
  { function() return ml.tensor { 7 } % 0 end, "remainder" },
  { function() ml.set_default_dtype(ml.int64) end, "floating" },
})

mistakes("wrong devices", {
  { function() return ml.ones { 2, device = "tpu" } end, "tpu" },
  { function() return ml.ones { 2, device = "cuda:x" } end, "cuda:x" },
  { function() return ml.ones { 2, device = "cuda:99" } end, "CUDA" },
  { function() return x:to "cpu:3" end, "cpu:3" },
  { function() return x:cuda(-1) end, "cuda" },
})

test("without a GPU a CUDA device is an error that says why", function()
  if ml.cuda.is_available() then harness.skip "CUDA is available" end
  expect.equal(ml.cuda.device_count(), 0)
  for _, f in ipairs {
    function() return ml.ones { 2, device = "cuda" } end,
    function() return x:to "cuda:0" end,
    function() return x:cuda() end,
    function() return ml.cuda.synchronize() end,
  } do
    expect.error(f, "CUDA")
  end
  expect.truthy(#ml.cuda.unavailable_reason() > 0)
end)

mistakes("wrong arguments", {
  { function() return x:exp(1) end, "exp: too many arguments" },
  { function() return ml.exp() end, "exp: argument 'x' is missing" },
  { function() return ml.exp "one" end, "exp: argument 'x' must be a tensor, got string" },
  { function() return ml.exp(nil) end, "exp" },
  { function() return ml.exp {} end, "exp" },
  { function() return x + nil end, "add" },
  { function() return x + "1" end, "string" },
  { function() return x + {} end, "add" },
  { function() return x:sum { dmi = 1 } end, "unknown option 'dmi'.*did you mean 'dim'" },
  { function() return x:sum { keepdims = true } end, "keepdim" },
  { function() return x:sum(1, { dim = 1 }) end, "given twice" },
  { function() return x:sum(1.5) end, "sum" },
  { function() return x:sum(1, 1) end, "named twice" },
  { function() return x:permute(1, 1) end, "permute: dim 1 is named twice" },
  { function() return x:flip { 1, -2 } end, "flip: dim 1 is named twice" },
  { function() return x:sort(3) end, "sort: dim 3 is out of range" },
  { function() return x:cumsum(-3) end, "cumsum: dim %-3 is out of range" },
  { function() return x:gather(3, ml.ones({ 2, 2 }, { dtype = "int64" })) end, "gather: dim 3 is out of range" },
  { function() return ml.cat({ x, x }, 3) end, "cat: dim 3 is out of range" },
  { function() return x:prod(3) end, "prod: dim 3 is out of range" },
  { function() return x:sum({ 1 }, 1) end, "true or false" },
  { function() return x:clamp_min "a" end, "clamp_min" },
  { function() return ml.cat(1, 2) end, "cat" },
  { function() return ml.cat { x, 7 } end, "cat" },
  { function() return x:summ() end, "did you mean 'sum'" },
  { function() return x.shap end, "did you mean 'shape'" },
  { function() x.shape = 3 end, "shape" },
  { function() x.anything = 3 end, "anything" },
  { function() return ml.sigmiod end, "no field 'sigmiod'; did you mean 'sigmoid'" },
  { function() return ml.ones { 2, requires_gard = true } end, "requires_grad" },
  { function() return ml.mse_loss(x, x, { reduction = "average" }) end, "average" },
  { function() return ml.gelu(x, "none?") end, "gelu" },
  { function() return ml.tensor { { 1, 2 }, { 3 } } end, "tensor: item %[2%]" },
  { function() return ml.tensor { 1, { 2 } } end, "tensor" },
  { function() return ml.tensor { 1, "two" } end, "tensor: item %[2%]" },
  { function() return ml.tensor({ 1, 300 }, { dtype = ml.uint8 }) end, "300 does not fit" },
  { function() return ml.tensor({ -1 }, { dtype = ml.uint8 }) end, "%-1 does not fit" },
  { function() return ml.tensor() end, "missing" },
  { function() return ml.tensor(print) end, "function" },
  { function() return x:item() end, "item.*%(3, 4%)" },
  { function() ml.manual_seed "x" end, "manual_seed" },
  { function() ml.set_num_threads(0) end, "set_num_threads" },
  { function() ml.set_num_threads(1e9) end, "set_num_threads" },
  { function() ml.set_num_threads(1025) end, "from 1 to 1024 is expected, got 1025" },
  { function() return #ml.tensor(1) end },
  { function() return ml.scope() end, "scope" },
  { function() return ml.dropout(x, 2) end, "dropout" },
  { function() return ml.bernoulli(x, -1) end, "bernoulli" },
  { function() return ml.randint(5, 4, { 2 }) end, "randint: no integer from 5 to 4" },
  { function() return ml.arange(0, 10, 0) end, "arange" },
  { function() return ml.arange(0, ml.inf) end, "arange" },
  { function() return ml.linspace(0, 1, -1) end, "linspace" },
  { function() return ml.eye(-1) end, "negative" },
})

mistakes("sizes that are negative or overflow", {
  { function() return ml.ones(-1) end, "%-1" },
  { function() return ml.zeros(2, -3) end, "%-3" },
  { function() return ml.empty(math.maxinteger) end },
  { function() return ml.empty(1 << 62, 4) end, "too large" },
  { function() return ml.empty(1 << 33, 1 << 33) end, "too large" },
  { function() return ml.ones(1e30) end, "integer" },
  { function() return ml.ones(1.5) end },
  { function() return ml.ones(0 / 0) end },
  { function() return x:expand(math.maxinteger, 3, 4) + 1 end },
  { function() return x:tile(1 << 40, 1 << 40) end },
  { function() return x:repeat_interleave(1 << 62) end },
  { function() return x:repeat_interleave(-1) end, "repeat_interleave" },
  { function() return ml.arange(0, 1e18) end },
  { function() return ml.eye(1 << 40) end },
  { function() return ml.one_hot(ml.tensor { math.maxinteger }) end },
  { function() return ml.bincount(ml.tensor { 1 << 60 }) end },
  { function() return x:pad { math.maxinteger, math.maxinteger } end },
  { function() return x:pad { -9, 0 } end, "pad" },
  { function() return x:as_strided({ 2 }, { 1 << 40 }) end, "as_strided" },
  { function() return x:as_strided({ 2 }, { -1 }) end, "as_strided" },
  { function() return x:as_strided({ 2 }, { 1 }, 11) end, "as_strided" },
  { function() return x:unfold(1, 9, 1) end, "unfold" },
  { function() return x:unfold(1, 2, 0) end, "unfold" },
  { function() return ml.conv2d(ml.ones(1, 1, 4, 4), ml.ones(1, 1, 2, 2), nil, 0) end, "conv2d" },
  { function() return ml.conv2d(ml.ones(1, 1, 4, 4), ml.ones(1, 1, 2, 2), nil, 1, 1 << 62) end },
  { function() return ml.conv2d(ml.ones(1, 2, 4, 4), ml.ones(1, 1, 2, 2), nil, 1, 0, 1, 0) end,
    "groups" },
  { function() return ml.max_pool2d(ml.ones(1, 1, 4, 4), 0) end, "max_pool2d" },
  { function() return ml.adaptive_avg_pool2d(ml.ones(1, 1, 4, 4), -1) end,
    "adaptive_avg_pool2d" },
  { function() return x:chunk(0) end, "chunk" },
  { function() return x:split(0) end, "split" },
  { function() return x:split(-1) end, "split" },
  { function() return x:topk(-1) end, "topk" },
  { function() return ml.empty(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) end, "dimension" },
})

test("calls on freed tensors", function()
  local a = ml.ones(3)
  a:free()
  for _, f in ipairs {
    function() return a + 1 end, function() return 1 + a end, function() return a.shape end,
    function() return a[1] end, function() a[1] = 2 end, function() return #a end,
    function() return a:sum() end, function() return ml.cat { a, a } end,
    function() a:backward() end, function() return ml.ones(3) + a end,
    function() return ml.ones(3)[a] end, function() return ml.tensor(a) end,
    function() return a:item() end, function() return a:tolist() end,
    function() a:add_(1) end, function() return a:detach() end,
  } do
    expect.error(f, "freed")
  end
  expect.truthy(tostring(a):find "freed", tostring(a))
  expect.equal(a == a, true)
end)

test("metamethods and finalizers in the hands of scripts", function()
  local meta = getmetatable(ml.ones(1))
  if type(meta) == "table" then
    for _, name in ipairs { "__gc", "__close", "__index", "__add", "__eq", "__len" } do
      local f = rawget(meta, name)
      if type(f) == "function" then
        for _, value in ipairs { 1, "x", {}, print, io.stdout, coroutine.create(print) } do
          pcall(f, value)
          pcall(f, value, value, value)
        end
        pcall(f)
        pcall(f, nil)
      end
    end
    local a = ml.ones(2)
    if meta.__gc then
      meta.__gc(a)
      meta.__gc(a)
      expect.error(function() return a + 1 end, "freed")
    end
  end
  expect.error(function() return ml.exp(io.stdout) end, "exp")
  expect.error(function() return ml.ones(2).exp(setmetatable({}, meta)) end)
end)

test("tensors in odd positions", function()
  local t = setmetatable({}, { __gc = function(self) pcall(function() return self.a + 1 end) end })
  t.a = ml.ones(3)
  t = nil  -- luacheck: ignore
  collectgarbage()
  collectgarbage()
  local weak = setmetatable({}, { __mode = "k" })
  weak[ml.ones(3)] = true
  collectgarbage()  -- finalizes the key
  collectgarbage()  -- and takes it out of the table
  expect.equal(next(weak), nil)
  local co = coroutine.wrap(function()
    return ml.scope(function() return coroutine.yield(1) end)
  end)
  pcall(co)
  pcall(co)
  expect.error(function()
    ml.scope(function() return ml.no_grad(function() error(ml.ones(1)) end) end)
  end)
  expect.equal(ml.is_grad_enabled(), true)
end)

test("not a number passes through, and nothing else happens", function()
  local bad = ml.tensor { ml.nan, 1, -1, ml.inf, -ml.inf, 0 }
  for _, name in ipairs { "exp", "log", "sqrt", "tanh", "sin", "relu", "sigmoid", "abs" } do
    local y = ml[name](bad)
    expect.equal(y.shape[1], 6)
    local first = y[1]:item()
    expect.truthy(first ~= first, name .. " of nan")
  end
  local total = bad:sum():item()
  expect.truthy(total ~= total)
  local largest = bad:max():item()
  expect.truthy(largest ~= largest)
  bad:sort()
  bad:argmax()
  bad:topk(2)
  expect.equal(bad:long().dtype, ml.int64)
  expect.equal(tostring(bad):find "nan" ~= nil, true)
  expect.equal((ml.ones(3) / 0)[1]:item(), math.huge)
end)

test("empty and 0-d tensors", function()
  local none, one = ml.zeros(0), ml.tensor(2.0)
  expect.equal(none:sum():item(), 0.0)
  expect.equal(one:sum():item(), 2.0)
  expect.error(function() return none:max() end, "max")
  expect.error(function() return none:argmax() end, "argmax")
  expect.equal(#ml.cat { none, none }, 0)
  expect.equal((none + 1).shape[1], 0)
  expect.equal(ml.matmul(ml.zeros(0, 3), ml.zeros(3, 0)).ndim, 2)
  expect.near(ml.matmul(ml.zeros(2, 0), ml.zeros(0, 2)):tolist(), { { 0, 0 }, { 0, 0 } })
  expect.equal(tostring(none) ~= nil, true)
  expect.equal(ml.empty(0, 3):view(3, 0).shape[1], 3)
end)

harness.run()
