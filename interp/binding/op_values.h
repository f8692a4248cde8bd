// interp/binding/op_values.h: ops and their boxed arguments as scripts see them: descriptions as
// tables, arguments as a call would give them (dims and positions from 1), results checked.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/op_info.h"

namespace moonlet::binding {

// An argument or a result of one form of an op. In the out form the results come first.
struct SchemaArgument {
  std::string name;
  std::string type;  // as in the row: "Dim[]"
  const char* default_value;
  bool written;
};
std::vector<SchemaArgument> arguments_of(const OpInfo& op);
std::vector<SchemaArgument> results_of(const OpInfo& op);

// Pushes the table that describes the op; the same one each time.
void push_op(lua_State* L, const OpInfo& op);

// Pushes the arguments as a table: positions as in the call, which names stand for as well.
void push_arguments(lua_State* L, const OpInfo& op, const BoxedValues& arguments);
// Whether the value is such a table, or for an op whose first argument is no list, any table.
bool is_arguments(lua_State* L, int index, const OpInfo& op);
// The arguments in a table, or those given one by one from a stack index. `before` are those the op
// was called with: what a script cannot write, it can only hand on.
BoxedValues arguments_at(lua_State* L, int table, const OpInfo& op, const BoxedValues& before);
BoxedValues arguments_from(lua_State* L, int first, int count, const OpInfo& op,
                           const BoxedValues& before);

// Pushes argument i as a call would give it.
void push_argument(lua_State* L, const OpInfo& op, size_t i, const BoxedValue& value);

// Pushes the results and returns their number.
int push_results(lua_State* L, const BoxedValues& results);
// The `count` results from a stack index on, which `giver` gave. Throws unless they are what the
// op, called with those arguments, gives; `before` are those it gave, of which an undefined tensor
// may stay one.
BoxedValues results_from(lua_State* L, int first, int count, const OpInfo& op,
                         std::span<const BoxedValue> arguments, const BoxedValues& before,
                         const char* giver = "the handler of ml.override");

// The coroutine that runs.
lua_State* running_coroutine(lua_State* main);

}  // namespace moonlet::binding
