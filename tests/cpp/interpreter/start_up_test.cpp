// tests/cpp/interpreter/start_up_test.cpp: what an interpreter makes when a script asks for it, and
// not before: ops as fields and methods, methods of modules; and what all of it takes.
#include "tests/cpp/catch2.h"

#include <string>

#include "interp/embed/moonlet.h"

using namespace moonlet;

TEST_CASE("an interpreter with nn takes little") {
  Interpreter lua;
  lua.run_string("ml = require 'moonlet' nn = ml.nn collectgarbage() collectgarbage()");
  // KiB, of which Lua's own libraries are 25.
  CHECK(lua.run_string("return collectgarbage 'count'")[0].number() < 200);
}

TEST_CASE("ops are found where they are not yet") {
  Interpreter lua;
  lua.run_string(R"(
    ml = require 'moonlet'
    assert(rawget(ml, 'relu') == nil and rawget(ml._methods, 'relu') == nil)
    local x = ml.tensor { -1.0, 2 }
    assert(ml.relu(x):sum():item() == 2 and x:relu():sum():item() == 2)
    assert(rawget(ml, 'relu') == ml.relu and ml._methods.relu == x.relu)
    assert(x.shape[1] == 2 and x.real == x)
    -- What a script puts there stays.
    local before = ml.exp
    ml.exp = function() return 'mine' end
    assert(ml.exp(x) == 'mine')
    local found = {}
    for name, f in pairs(ml) do found[name] = f end
    assert(found.exp == ml.exp and found.softmax == ml.softmax and found.sort)
    assert(found.exp ~= before)
    local methods = {}
    for name in pairs(ml._methods) do methods[name] = true end
    assert(methods.add_ and methods.backward and not methods.real and not methods.adam_step)
    assert(ml._internal.adam_step and not ml._internal.exp)
    for _, wrong in ipairs { 'ml.sofmax', 'ml.ones(2).sofmax' } do
      local ok, message = pcall(load('return ' .. wrong))
      assert(not ok and message:find "did you mean 'softmax'", message)
    end)");
}

TEST_CASE("methods of modules come with their first call") {
  Interpreter lua;
  lua.run_string(R"(
    ml = require 'moonlet'
    nn = ml.nn
    local loaded = package.loaded
    net = nn.Linear(2, 3)
    for _, part in ipairs { 'state', 'convert', 'copy', 'hooks', 'lookup', 'summary' } do
      assert(not loaded['moonlet.nn.' .. part], part)
    end
    -- A script may keep one, and put its own in its place, which may call it.
    local before, count = nn.Module.state_dict, 0
    nn.Module.state_dict = function(self, ...)
      count = count + 1
      return before(self, ...)
    end
    assert(net:load_state_dict(net:state_dict()) and loaded['moonlet.nn.state'])
    assert(count == 1 and before(net).weight and count == 1)
    assert(net:double().weight.dtype == 'float64' and loaded['moonlet.nn.convert'])
    assert(net:deepcopy():get_parameter 'bias' and net:summary(ml.ones(1, 2, { dtype = 'float64' })))
    -- A class of its own overrides them.
    local Net = nn.class 'Net'
    function Net:state_dict(...) return nn.Module.state_dict(self, ...), 'and more' end
    assert(select(2, Net():state_dict()) == 'and more'))");
}
