// interp/embed/extension/extension.cpp: what an extension says of itself, and what it gives an
// interpreter.
#include "interp/embed/extension/extension_loader.h"

#include <fstream>
#include <iterator>

#include "interp/binding/native_ops.h"
#include "interp/embed/class_record.h"
#include "interp/embed/session.h"
#include "lua.hpp"

namespace moonlet {

using detail::Access;
using detail::Session;

// --- the ABI -------------------------------------------------------------------------------------

namespace {

// With what every ABI begins.
std::string_view abi_mark() {
  const std::string_view own = kExtensionAbi;
  return own.substr(0, own.find(' ') + 1);
}

[[noreturn]] void refuse_abi(const std::string& path, std::string_view found) {
  const std::string_view own = kExtensionAbi;
  const size_t mark = abi_mark().size();
  fail(path, " was compiled against other headers (", std::string(found.substr(mark)),
       ") than those of this Moonlet (", std::string(own.substr(mark)), "); compile it again");
}

[[noreturn]] void refuse_file(const std::string& path) {
  fail(path, " is no extension of Moonlet: it has no MOONLET_EXTENSION, or is of an older Moonlet");
}

}  // namespace

void check_extension_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, ": cannot be read");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t at = bytes.find(abi_mark());
  if (at == bytes.npos) refuse_file(path);
  constexpr size_t kMost = 200;
  const std::string_view rest = std::string_view(bytes).substr(at, kMost);
  const std::string_view found = rest.substr(0, rest.find('\0'));
  if (found != kExtensionAbi) refuse_abi(path, found);
}

void check_extension(const ExtensionInfo& info, const std::string& path) {
  const std::string_view found = info.abi != nullptr ? info.abi : "";
  if (!found.starts_with(abi_mark())) refuse_file(path);
  if (found != kExtensionAbi) refuse_abi(path, found);
}

// --- its module ----------------------------------------------------------------------------------

Extension::Extension(Interpreter& interpreter, const ExtensionInfo& info)
    : interpreter_(interpreter), info_(info), module_(interpreter.new_table()) {}

void Extension::add_function(const std::string& name, detail::FunctionSet set) {
  Session& session = Access::session(interpreter_);
  session.protect([&](lua_State* L) {
    session.push(L, module_);
    Stack stack(L);
    detail::push_function_set(stack, std::move(set));
    lua_setfield(L, -2, name.c_str());
  });
}

detail::ClassRecord& Extension::add_class(const std::string& name, const std::type_info& type) {
  Session& session = Access::session(interpreter_);
  detail::ClassRecord& record = detail::new_class(session, name, type);
  session.protect([&](lua_State* L) {
    session.push(L, module_);
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.table_ref);
    lua_setfield(L, -2, name.c_str());
  });
  return record;
}

NativeOp& Extension::add_op(const detail::NativeEntries& entries) {
  return *ops_.emplace_back(std::make_unique<NativeOp>(entries));
}

void Extension::finish() {
  std::vector<const OpInfo*> added;
  for (const auto& op : ops_) added.push_back(&op->add(&info_));
  ops_.clear();
  Session& session = Access::session(interpreter_);
  session.protect([&](lua_State* L) {
    session.push(L, module_);
    for (const OpInfo* op : added) binding::install_native_op(L, *op, lua_gettop(L));
  });
}

namespace {
constexpr char kLoaded[] = "moonlet.extensions";  // in the registry: modules by their ExtensionInfo

// Pushes the module that the extension gave this state; false, and pushes nothing, without one.
bool push_loaded(lua_State* L, const ExtensionInfo& info) {
  luaL_checkstack(L, 6, "extension");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, kLoaded);
  const bool found = lua_rawgetp(L, -1, &info) == LUA_TTABLE;
  lua_remove(L, -2);
  if (!found) lua_pop(L, 1);
  return found;
}
}  // namespace

Table load_extension(Interpreter& interpreter, const ExtensionInfo& info) {
  check_extension(info, info.name);
  Session& session = Access::session(interpreter);
  Value known;
  session.protect([&](lua_State* L) {
    if (push_loaded(L, info)) known = session.take(L, -1);
  });
  if (!known.is_nil()) return known.table();
  Extension extension(interpreter, info);
  info.load(extension);
  extension.finish();
  session.protect([&](lua_State* L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, kLoaded);
    session.push(L, extension.module());
    lua_rawsetp(L, -2, &info);
  });
  return extension.module();
}

void push_extension(lua_State* L, const ExtensionInfo& info, const std::string& path) {
  check_extension(info, path);
  Session& session = Session::made_for(L);
  struct Borrowed {
    explicit Borrowed(Session& of) : interpreter(Access::borrow(of)) {}
    ~Borrowed() { Access::give_back(interpreter); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Interpreter interpreter;
  } borrowed(session);
  session.push(L, load_extension(borrowed.interpreter, info));
}

}  // namespace moonlet
