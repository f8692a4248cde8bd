// interp/embed/bundle.cpp: puts a bundle before the files of an interpreter.
#include "interp/embed/bundle.h"

#include <memory>

#include "interp/state/bundled.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"

namespace moonlet {
namespace {

void open(Interpreter& lua, const std::shared_ptr<const io::Bundle>& bundle) {
  lua.with_state([&](lua_State* L) {
    StateData& data = state_data(L);
    check(bundle_of(data) == nullptr, "open_bundle: this interpreter has a bundle");
    data.files = files_before(bundle, std::move(data.files));
    open_bundled_files(L);
  });
}

}  // namespace

void open_bundle(Interpreter& lua, std::string_view bytes) {
  open(lua, io::bundle_in_memory(bytes, "open_bundle: the bundle"));
}

void open_bundle_file(Interpreter& lua, const std::string& path) {
  open(lua, io::open_bundle(path, "open_bundle"));
}

}  // namespace moonlet
