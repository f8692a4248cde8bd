-- tests/lua/ops/distributions_test.lua: distributions, divergences, transforms and constraints against
-- PyTorch's numbers in tests/reference/values/distributions.json.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local D = ml.distributions

local reference = json.decode(system.read_file(here .. "/../../reference/values/distributions.json"))
local SPECIAL = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

local function tensor(entry)
  local data = {}
  for i, value in ipairs(entry.data) do
    data[i] = SPECIAL[value] or value
  end
  if #data == 0 then return ml.zeros(entry.shape, { dtype = entry.dtype }) end
  return ml.tensor(data, { dtype = entry.dtype }):reshape(entry.shape)
end

-- What a specification stands for; `leaves` gets the tensors that distributions are made of.
local build

local function argument(value, leaves)
  if type(value) ~= "table" then return value end
  if value.kind then return build(value, leaves) end
  if value.data then
    local x = tensor(value)
    if leaves then leaves[#leaves + 1] = x:requires_grad_() end
    return x
  end
  local out = {}
  for i, item in ipairs(value) do out[i] = argument(item) end
  return out
end

function build(spec, leaves)
  local named, args = {}, {}
  for _, key in ipairs(spec.order or {}) do named[key] = argument(spec.named[key], leaves) end
  for i, value in ipairs(spec.args) do args[i] = argument(value) end
  if spec.kind == "constraint" then
    local found = D.constraints[spec.name]
    return #args > 0 and found(table.unpack(args)) or found
  end
  return D[spec.name](named)
end

-- Numbers, with 64 bits, in which the reference was made.
local function in_float64(name, f)
  test(name, function()
    local before = ml.get_default_dtype()
    ml.set_default_dtype "float64"
    local ok, message = xpcall(f, debug.traceback)
    ml.set_default_dtype(before)
    if not ok then error(message, 0) end
  end)
end

local function near(got, entry, detail, tolerance)
  local wanted = tensor(entry)
  expect.equal(tostring(got.shape), tostring(wanted.shape), detail .. ": shape")
  expect.near(got:detach():double():reshape(-1):totable(), wanted:double():reshape(-1):totable(),
    tolerance or 1e-9, detail)
end

-- PyTorch's Bessel functions of VonMises keep seven digits or less.
local TOLERANCE = { VonMises = 1e-5 }

local function check_methods(case, d, value, tolerance)
  local calls = {
    log_prob = function() return d:log_prob(value) end,
    entropy = function() return d:entropy() end,
    perplexity = function() return d:perplexity() end,
    cdf = function() return d:cdf(value) end,
    icdf = function() return d:icdf(case.share and tensor(case.share) or value) end,
    mean = function() return d.mean end,
    mode = function() return d.mode end,
    variance = function() return d.variance end,
    stddev = function() return d.stddev end,
    listed = function() return d:enumerate_support() end,
    listed_once = function() return d:enumerate_support { expand = false } end,
  }
  for name, call in pairs(calls) do
    if case[name] then near(call(), case[name], name, tolerance)
    else expect.error(call, "^[^:]*:%d+: distributions%.%w+: ", name .. " of what PyTorch refuses") end
  end
end

local function check_gradients(case, value, tolerance)
  local leaves = {}
  local log_prob = build(case.make, leaves):log_prob(value)
  if #leaves == 0 then return end
  local weights = ml.linspace(0.5, 1.5, log_prob:numel()):reshape(log_prob.shape)
  if not log_prob.requires_grad then
    for _, wanted in ipairs(case.grads) do expect.truthy(wanted.none) end
    return
  end
  (log_prob * weights):sum():backward()
  for i, wanted in ipairs(case.grads) do
    local name = ("gradient %d"):format(i)
    if wanted.none then
      expect.truthy(leaves[i].grad == nil or leaves[i].grad:eq(0):all():item(), name)
    else
      near(leaves[i].grad or leaves[i]:detach():zeros_like(), wanted, name, 10 * tolerance)
    end
  end
end

for i, case in ipairs(reference.distributions) do
  in_float64(("distributions.%s as PyTorch's, case %d"):format(case.make.name, i), function()
    local d, value = build(case.make), tensor(case.value)
    local tolerance = TOLERANCE[case.make.name] or 1e-9
    expect.equal(d.batch_shape, case.batch_shape)
    expect.equal(d.event_shape, case.event_shape)
    -- PyTorch's class has an rsample and does not say so.
    expect.equal(d.has_rsample, case.has_rsample or case.make.name == "LogitRelaxedBernoulli")
    expect.equal(d.has_enumerate_support, case.has_enumerate_support)
    check_methods(case, d, value, tolerance)
    check_gradients(case, value, tolerance)
    for name, wanted in pairs(case.fields or {}) do near(d[name], wanted, name) end
    local batch = { 3, table.unpack(case.batch_shape) }
    local wide = d:expand(batch)
    expect.equal(wide.batch_shape, batch)
    expect.equal(wide.event_shape, case.event_shape)
    local drawn = wide:sample { 2 }
    local size = { 2, table.unpack(batch) }
    expect.equal(drawn.shape, table.move(case.event_shape, 1, #case.event_shape, #size + 1, size))
    expect.equal(drawn.requires_grad, false)
    local first = value:narrow(1, 1, 1):unsqueeze(1)
    size = first.shape:tolist()
    size[1], size[2] = 2, 3
    near(wide:log_prob(first:expand(size)), case.wide_log_prob, "expanded", tolerance)
  end)
end

for i, case in ipairs(reference.divergences) do
  local name = ("divergence of %s and %s, case %d"):format(case.p.name, case.q.name, i)
  in_float64(name, function()
    near(D.kl_divergence(build(case.p), build(case.q)), case.divergence, "divergence", 1e-8)
  end)
end

local function check_transform(case, t, x, is_cached)
  local y = t(x)
  -- One with a cache gives back x itself.
  if case.inverse and not is_cached then near(t.inv(y), case.inverse, "inverse", 1e-7) end
  near(y, case.y, "value")
  expect.equal(t.bijective, case.bijective)
  expect.equal(t.domain.event_dim, case.domain_dim)
  expect.equal(t.codomain.event_dim, case.codomain_dim)
  expect.equal(t:forward_shape(x.shape), case.forward_shape)
  expect.equal(t:inverse_shape(y.shape), case.inverse_shape)
  local function jacobian() return t:log_abs_det_jacobian(x, y) end
  if case.jacobian then
    near(jacobian(), case.jacobian, "jacobian")
    expect.near((t.inv:log_abs_det_jacobian(y, x) + jacobian()):abs():max():item(), 0, 1e-12)
  else
    expect.error(jacobian, "has no log_abs_det_jacobian")
  end
  if type(case.sign) == "number" then expect.equal(t.sign, case.sign) end
  if type(case.sign) == "table" then near(t.sign, case.sign, "sign") end
end

for i, case in ipairs(reference.transforms) do
  in_float64(("%s as PyTorch's, case %d"):format(case.make.name, i), function()
    local t, x = build(case.make), tensor(case.x)
    check_transform(case, t, x)
    local cached = t:with_cache()
    check_transform(case, cached, x, true)
    if case.make.name ~= "ComposeTransform" then expect.equal(cached.inv(cached(x)), x) end
    expect.equal(cached:with_cache(1), cached)
    expect.equal(t.inv.inv, t)
  end)
end

for i, case in ipairs(reference.constraints) do
  in_float64(("constraint %s as PyTorch's, case %d"):format(case.make.name, i), function()
    local constraint = build(case.make)
    near(constraint:check(tensor(case.value)), case.check, "check")
    expect.equal(constraint.is_discrete, case.is_discrete)
    expect.equal(constraint.event_dim, case.event_dim)
    for _, name in ipairs { "biject_to", "transform_to" } do
      if case[name] then near(D[name](constraint)(tensor(case[name].x)), case[name].y, name)
      else expect.error(function() return D[name](constraint) end, "no transform leads to") end
    end
  end)
end

harness.run()
