// interp/binding/program/program.cpp: captures and programs as userdata.
#include "interp/binding/program/program.h"

#include <algorithm>
#include <new>

#include "autograd/ops.h"
#include "autograd/program/exported.h"
#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/io.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/embed/lua_api.h"
#include "interp/state/entry.h"
#include "interp/state/state.h"
#include "tensor/program/capture.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/overwritten.h"
#include "tensor/program/program.h"
#include "tensor/program/program_data.h"
#include "tensor/program/shapes/dynamic.h"
#include "tensor/runtime/execution.h"

namespace moonlet::binding {
namespace {

constexpr const char* kGraphName = "moonlet.CapturedGraph";
constexpr const char* kProgramName = "moonlet.ProgramHandle";

// What a capture has seen.
struct Captured {
  program::Graph graph;
  std::string gradients;                          // with gradients: ProgramData::gradients
  std::vector<std::pair<int32_t, Tensor>> state;  // by parameter: what it was before it changed
};

// A program, and the memory of its runs in this interpreter.
struct ProgramCell {
  explicit ProgramCell(Program from) : program(std::move(from)), context(program) { record(); }
  bool has_gradients() const { return !program.data().gradients.empty(); }
  void record();

  Program program;
  Program::Context context;
  std::shared_ptr<program::RecordedProgram> recorded;  // of a program with gradients
  std::vector<bool> trained;                           // by parameter: whether it gets gradients
  std::vector<Tensor> inputs, outputs;
};

// The program with gradients runs on the same parameters and state.
void ProgramCell::record() {
  if (!has_gradients()) return;
  const program::ProgramData& data = program.data();
  const auto state = context.state();
  std::vector<Tensor> parameters;
  for (const program::Parameter& p : data.graph.parameters) {
    const auto own = std::find_if(state.begin(), state.end(),
                                  [&](const auto& each) { return each.first == p.name; });
    parameters.push_back(own == state.end() ? p.tensor : own->second);
  }
  recorded = program::program_with_gradients(data, std::move(parameters));
  trained = program::parameters_with_gradients(recorded->graphs());
}

// Parameters of a file get gradients as those did that it was made of.
void require_gradients(ProgramCell& cell) {
  if (!cell.has_gradients()) return;
  const std::vector<program::Parameter>& all = cell.recorded->graphs().forward.parameters;
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor t = all[i].tensor;
    if (cell.trained[i] && !t.requires_grad()) set_requires_grad(t, true);
  }
}

template <class T>
int l_collect(lua_State* L) {
  static_cast<T*>(lua_touserdata(L, 1))->~T();
  // What is collected is no such value any more.
  lua_pushnil(L);
  lua_setmetatable(L, 1);
  return 0;
}

template <class T, class... Parts>
T& push_new(lua_State* L, const char* name, Parts&&... parts) {
  void* const memory = lua_newuserdatauv(L, sizeof(T), 0);
  T* const made = new (memory) T(std::forward<Parts>(parts)...);
  luaL_setmetatable(L, name);
  return *made;
}

ProgramCell& check_program(lua_State* L, int index) {
  void* const found = luaL_testudata(L, index, kProgramName);
  if (found == nullptr) fail("program: a program is expected, got ", type_name(L, index));
  return *static_cast<ProgramCell*>(found);
}

// The tensors of an array.
std::vector<Tensor> tensors_argument(lua_State* L, int index, const char* op) {
  std::vector<Tensor> out;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(check_tensor(L, -1, op));
    lua_pop(L, 1);
  }
  return out;
}

std::string text_argument(lua_State* L, int index, const char* op) {
  if (lua_type(L, index) != LUA_TSTRING)
    fail(op, ": a string is expected, got ", type_name(L, index));
  size_t size = 0;
  const char* bytes = lua_tolstring(L, index, &size);
  return {bytes, size};
}

std::vector<std::string> texts_argument(lua_State* L, int index, const char* op) {
  std::vector<std::string> out;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(text_argument(L, -1, op));
    lua_pop(L, 1);
  }
  return out;
}

std::vector<int64_t> integers_argument(lua_State* L, int index) {
  std::vector<int64_t> out;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(luaL_checkinteger(L, -1));
    lua_pop(L, 1);
  }
  return out;
}

// --- captures ------------------------------------------------------------------------------------

std::string script_line(lua_State* L) {
  lua_Debug info;
  return find_where(L, info) ? text(info.short_src, ":", info.currentline) : std::string();
}

// The names of tensors that are no inputs: a table from tensors to texts.
void name_parameters(lua_State* L, int index, program::Capture& capture) {
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    note_seen(L, -2);
    capture.name_parameter(check_tensor(L, -2, "export"), text_argument(L, -1, "export"));
    lua_pop(L, 1);
  }
}

// Gives tensors from outside back what they held before a capture, when it ends.
struct RestoreChanged {
  const program::Capture& capture;
  ~RestoreChanged() {
    for (const program::Capture::Changed& each : capture.changed())
      program::copy_storage(each.now, each.before);
  }
};

// What its parameters that change were before.
void keep_state(const program::Capture& capture, Captured& out) {
  for (size_t i = 0; i < out.graph.parameters.size(); ++i) {
    const Tensor& t = out.graph.parameters[i].tensor;
    for (const program::Capture::Changed& each : capture.changed())
      if (&each.now.storage() == &t.storage())
        out.state.emplace_back(static_cast<int32_t>(i),
                               alias(each.before, t.sizes(), t.strides(), t.offset()));
  }
}

// capture(f, inputs, names, gradients) -> captured: calls f() while its ops are written down. What
// it returns are tensors, the outputs. What f changes is as before afterwards.
int l_capture(lua_State* L) {
  lua_settop(L, 4);
  const bool gradients = lua_toboolean(L, 4) != 0;
  if (execution.capture != nullptr)
    fail("export: another function is being captured, and this one runs inside of it");
  program::Capture capture;
  const RestoreChanged restore{capture};
  capture.keep_changed();
  capture.locate = [L] { return script_line(L); };
  for (const Tensor& each : tensors_argument(L, 2, "export")) capture.add_input(each);
  name_parameters(L, 3, capture);
  std::vector<Tensor> results;
  {
    const program::CaptureScope scope(capture);
    lua_pushvalue(L, 1);
    lua_call(L, 0, LUA_MULTRET);
    for (int i = 5; i <= lua_gettop(L); ++i) results.push_back(check_tensor(L, i, "export"));
    if (gradients) results = program::results_apart(capture, results);
    for (const Tensor& each : results) capture.add_output(each);
  }
  if (capture.stopped()) {
    const std::string& at = capture.stopped_at();
    fail("export: ", *capture.stopped(), at.empty() ? "" : text(" at ", at),
         ", so that no program gives the same for all inputs");
  }
  // Memory that f itself takes and fills is the program's.
  const std::vector<Tensor> adopted = program::adopt_overwritten(
      capture.graph(), [&](const Tensor& t) { return capture.is_named(t); });
  Captured captured;
  if (gradients) {
    program::Exported exported = program::export_gradients(capture, results);
    captured.graph = std::move(exported.graph);
    captured.gradients = std::move(exported.gradients);
  } else {
    captured.graph = capture.take();
  }
  keep_state(capture, captured);
  for (const auto& [parameter, before] : captured.state)
    check(!gradients || !captured.graph.parameters[parameter].tensor.requires_grad(),
          "export: gradients: the function changes '", captured.graph.parameters[parameter].name,
          "', which requires grad");
  push_new<Captured>(L, kGraphName, std::move(captured));
  return 1;
}

// --- programs ------------------------------------------------------------------------------------

// Field `name` of the table at `index` on top of the stack.
void push_field(lua_State* L, int index, const char* name) { lua_getfield(L, index, name); }

std::vector<program::DynamicSize> dynamic_sizes(lua_State* L, int index) {
  std::vector<program::DynamicSize> out;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    const std::vector<int64_t> at = integers_argument(L, lua_gettop(L));
    check(at.size() == 3, "export: a dynamic size is an input, a dim and a size");
    out.push_back({static_cast<int32_t>(at[0] - 1), static_cast<int32_t>(at[1] - 1),
                   static_cast<int32_t>(at[2] - 1)});
    lua_pop(L, 1);
  }
  return out;
}

std::vector<std::vector<int64_t>> size_lists(lua_State* L, int index) {
  std::vector<std::vector<int64_t>> out;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(integers_argument(L, lua_gettop(L)));
    lua_pop(L, 1);
  }
  return out;
}

// make(graphs, { sizes = { { .. }, .. }, dynamic = { { input, dim, size }, .. }, input_names,
// output_names, notes }) -> program. The graphs are of the same function, for each list of sizes.
int l_make(lua_State* L) {
  lua_settop(L, 2);
  std::vector<program::Graph> graphs;
  program::ProgramData data;
  std::vector<std::pair<int32_t, Tensor>> state;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, 1));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, 1, i);
    const auto& captured = *static_cast<Captured*>(luaL_checkudata(L, -1, kGraphName));
    graphs.push_back(captured.graph);
    if (i == 1) state = captured.state;
    if (i == 1) data.gradients = captured.gradients;
    lua_pop(L, 1);
  }
  check(!graphs.empty(), "export: a graph is missing");
  data.graph = graphs[0];
  for (const auto& [parameter, before] : state) data.graph.parameters[parameter].tensor = before;
  data.default_dtype = execution.default_dtype;
  push_field(L, 2, "input_names");
  data.input_names = texts_argument(L, -1, "export");
  push_field(L, 2, "output_names");
  data.output_names = texts_argument(L, -1, "export");
  push_field(L, 2, "dynamic");
  data.dynamic.sizes = dynamic_sizes(L, lua_gettop(L));
  push_field(L, 2, "sizes");
  program::fit_dynamic(data, graphs, size_lists(L, lua_gettop(L)));
  push_field(L, 2, "notes");
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    data.notes.emplace(text_argument(L, -2, "export"), text_argument(L, -1, "export"));
    lua_pop(L, 1);
  }
  push_new<ProgramCell>(L, kProgramName,
                        named("export", [&] { return ProgramCell(Program(std::move(data))); }));
  return 1;
}

int l_load(lua_State* L) {
  const std::string path = path_argument(L, 1, "load");
  Program loaded = Program::load(path, luaL_optinteger(L, 2, 0));
  try {
    require_gradients(push_new<ProgramCell>(L, kProgramName, std::move(loaded)));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("load: '", path, "': ", e.what());
  }
  return 1;
}

// What would get a gradient otherwise, and gets none here, is an error and not a zero.
void check_gradients(const ProgramCell& cell) {
  const program::RecordedGraphs& graphs = cell.recorded->graphs();
  const auto require = [&](const Tensor& t, program::Given given, const std::string& name) {
    if (t.requires_grad() && graphs.target(given) == program::kNone)
      fail("program: ", name,
           " requires grad, and was exported without; detach it, or export with ",
           "an example that requires grad");
  };
  for (size_t i = 0; i < cell.inputs.size(); ++i)
    require(cell.inputs[i], {false, static_cast<int>(i)}, text("input ", i + 1));
  for (size_t i = 0; i < graphs.parameters.size(); ++i)
    require(graphs.parameters[i], {true, static_cast<int>(i)},
            text("'", graphs.forward.parameters[i].name, "'"));
}

// An input in memory as in the example, recorded; where that was contiguous.
Tensor laid_out(const Tensor& x, const Dims& strides) {
  if (x.strides() == strides || !is_contiguous(x.sizes(), strides)) return x;
  const Tensor rows = contiguous(x);
  // Sizes of 1 have any stride.
  return rows.strides() == strides ? rows : clone(rows, MemoryFormat::Contiguous);
}

// On the tape.
void run_recorded(ProgramCell& cell) {
  if (execution.vmap != 0)
    fail("program: a program with gradients does not run inside vmap; give it the whole batch");
  if (execution.capture != nullptr) program::stop_capture("a program", "runs in it");
  for (const auto& each : cell.program.inputs())
    check(!each.changed, "program: a program with gradients that changes its inputs runs under ",
          "no_grad alone");
  check_gradients(cell);
  cell.context.check(cell.inputs);
  const program::Graph& graph = cell.recorded->graphs().forward;
  for (size_t i = 0; i < cell.inputs.size(); ++i)
    cell.inputs[i] = laid_out(cell.inputs[i], graph.values[graph.inputs[i]].strides);
  cell.recorded->run(cell.inputs, cell.outputs);
}

// program:run(tensor, ...) -> tensor, ...
int l_run(lua_State* L) {
  ProgramCell& cell = check_program(L, 1);
  const int count = lua_gettop(L) - 1;
  cell.inputs.clear();
  for (int i = 0; i < count; ++i) cell.inputs.push_back(check_tensor(L, i + 2, "program"));
  cell.outputs.clear();
  try {
    if (cell.recorded && grad_enabled())
      run_recorded(cell);
    else
      cell.context.run(cell.inputs, cell.outputs);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    const std::string& line = cell.context.line();
    if (line.empty()) throw;
    throw Error(text(e.what(), " (captured at ", line, ")"));
  }
  lua_settop(L, 0);
  luaL_checkstack(L, static_cast<int>(cell.outputs.size()) + 2, "too many outputs");
  const int results = static_cast<int>(cell.outputs.size());
  for (Tensor& each : cell.outputs) push_result(L, std::move(each));
  cell.inputs.clear();
  return results;
}

int l_save(lua_State* L) {
  ProgramCell& cell = check_program(L, 1);
  const std::string path = path_argument(L, 2, "save");
  cell.context.save(path, lua_isnoneornil(L, 3) ? "" : text_argument(L, 3, "save"));
  return 0;
}

int l_describe(lua_State* L) { return push_string(L, check_program(L, 1).program.describe()); }
int l_to_dot(lua_State* L) { return push_string(L, check_program(L, 1).program.to_dot()); }
int l_text(lua_State* L) { return push_string(L, check_program(L, 1).program.to_string()); }

int l_ops(lua_State* L) {
  const std::vector<std::string> ops = check_program(L, 1).program.ops();
  lua_createtable(L, static_cast<int>(ops.size()), 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    push_string(L, ops[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

// Pushes { { name =, dtype =, device =, sizes = { .. } }, .. }; a size that varies is -1.
int push_descriptions(lua_State* L, const std::vector<Program::Description>& list) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  for (size_t i = 0; i < list.size(); ++i) {
    const Program::Description& each = list[i];
    lua_createtable(L, 0, 5);
    lua_pushboolean(L, each.changed);
    lua_setfield(L, -2, "changed");
    push_string(L, each.name);
    lua_setfield(L, -2, "name");
    push_string(L, name(each.dtype));
    lua_setfield(L, -2, "dtype");
    push_string(L, name(each.device));
    lua_setfield(L, -2, "device");
    lua_createtable(L, each.sizes.size(), 0);
    for (int d = 0; d < each.sizes.size(); ++d) {
      lua_pushinteger(L, each.sizes[d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "sizes");
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

int l_inputs(lua_State* L) { return push_descriptions(L, check_program(L, 1).program.inputs()); }
int l_outputs(lua_State* L) { return push_descriptions(L, check_program(L, 1).program.outputs()); }

int l_parameters(lua_State* L) {
  const auto parameters = check_program(L, 1).program.parameters();
  lua_createtable(L, 0, static_cast<int>(parameters.size()));
  for (const auto& [name, tensor] : parameters) {
    push_string(L, name);
    push_tensor(L, tensor);
    lua_rawset(L, -3);
  }
  return 1;
}

int l_set_parameter(lua_State* L) {
  ProgramCell& cell = check_program(L, 1);
  const std::string name = text_argument(L, 2, "set_parameter");
  cell.program.set_parameter(name, check_tensor(L, 3, "set_parameter"));
  cell.record();
  return 0;
}

int l_state(lua_State* L) {
  const auto state = check_program(L, 1).context.state();
  lua_createtable(L, 0, static_cast<int>(state.size()));
  for (const auto& [name, tensor] : state) {
    push_string(L, name);
    push_tensor(L, tensor);
    lua_rawset(L, -3);
  }
  return 1;
}

int l_reset(lua_State* L) {
  check_program(L, 1).context.reset();
  return 0;
}

int l_has_gradients(lua_State* L) {
  lua_pushboolean(L, check_program(L, 1).has_gradients());
  return 1;
}

int l_notes(lua_State* L) {
  const auto& notes = check_program(L, 1).program.data().notes;
  lua_createtable(L, 0, static_cast<int>(notes.size()));
  for (const auto& [key, value] : notes) {
    push_string(L, key);
    push_string(L, value);
    lua_rawset(L, -3);
  }
  return 1;
}

template <class T>
void add_type(lua_State* L, const char* name, const luaL_Reg* methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, guard<l_collect<T>>);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  set_functions(L, -1, methods);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int open_programs(lua_State* L) {
  static const luaL_Reg kNone[] = {{nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"run", op_guard<l_run>},
                                      {"save", op_guard<l_save>},
                                      {"describe", guard<l_describe>},
                                      {"to_dot", guard<l_to_dot>},
                                      {"text", guard<l_text>},
                                      {"ops", guard<l_ops>},
                                      {"inputs", guard<l_inputs>},
                                      {"outputs", guard<l_outputs>},
                                      {"parameters", guard<l_parameters>},
                                      {"set_parameter", guard<l_set_parameter>},
                                      {"state", guard<l_state>},
                                      {"reset", op_guard<l_reset>},
                                      {"has_gradients", guard<l_has_gradients>},
                                      {"notes", guard<l_notes>},
                                      {nullptr, nullptr}};
  static const luaL_Reg kFunctions[] = {{"capture", guard<l_capture>},
                                        {"make", op_guard<l_make>},
                                        {"load", op_guard<l_load>},
                                        {nullptr, nullptr}};
  luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
  lua_pop(L, 1);
  add_type<Captured>(L, kGraphName, kNone);
  add_type<ProgramCell>(L, kProgramName, kMethods);
  lua_newtable(L);
  set_functions(L, -1, kFunctions);
  return 1;
}

}  // namespace
}  // namespace moonlet::binding

int luaopen_moonlet_programs(lua_State* L) {
  return moonlet::guard<moonlet::binding::open_programs>(L);
}
