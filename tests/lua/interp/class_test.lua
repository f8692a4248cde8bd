-- tests/lua/interp/class_test.lua: classes, inheritance, metamethods and the assignment hooks.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local class = require "moonlet.class"

test("a class makes objects through init", function()
  local Point = class("Point")
  function Point:init(x, y) self.x, self.y = x, y end
  function Point:sum() return self.x + self.y end
  local p = Point(3, 4)
  expect.equal(p:sum(), 7)
  expect.equal(tostring(Point), "class Point")
  expect.truthy(tostring(p):find("^Point: "))
  expect.equal(class.name(Point), "Point")
  expect.equal(class.of(p), Point)
  expect.equal(class.of({}), nil)
end)

test("methods and super go through three levels", function()
  local A = class("A")
  function A:init(n) self.n = n end
  function A:twice() return self.n * 2 end
  local B = class("B", A)
  function B:init(n) B.super.init(self, n + 1) end
  local C = class("C", B)
  function C:init(n) C.super.init(self, n + 1) end
  function C:twice() return C.super.twice(self) + 100 end
  expect.equal(C(5):twice(), 114)
  expect.equal(B(5):twice(), 12)
  function A:later() return "later" end
  expect.equal(C(1):later(), "later")
end)

test("is_a and is_instance", function()
  local A, Other = class("A"), class("Other")
  local B = class("B", A)
  local b = B()
  expect.truthy(b:is_a(B) and b:is_a(A) and class.is_instance(b, A))
  expect.falsy(b:is_a(Other) or class.is_instance(A(), B) or class.is_instance(3, A))
  expect.truthy(class.is_subclass(B, A) and class.is_class(B) and not class.is_class(b))
  expect.error(function() b:is_a("A") end, "is_instance: expected a class, got string")
end)

test("metamethods are inherited, also those set later", function()
  local A = class("A")
  function A:__call(x) return x + 1 end
  function A:__len() return 42 end
  local B = class("B", A)
  function B:__len() return 7 end
  local C = class("C", B)
  function A:__tostring() return "an A" end
  function A.__add(a, b) return a, b end
  expect.equal(C()(1), 2)
  expect.equal(#C(), 7)
  expect.equal(#A(), 42)
  expect.equal(tostring(C()), "an A")
  expect.truthy(C() + 1)
end)

test("assignment and lookup can be overridden", function()
  local Module = class("Module")
  function Module.__alloc() return { store = {} } end
  function Module:__newindex(key, value) self.store[key] = value end
  function Module:__index(key)
    local found = rawget(self, "store")[key]
    if found ~= nil then return found end
    return class.lookup(self, key)
  end
  function Module:hello() return "hello" end
  local Net = class("Net", Module)
  function Net:init() self.weight = 5 end
  function Net:forward() return self.weight end
  local net = Net()
  expect.equal(rawget(net, "weight"), nil)
  expect.equal(net.store.weight, 5)
  expect.equal(net:forward(), 5)
  expect.equal(net:hello(), "hello")
  expect.equal(net.nothing, nil)
  expect.truthy(net:is_a(Module))
end)

test("misuse is an error that says what came", function()
  expect.error(function() class() end, "class: the name must be a non%-empty string, got nil")
  expect.error(function() class("A", {}) end, "the parent of A must be a class, got table")
  expect.error(function() class("A")(1, 2) end, "class_test.lua:%d+: A: takes no arguments, got 2")
end)

harness.run()
