-- tests/lua/interp/signature_test.lua: the argument reader of the library: by position, by name and both in
-- one table; types, bounds, defaults; what each wrong call says.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local signature = require "moonlet.signature"
local test, expect = harness.test, harness.expect

local read = signature "test.f(Tensor x, int>=1 size, number>=0<=1 p=0.5, string? mode=nil, bool on=false)"
local t = ml.ones(2)

test("arguments go by position, by name, or both", function()
  for _, given in ipairs { { t, 3 }, { t, { size = 3 } }, { { x = t, size = 3 } }, { { t, 3, p = 0.5 } },
    { t, 3, {} }, { t, 3, nil, nil, nil, nil }, { t, 3.0 } } do
    local x, size, p, mode, on = read(table.unpack(given, 1, 6))
    expect.truthy(x == t)
    expect.equal({ size, p, mode, on }, { 3, 0.5, nil, false })
    expect.equal(math.type(size), "integer")
  end
  local o = read:table(t, 2, { on = true, mode = "fast", p = 1 })
  expect.equal({ o.size, o.p, o.mode, o.on }, { 2, 1, "fast", true })
  expect.equal(select("#", read(t, 1)), 5)
end)

test("items that were set one by one are arguments beside names, too", function()
  for names = 1, 12 do
    local given, parameters = { on = true }, {}
    for i = 1, names do
      given["a" .. i] = i
      parameters[i] = ("int a%d=0"):format(i)
    end
    local many = signature(("test.many(Tensor x, int size=1, %s, bool on=false)"):format(
      table.concat(parameters, ", ")))
    given[1] = t
    given[2] = 7
    local o = many:table(given)
    expect.equal({ o.size, o.on, o.a1 }, { 7, true, 1 })
  end
end)

test("wrong calls are named", function()
  local cases = {
    { {}, "test.f: 'x' is missing" },
    { { t }, "test.f: 'size' is missing" },
    { { 3, 3 }, "'x': a tensor is expected, got 3" },
    { { { 1, 2 }, 3 }, "'x': a tensor is expected, got a table of 2" },
    { { t, 0 }, "'size' must be an integer of at least 1, got 0" },
    { { t, 2.5 }, "'size' must be an integer of at least 1, got 2.5" },
    { { t, "2" }, "'size' must be an integer of at least 1, got \"2\"" },
    { { t, t }, "'size' must be an integer of at least 1, got a tensor of shape %(2,%)" },
    { { t, 2, 1.5 }, "'p' must be a number from 0 to 1, got 1.5" },
    { { t, 2, 0 / 0 }, "'p' must be a number from 0 to 1" },
    { { t, 2, { p = 2 } }, "'p' must be a number from 0 to 1, got 2" },
    { { t, 2, { on = 1 } }, "'on' must be true or false, got 1" },
    { { t, 2, { sise = 1 } }, "unknown option 'sise'; did you mean 'size'" },
    { { t, 2, { size = 2 } }, "'size' is given twice" },
    { { t, 2, 1, "a", true, 1 }, "takes at most 5 arguments %(x, size, p, mode, on%), got 6" },
    { { t, 2, ml.nn.ReLU() }, "'p' must be a number from 0 to 1, got an object of class ReLU" },
  }
  for _, case in ipairs(cases) do
    expect.error(function() read(table.unpack(case[1])) end, "signature_test.lua:%d+: .*" .. case[2])
  end
end)

test("arrays, and one value for all", function()
  local pair = signature "test.pair(int[2]>=0 size, Tensor[] list={}, number[] more={1, 2})"
  expect.equal((pair(3)), { 3, 3 })
  expect.equal((pair { 3, 4 }), { 3, 4 })
  expect.equal((pair { size = 5 }), { 5, 5 })
  expect.equal({ pair { 6, more = { 1 } } }, { { 6, 6 }, {}, { 1 } })
  expect.equal((pair { { 6, 7 }, more = { 1 } }), { 6, 7 })
  local _, list = pair(1, { t, t })
  expect.equal(#list, 2)
  local _, empty, more = pair(1, {})
  expect.equal(#empty, 0)
  more[1] = 7
  expect.equal(select(3, pair(1)), { 1, 2 })
  expect.error(function() pair { 1, 2, 3 } end, "an integer of at least 0, or an array of 2, got a table of 3")
  expect.error(function() pair(-1) end, "at least 0")
  expect.error(function() pair(1, {}, { 1, 2, more = 3 }) end, "'more' must be an array of numbers, got a table of 2")
  expect.error(function() pair(1, { t, 3 }) end, "'list' must be an array of tensors, got")
end)

test("several types, tables of names and the rest of the arguments", function()
  local sizes = signature "test.sizes(int|int[] sizes, number eps=0.5)"
  expect.equal({ sizes { 8, 9, eps = 1 } }, { { 8, 9 }, 1 })
  expect.equal({ sizes(8, { eps = 2 }) }, { 8, 2 })
  local either = signature "test.either(int|string a, int|int[] b=1)"
  expect.equal({ either("x", { 1, 2 }) }, { "x", { 1, 2 } })
  expect.error(function() either(true) end, "'a' must be an integer or a string, got true")
  local dict = signature "test.dict(dict state, bool strict=true)"
  expect.equal((dict { a = 1 }), { a = 1 })
  expect.equal({ dict({ a = 1 }, { strict = false }) }, { { a = 1 }, false })
  expect.equal({ dict { state = { a = 1 }, strict = false } }, { { a = 1 }, false })
  expect.equal((dict {}), {})
  local rest = signature "test.rest(string name, int... values)"
  expect.equal({ rest("a", 1, 2, 3) }, { "a", { 1, 2, 3 } })
  expect.equal({ rest("a") }, { "a", {} })
  expect.error(function() rest("a", 1, "b") end, "'values' must be an integer, got \"b\"")
end)

test("what a script does to a declaration is no more than an error", function()
  local changed = signature "test.changed(int a, string b='x', int... rest)"
  for _, method in ipairs { "refuse_value", "refuse_missing", "refuse_twice", "refuse_name", "refuse_count" } do
    changed[method] = function() end
  end
  for _, given in ipairs { { "x" }, {}, { 1, { a = 2 } }, { { z = 1 } }, { 1, "y", "z" } } do
    expect.error(function() changed(table.unpack(given)) end, "does not fit its declaration")
  end
  local count = 0
  for _, value in pairs(changed) do
    if type(value) == "userdata" then
      count = count + 1
      debug.setuservalue(value, { "a", "b", "rest", 4, 5, 6 }, 1)
    end
  end
  expect.equal(count, 1)
  expect.error(function() changed { a = 1 } end, "a declaration is expected")
  pcall(changed, 1, "y", 2)
end)

test("a declaration is data", function()
  local entry = signature.all["test.f"]
  expect.equal(entry.names, { "x", "size", "p", "mode", "on" })
  local size, mode = entry.parameters[2], entry.parameters[4]
  expect.equal({ size.type, size.required, size.default }, { "int>=1", true, nil })
  expect.equal({ mode.type, mode.required, mode.default }, { "string?", false, "nil" })
  for _, module in ipairs { ml.nn, ml.optim, ml.data } do
    for _ in pairs(module) do end  -- loads what is late
  end
  for _, part in ipairs { "state", "convert", "copy", "hooks", "lookup", "summary" } do
    require("moonlet.nn." .. part)
  end
  for _, name in ipairs { "nn.Linear", "nn.init.normal_", "Module:to", "nn.functional.relu", "optim.Adam",
    "optim.lr_scheduler.StepLR", "Optimizer:step", "data.DataLoader", "nn.utils.clip_grad_norm_" } do
    expect.truthy(signature.all[name], name)
  end
  for name, declared in pairs(signature.all) do
    expect.equal(#declared.parameters, #declared.names, name)
    for _, parameter in ipairs(declared.parameters) do
      if parameter.make_default then parameter.make_default() end
    end
  end
end)

test("every public function of nn, optim and data reads its arguments", function()
  local nn, optim, data = ml.nn, ml.optim, ml.data
  local wrong = { quite_unknown = 1 }
  local linear = nn.Linear(2, 2)
  local sgd = optim.SGD(linear:parameters())
  local step = optim.lr_scheduler.StepLR(sgd, 2)
  local objects = {
    { linear, { "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules",
      "children", "named_children", "register_buffer", "register_parameter", "add_module", "train", "eval",
      "apply", "zero_grad", "requires_grad_", "state_dict", "to", "cuda", "cpu", "float", "double", "half",
      "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "get_submodule",
      "register_full_backward_pre_hook", "register_state_dict_pre_hook", "register_state_dict_post_hook",
      "register_load_state_dict_pre_hook", "register_load_state_dict_post_hook", "set_submodule",
      "get_parameter", "get_buffer", "to_empty", "type", "deepcopy", "register_module" } },
    { sgd, { "zero_grad", "step", "state_dict", "register_step_pre_hook", "register_step_post_hook",
      "register_state_dict_pre_hook", "register_state_dict_post_hook",
      "register_load_state_dict_pre_hook", "register_load_state_dict_post_hook" } },
    { step, { "step", "get_last_lr", "state_dict" } },
    { nn.Sequential(), { "insert", "pop" } },
    { nn.ParameterDict(), { "pop" } },
  }
  for _, entry in ipairs(objects) do
    for _, name in ipairs(entry[2]) do
      expect.error(function() entry[1][name](entry[1], wrong) end, "unknown option 'quite_unknown'", name)
    end
  end
  local plain = { Module = true, class = true, is_parameter = true, init = true, functional = true,
    utils = true, Sequential = true, ModuleDict = true, ParameterDict = true, Identity = true,
    is_lazy = true, rnn = true, parametrize = true, parametrizations = true, prune = true, stateless = true,
    Dataset = true, Sampler = true, Optimizer = true, lr_scheduler = true, swa_utils = true,
    IterableDataset = true, StackDataset = true, default_convert = true, transforms = true,
    audio = true, ByteLevelBPE = true, Tokenizer = true, parallel = true,
    -- Its first argument is a table, a state dict.
    consume_prefix_in_state_dict_if_present = true }
  for _, space in ipairs { nn, nn.init, nn.functional, nn.utils, nn.utils.rnn, nn.utils.parametrize,
    nn.utils.parametrizations, nn.utils.stateless, optim, optim.lr_scheduler,
    optim.swa_utils, data, data.transforms, data.audio } do
    for name, f in pairs(space) do
      if not plain[name] and name:sub(1, 1) ~= "_" then
        expect.error(function() f(wrong) end, "unknown option 'quite_unknown'", name)
      end
    end
  end
end)

test("ops and the library suggest the same names", function()
  local names = { "dim", "keepdim", "dtype" }
  local sum = signature "test.sum(int? dim=nil, bool? keepdim=nil, string? dtype=nil)"
  for _, wrong in ipairs { "dmi", "kepdim", "keep", "Dtype", "dtyp", "dtp", "keepd", "dims", "d", "di", "kd", "out_dim",
    "keeping", "typed" } do
    local _, of_op = pcall(ml.sum, t, { [wrong] = 1 })
    local _, of_library = pcall(sum, { [wrong] = 1 })
    local guess = require "moonlet.nearest"(wrong, names)
    expect.equal(of_op:match "did you mean '(%w+)'", guess, "op: " .. of_op)
    expect.equal(of_library:match "did you mean '(%w+)'", guess, "library: " .. of_library)
  end
end)

test("a shape is an array of sizes, and one array can be all arguments", function()
  local x = ml.zeros(2, 3)
  local sizes = signature "test.sizes(int[] size, int[2] pair=1)"
  expect.equal({ sizes(x.shape, x.shape) }, { { 2, 3 }, { 2, 3 } })
  local two = signature "test.two(int a, int b=5)"
  expect.equal({ two { 2, 3 } }, { 2, 3 })
  expect.equal({ two { 2 } }, { 2, 5 })
  expect.error(function() two { 1, 2, 3 } end, "'a' must be an integer, got a table of 3")
  local window = signature "test.window(int[2] size)"
  expect.equal({ window { { 2, 1 } } }, { { 2, 1 } })
end)

test("options behind a table of names that may be left out", function()
  local call = signature "test.call(Tensor x, dict? kwargs=nil, bool strict=false)"
  local x = ml.ones(1)
  expect.equal(select(3, call(x, { strict = true })), true)
  expect.equal(select(2, call(x, { other = 1 })), { other = 1 })
end)

harness.run()
