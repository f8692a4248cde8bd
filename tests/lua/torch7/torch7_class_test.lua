-- tests/lua/torch7/torch7_class_test.lua: torch.class, and what tells the class of a value.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local test, expect = harness.test, harness.expect

test("classes with parents", function()
  local classes = {}
  local Animal = torch.class("zoo.Animal", classes)
  function Animal:__init(name) self.name = name end
  function Animal:speak() return self.name end
  local Dog, parent = torch.class("zoo.Dog", "zoo.Animal", classes)
  expect.truthy(parent == Animal)
  function Dog:speak() return parent.speak(self) .. "!" end
  local dog = classes.Dog "Rex"
  expect.equal({ dog:speak(), torch.type(dog), torch.typename(dog) },
    { "Rex!", "zoo.Dog", "zoo.Dog" })
  expect.equal({ torch.isTypeOf(dog, "zoo.Animal"), torch.isTypeOf(dog, classes.Animal),
    torch.isTypeOf(dog, "zoo.*mal"), torch.isTypeOf(dog, "zoo.Cat") }, { true, true, true, false })
  expect.error(function() torch.class("zoo.Dog", "torch.Timer", classes) end,
    "already assigned a parent")
  expect.error(function() torch.class("zoo.Cat", "zoo.Nothing", classes) end,
    "zoo.Nothing is not known")
end)

test("a class in a global package", function()
  _G.shop = {}
  torch.class "shop.Item"
  expect.equal(torch.type(_G.shop.Item()), "shop.Item")
  expect.error(function() torch.class "nowhere.Item" end, "invalid module name")
end)

test("operators are inherited methods", function()
  local classes = {}
  local Money = torch.class("bank.Money", classes)
  function Money:__init(value) self.value = value end
  function Money.__add__(a, b) return classes.Money(a.value + b.value) end
  function Money:__tostring__() return "$" .. self.value end
  function Money:__call__(x) return self.value * x end
  torch.class("bank.Coin", "bank.Money", classes)
  local a, b = classes.Coin(1), classes.Coin(2)
  expect.equal({ tostring(a + b), a(5), a == b }, { "$3", 5, false })
  expect.error(function() return a - b end, "bank.Coin has no sub operator")
end)

test("__index__ and __newindex__", function()
  local classes = {}
  local Row = torch.class("data.Row", classes)
  torch.class("data.Wide", "data.Row", classes)
  function Row:__index__(key)
    if type(key) == "number" then return key * 2, true end
    return nil, false
  end
  function Row:__newindex__(key, value)
    if key == "secret" then
      rawset(self, "hidden", value)
      return true
    end
    return false
  end
  function Row:name() return "row" end
  local wide = classes.Wide()
  wide.secret, wide.open = 1, 2
  expect.equal({ wide[4], wide:name(), wide.hidden, wide.open, rawget(wide, "secret") },
    { 8, "row", 1, 2 })
end)

test("types of values", function()
  expect.equal({ torch.type(1), torch.type "a", torch.type {}, torch.type(torch.FloatTensor()) },
    { "number", "string", "table", "torch.FloatTensor" })
  expect.equal({ torch.isTensor(torch.Tensor()), torch.isTensor(torch.Storage()),
    torch.isStorage(torch.Storage()), torch.isTensor {} }, { true, false, true, false })
  expect.equal(torch.factory "torch.LongTensor"():type(), "torch.LongTensor")
  local x = torch.Tensor(2)
  expect.truthy(torch.pointer(x) == torch.pointer(x))
  expect.truthy(torch.pointer(x) ~= torch.pointer(torch.Tensor(2)))
  expect.truthy(torch.pointer(x:storage()) == torch.pointer(x:view(1, 2):storage()))
end)

test("methods added to a class of tensors", function()
  function torch.FloatTensor:twice() return self * 2 end
  expect.equal(torch.FloatTensor { 3 }:twice():totable(), { 6.0 })
  expect.equal(torch.DoubleTensor().twice, nil)
end)

harness.run()
