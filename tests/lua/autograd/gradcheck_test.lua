-- tests/lua/autograd/gradcheck_test.lua: ml.autograd.gradcheck and gradgradcheck: what they let through, what
-- they find, and how they say it.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local gradcheck, gradgradcheck = ml.autograd.gradcheck, ml.autograd.gradgradcheck

local DOUBLE = { dtype = ml.float64 }

local function leaf(values, dtype)
  return ml.tensor(values, { dtype = dtype or ml.float64, requires_grad = true })
end

-- x with a gradient that `change` makes of the right one.
local function with_gradient(x, change)
  local h = x * 1
  h:register_hook(change)
  return h
end

local function sin_with_wrong_element(x)
  return with_gradient(x, function(g)
    local other = g:clone()
    other[2][1] = g[2][1] * 3
    return other
  end):sin()
end

test("right gradients pass, of several inputs and outputs and beside other arguments", function()
  local x, w = leaf { { 0.3, -1.2, 2 }, { 0.7, 0.1, -0.4 } }, leaf { { 1, 2 }, { 0.5, -1 }, { 3, 0.2 } }
  expect.equal(gradcheck(function(a) return a:exp() * a end, x), true)
  local function f(a, n, b) return a:mm(b) * n, { a:sum(), a:gt(0) } end
  for _, mode in ipairs { false, true } do
    expect.equal(gradcheck(f, { x, 3, w }, { fast_mode = mode }), true)
    expect.equal(gradgradcheck(function(a, n, b) return f(a, n, b):sin() end, { x, 3, w },
      { fast_mode = mode }), true)
  end
  -- The inputs are as they were.
  expect.equal(x:tolist(), { { 0.3, -1.2, 2 }, { 0.7, 0.1, -0.4 } })
  expect.equal(x.grad, nil)
end)

test("a function of what it finds outside sees the inputs change", function()
  local net = ml.nn.Linear(2, 1):to(ml.float64)
  local x = ml.tensor({ { 1, 2 } }, DOUBLE)
  expect.equal(gradcheck(function() return net(x) end, net:parameters()), true)
end)

test("complex inputs and outputs pass, and wrong ones do not", function()
  local z = leaf({ ml.complex(0.3, 1), ml.complex(-1, 0.5) }, ml.complex128)
  local function f(a) return a * a, a:abs(), a:exp():conj(), a.real * a.imag end
  expect.equal(gradcheck(f, z), true)
  expect.equal(gradgradcheck(f, z), true)
  expect.error(function()
    gradcheck(function(a) return with_gradient(a, function(g) return g:conj() end) end, z)
  end, "output 1 %(its imaginary part%) by input 1 differs most at element %[(%d)%] of the input "
    .. "and element %[%1%] of the output\n  numerical 0%+1i, analytical 0%-1i")
end)

test("shapes without elements, of no dimensions and of other strides pass", function()
  local function f(a) return a:sin() end
  expect.equal(gradcheck(f, leaf(0.5)), true)
  expect.equal(gradcheck(f, ml.zeros({ 0, 3 }, DOUBLE):requires_grad_()), true)
  local turned = ml.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, DOUBLE):t():requires_grad_()
  expect.equal(gradcheck(function(a) return a:sin():t() end, turned), true)
  expect.equal(gradcheck(f, leaf({ 1, 2, 3 }) * 2), true)
end)

test("the error says where the Jacobians differ most, and shows them", function()
  local x = leaf { { 0, 0.5 }, { 1, 2 } }
  local f = function(_, a) return 1, { a:cos(), sin_with_wrong_element(a) } end
  local function g(s, a) return select(2, f(s, a)) end
  for _, fast in ipairs { false, true } do
    local message = expect.error(function() gradcheck(g, { "s", x }, { fast_mode = fast }) end,
      "gradcheck_test.lua:%d+: gradcheck: the Jacobian of output 2 by input 2 differs "
      .. "most at element %[2, 1%] of the input and element %[2, 1%] of the output\n"
      .. "  numerical 0.540302, analytical 1.62091\n"
      .. "  largest absolute difference 1.0806, largest relative difference 2\n"
      .. "  1 of 16 elements differ by more than 1e%-05 %+ 0.001 %* |numerical|\n")
    expect.truthy(message:find("numerical Jacobian (a row for each element of the input):", 1, true))
    expect.truthy(message:find("1.6209", 1, true))
  end
  expect.equal(gradcheck(g, { "s", x }, { raise_exception = false }), false)
  expect.equal(gradcheck(g, { "s", x }, { atol = 2 }), true)
  expect.equal(gradcheck(g, { "s", x }, { rtol = 3 }), true)
end)

test("large Jacobians are not shown", function()
  local message = expect.error(function()
    gradcheck(sin_with_wrong_element, ml.ones({ 3, 3 }, DOUBLE):requires_grad_())
  end, "differs most at element %[2, 1%]")
  expect.falsy(message:find("Tensor", 1, true))
end)

test("a wrong second derivative is found", function()
  local x = leaf { 0.5, 2 }
  local function f(a)
    return with_gradient(a * a, function(g) return g:detach() end)
  end
  expect.equal(gradcheck(f, x), true)
  expect.error(function() gradgradcheck(f, x) end, "gradgradcheck: the Jacobian of output 1 by input 2")
  expect.equal(gradgradcheck(f, x, { raise_exception = false }), false)
end)

test("gradgradcheck takes and makes gradients to start from", function()
  local x = leaf { 0.5, 2 }
  local seen
  local function f(a) return with_gradient(a:exp(), function(g) seen = g end) end
  gradgradcheck(f, x, leaf { 3, 4 })
  expect.equal(seen:detach():tolist(), { 3, 4 })
  gradgradcheck(f, x, { gen_non_contig_grad_outputs = true })
  expect.equal(seen:is_contiguous(), false)
  expect.error(function() gradgradcheck(f, x, { leaf { 1, 2 }, leaf { 3, 4 } }) end,
    "2 grad_outputs for 1 outputs")
  expect.error(function() gradgradcheck(f, x, { true }) end, "grad_output 1 is a boolean")
  expect.error(function() gradgradcheck(function(a) return a:detach() end, x) end,
    "no output of the function requires grad")
end)

test("what does not require grad must not depend on the inputs", function()
  local x = leaf { 1, 2 }
  expect.equal(gradcheck(function(a) return a:detach() * 0 end, x), true)
  expect.equal(gradcheck(function(a) return a * 2, a:detach() end, x), true)
  expect.error(function() gradcheck(function(a) return a:detach() * 2 end, x) end,
    "output 1 does not require grad, but it changes with input 1 %(numerical derivatives of up to 2")
end)

test("backward that gives other gradients each time is found, within nondet_tol", function()
  local x, calls = leaf { 1, 2 }, 0
  local function f(a)
    return with_gradient(a, function(g)
      calls = calls + 1
      return g * (1 + 9e-10 * (calls % 2))
    end)
  end
  for _, fast in ipairs { false, true } do
    expect.error(function() gradcheck(f, x, { fast_mode = fast }) end,
      "backward is not deterministic.*differ by up to %d.*e%-10, more than nondet_tol = 0")
    expect.equal(gradcheck(f, x, { nondet_tol = 1e-8, fast_mode = fast }), true)
  end
end)

test("a gradient that did not come must count as zeros", function()
  local x = leaf { 1, 2 }
  local function f(a)
    local second = a * 3
    second:register_hook(function(g)
      if g:eq(0):all():item() then return ml.ones_like(g) end
    end)
    return a * 2, second
  end
  expect.error(function() gradcheck(f, x) end,
    "the gradient of input 1 by output 1 alone differs from that with zeros for the gradients")
  expect.equal(gradcheck(f, x, { check_undefined_grad = false, check_grad_dtypes = true }), true)
end)

test("a function that draws random numbers is named as the reason", function()
  expect.error(function() gradcheck(function(a) return a * ml.rand({}, DOUBLE) end, leaf { 1, 2 }) end,
    "the function gives different outputs for the same inputs")
end)

test("NaN in a gradient is a difference", function()
  local function f(a) return with_gradient(a, function(g) return g * (0 / 0) end) end
  for _, fast in ipairs { false, true } do
    expect.error(function() gradcheck(f, leaf { 1 }, { fast_mode = fast }) end,
      "numerical 1, analytical %-?nan")
  end
end)

test("inputs of less than double precision warn, once", function()
  local run = [[local ml = require 'moonlet'
    local x = ml.ones(2, { requires_grad = true })
    for _ = 1, 2 do print(ml.autograd.gradcheck(function(a) return a end, x, { eps = 0.25 })) end]]
  local process <close> = assert(io.popen(("'%s' -e \"%s\" 2>&1"):format(arg[-1], run)))
  local text = process:read "a"
  expect.truthy(text:find "gradcheck: input 1 has dtype float32: differences of less than double")
  local _, count = text:gsub("has dtype", "")
  expect.equal(count, 1)
  expect.truthy(text:find "true")
end)

test("inputs that share memory are refused", function()
  local x = leaf { 1, 2, 3, 4 }
  local function f(a) return a:sin() end
  expect.error(function() gradcheck(f, x:expand(2, 4)) end,
    "elements of input 1 share memory %(strides 0, 1 of shape %(2, 4%)%)")
  expect.error(function() gradcheck(f, x:detach():as_strided({ 2, 3 }, { 1, 1 }):requires_grad_()) end,
    "elements of input 1 share memory")
  expect.equal(gradcheck(f, x:detach():as_strided({ 2, 2 }, { 2, 1 }):requires_grad_()), true)
  expect.error(function() gradcheck(function(a, b) return a * b end, { x, x.data }) end,
    "inputs 1 and 2 share memory")
  local table_of_two = ml.ones({ 3, 2 }, DOUBLE)
  local left = table_of_two:select(2, 1):requires_grad_()
  local right = table_of_two:select(2, 2):requires_grad_()
  expect.equal(gradcheck(function(a, b) return a * b end, { left, right }), true)
  expect.equal(gradcheck(function(a, b) return a * b end, { x, x }), true)
end)

test("an error inside the function passes through and leaves the inputs as they were", function()
  local x, calls = leaf { 1, 2 }, 0
  expect.error(function()
    gradcheck(function(a)
      calls = calls + 1
      if calls == 3 then error "boom" end
      return a
    end, x, { raise_exception = false })
  end, "boom")
  expect.equal(x:tolist(), { 1, 2 })
end)

test("wrong arguments", function()
  local x = leaf { 1, 2 }
  local function f(a) return a end
  expect.error(function() gradcheck(f, ml.ones(2)) end, "no input requires grad")
  expect.error(function() gradcheck(f, 3) end, "'inputs'")
  expect.error(function() gradcheck(f, nil) end, "'inputs' is missing")
  expect.error(function() gradcheck(f, x, { epss = 1 }) end, "unknown option 'epss'; did you mean 'eps'")
  expect.error(function() gradcheck(f, x, { eps = 0 }) end, "'eps' must be a number above 0")
  expect.error(function() gradcheck(function() return 3 end, x) end,
    "result 1 of the function is a number, expected a tensor")
  expect.error(function() gradcheck(f, { x, y = 3 }, {}) end, "field 'y'")
  expect.error(function() gradcheck(f, x, { check_backward_ad = false }) end, "one of")
  expect.error(function() gradgradcheck(f, x, { check_rev_over_rev = false }) end, "one of")
  local size = 2
  expect.error(function()
    gradcheck(function(a)
      size = size + 1
      return a:sum():expand(size)
    end, x)
  end, "output 1 had shape %(3,%) and then %(4,%)")
end)

test("the script's random numbers go on as they were", function()
  local x = leaf { 1, 2 }
  ml.manual_seed(3)
  local wanted = ml.rand(2):tolist()
  ml.manual_seed(3)
  gradcheck(function(a) return a * 2, a:sin() end, x, { fast_mode = true })
  gradgradcheck(function(a) return a:sin() end, x)
  expect.equal(ml.rand(2):tolist(), wanted)
end)

test("it records inside of no_grad, and in the coroutine that calls it", function()
  local x = leaf { 1, 2 }
  expect.equal(ml.no_grad(gradcheck, function(a) return a:sin() end, x), true)
  local co = coroutine.wrap(function()
    return gradcheck(function(a) coroutine.yield() return a:sin() end, x)
  end)
  local result
  repeat result = co() until result ~= nil
  expect.equal(result, true)
end)

local function part(name)
  local found = pcall(require, "moonlet." .. name)
  return found or harness.skip("there is no ml." .. name)
end

test("forward mode is checked", function()
  part "autograd.forward_ad"
  local x = leaf { 0.5, 2 }
  local z = leaf({ ml.complex(0.3, 1) }, ml.complex128)
  for _, fast in ipairs { false, true } do
    local given = { check_forward_ad = true, fast_mode = fast }
    expect.equal(gradcheck(function(a) return a:exp(), a:sum() end, x, given), true)
    expect.equal(gradcheck(function(a) return a * a, a.real end, z, given), true)
    given.check_backward_ad = false
    expect.equal(gradcheck(sin_with_wrong_element, leaf { { 1 }, { 2 } }, given), true)
    expect.equal(gradgradcheck(function(a) return a:sin() end, x,
      { check_fwd_over_rev = true, fast_mode = fast }), true)
  end
end)

test("what goes wrong in forward mode and in vmap is found", function()
  part "func"
  local forward = require "moonlet.autograd.forward_ad"
  local x = leaf { 0.5, 2 }
  -- The tangent is lost on the way.
  local function cut(a)
    local inside, _, tangent = pcall(forward.unpack_dual, a)
    return inside and tangent and a:detach() * 1 or a * 1
  end
  expect.equal(gradcheck(cut, x), true)
  for _, fast in ipairs { false, true } do
    expect.error(function()
      gradcheck(function(a) return cut(a):sin() end, x, { check_forward_ad = true, fast_mode = fast })
    end, "numerical 0%.%d+, forward mode 0\n")
  end
  -- Two elements twice, a batch one by one, then at once: the seventh is that in vmap.
  local function in_seventh(change)
    local calls = 0
    return function()
      gradcheck(function(a)
        return with_gradient(a, function(g)
          calls = calls + 1
          return calls == 7 and change(g) or nil
        end)
      end, x, { check_batched_grad = true })
    end
  end
  expect.error(in_seventh(function(g) return g * 2 end),
    "the gradients of input 1 by output 1 in vmap differ from those one by one")
  expect.error(in_seventh(function() error "not here" end),
    "the gradients of output 1 fail in vmap: .*not here")
end)

test("gradients in vmap are checked", function()
  part "func"
  local x = leaf { 0.5, 2 }
  local given = { check_batched_grad = true }
  expect.equal(gradcheck(function(a) return a:exp(), a:sum() end, x, given), true)
end)

harness.run()
