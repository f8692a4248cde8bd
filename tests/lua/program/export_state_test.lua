-- tests/lua/program/export_state_test.lua: programs that change what they hold or are given: running
-- statistics, counters, caches of keys and values, inputs; in Lua, in files, and for each program its own.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local ml = require "moonlet"
local nn = ml.nn
local F = nn.functional
local test, expect = harness.test, harness.expect
local same, again = case.same_bits, case.again

test("batch norm in training mode keeps its statistics in the program", function()
  ml.manual_seed(1)
  warn "@off"  -- that it is in training mode
  local net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
  local before = net[2].running_mean:clone()
  local program = ml.export(net, { ml.randn(5, 3) })
  expect.truthy(same(net[2].running_mean, before), "the export leaves the module as it is")
  expect.equal(net[2].num_batches_tracked:item(), 0)
  local loaded = again(program)
  for step = 1, 3 do
    local x = ml.randn(5, 3)
    local wanted = ml.no_grad(net, x)
    for _, form in ipairs { program, loaded } do
      expect.truthy(same(form(x), wanted))
      local state = form:state()
      expect.truthy(same(state["1.running_mean"], net[2].running_mean))
      expect.truthy(same(state["1.running_var"], net[2].running_var))
      expect.equal(state["1.num_batches_tracked"]:item(), step)
    end
  end
  expect.equal(loaded:parameters()["1.running_mean"], nil)
  expect.truthy(loaded:parameters()["1.weight"])
  expect.error(function() program:set_parameter("1.running_mean", before) end, "'1.running_mean' is state")
end)

test("state starts as it was, is saved as it is, and is reset", function()
  local count = ml.tensor { 5.0 }
  local program = ml.export(function(x)
    count:add_(1)
    return x * count
  end, { ml.ones(1) })
  expect.equal(count:item(), 5)
  local x = ml.ones(1)
  expect.equal({ program(x):item(), program(x):item(), count:item() }, { 6, 7, 5 })
  local loaded = again(program)
  expect.equal({ loaded(x):item(), program(x):item() }, { 8, 8 })
  program:reset()
  loaded:reset()
  expect.equal({ program(x):item(), loaded(x):item() }, { 6, 8 })
  program:state()["state.1"]:fill_(10)
  expect.equal(program(x):item(), 11)
end)

test("state that is a part of a larger memory stays there", function()
  local all = ml.arange(0, 5, { dtype = ml.float32 })
  local middle = all[{ { 2, 4 } }]
  local program = ml.export(function(x)
    middle:mul_(2)
    all[{ { 4, 6 } }]:add_(x)
    return all * 1, middle + 0
  end, { ml.ones(3) })
  local loaded = again(program)
  for _ = 1, 2 do
    middle:mul_(2)
    all[{ { 4, 6 } }]:add_(1)
    for _, form in ipairs { program, loaded } do
      local whole, part = form(ml.ones(3))
      expect.truthy(same(whole, all))
      expect.truthy(same(part, middle))
    end
  end
end)

test("state goes on at other sizes", function()
  local total = ml.zeros(1)
  local program = ml.export(function(x)
    total:add_(x:sum())
    return x * total
  end, { ml.ones(4, 2) }, { dynamic = true })
  expect.equal(total:item(), 0)
  for _, form in ipairs { program, again(program) } do
    expect.equal(form(ml.ones(3, 2))[1]:tolist(), { 6, 6 })
    expect.equal(form(ml.ones(5, 2))[1]:tolist(), { 16, 16 })
    expect.equal(form(ml.ones(3, 2))[1]:tolist(), { 22, 22 })
  end
end)

test("an input that is changed must lie as the example", function()
  local function f(x, y)
    x:mul_(y)
    return x:sum()
  end
  local program = ml.export(f, { ml.ones(2, 3), ml.ones(3) })
  expect.equal(program:inputs()[1].changed, true)
  expect.equal(program:inputs()[2].changed, false)
  for _, form in ipairs { program, again(program) } do
    local x, y = ml.randn(2, 3), ml.randn(3)
    local expected = x:clone()
    local wanted = f(expected, y)
    expect.truthy(same(form(x, y), wanted))
    expect.truthy(same(x, expected))
    expect.error(function() form(ml.ones(3, 2):t(), y) end, "input 1, which the program changes, to have strides %(3, 1%)")
    expect.error(function() form(ml.ones(1, 3):expand(2, 3), y) end, "to have strides")
    local z = ml.ones(3)
    expect.error(function() form(ml.ones(6):view(2, 3), z:expand(2, 3)) end, "expected input 2 to be")
  end
  local inner = ml.export(function(x) return x:add_(1) end, { ml.ones(2) })
  local x = ml.zeros(2)
  expect.equal(inner(x):tolist(), { 1, 1 })
  expect.equal(x:tolist(), { 1, 1 })
end)

-- A decoder layer with a cache of as many positions as it has.
local Cached = nn.class "Cached"
function Cached:init(width, heads, length)
  self.heads, self.length, self.width = heads, length, width
  self.norm = nn.LayerNorm(width)
  self.qkv = nn.Linear(width, 3 * width)
  self.out = nn.Linear(width, width)
  self:register_buffer("keys", ml.zeros(1, heads, length, width // heads))
  self:register_buffer("values", ml.zeros(1, heads, length, width // heads))
  self:register_buffer("position", ml.zeros(1, { dtype = ml.int64 }))
end
function Cached:forward(x)
  local q, k, v = table.unpack(self.qkv(self.norm(x)):view(1, 1, 3, self.heads, -1):unbind(3))
  local at = self.position + 1
  self.keys:index_copy_(3, at, k:transpose(2, 3))
  self.values:index_copy_(3, at, v:transpose(2, 3))
  local seen = ml.arange(1, self.length):le(at):view(1, 1, 1, -1)
  local y = F.scaled_dot_product_attention(q:transpose(2, 3), self.keys, self.values, { attn_mask = seen })
  self.position:add_(1)
  return x + self.out(y:transpose(2, 3):reshape(1, 1, self.width))
end

-- The same over all positions at once.
local function whole(layer, x)
  local n = x:size(2)
  local q, k, v = table.unpack(layer.qkv(layer.norm(x)):view(1, n, 3, layer.heads, -1):unbind(3))
  local y = F.scaled_dot_product_attention(q:transpose(2, 3), k:transpose(2, 3), v:transpose(2, 3), { is_causal = true })
  return x + layer.out(y:transpose(2, 3):reshape(1, n, layer.width))
end

test("a transformer runs token by token with its cache as state", function()
  ml.manual_seed(3)
  local tokens, width, length = 11, 16, 6
  local embedding, head = nn.Embedding(tokens, width), nn.Linear(width, tokens)
  local layers = { Cached(width, 2, length), Cached(width, 2, length) }
  local net = nn.Sequential(embedding, layers[1], layers[2], head):eval()
  local program = ml.export(net, { ml.ones(1, 1, { dtype = ml.int64 }) })
  local loaded = again(program)
  local ids = ml.randint(1, tokens, { 1, length })
  local once = ml.no_grad(function() return head(whole(layers[2], whole(layers[1], embedding(ids)))) end)
  for round = 1, 2 do
    for i = 1, length do
      local token = ids[{ {}, { i, i } }]
      local wanted = round == 1 and ml.no_grad(net, token)
      for _, form in ipairs { program, loaded } do
        local y = form(token)
        if wanted then expect.truthy(same(y, wanted), ("token %d"):format(i)) end
        expect.truthy(ml.allclose(y, once[{ {}, { i, i } }], { atol = 1e-5 }), ("token %d at once"):format(i))
      end
    end
    program:reset()
    loaded:reset()
  end
  expect.error(function()
    for _ = 1, length + 1 do program(ids[{ {}, { 1, 1 } }]) end
  end, "index_copy")
end)

harness.run()
