// interp/binding/generator.cpp: tells generators from other Lua values.
#include "interp/binding/generator.h"

namespace moonlet::binding {

Generator* test_generator(lua_State* L, int index) {
  return static_cast<Generator*>(luaL_testudata(L, index, "moonlet.Generator"));
}

}  // namespace moonlet::binding
