# tests/embed/other_luas.sh, read by run.sh: a C-built Lua in the process, before or beside Moonlet's;
# Lua states of hosts; C modules.
# shellcheck disable=SC2046,SC2086
cc_lua="$(pkg-config --cflags lua5.4)"
${CC:-cc} -O1 -shared -fPIC $cc_lua "$here/tiny.c" -o tiny.so
TINY_MODULE=$work/tiny.so
export TINY_MODULE

# C modules in the executable, also when another Lua is preloaded.
c_lua=$(ldconfig -p | sed -n 's/.*=> \(.*liblua5\.4\.so\.0\)$/\1/p' | head -n 1)
use_tiny='local ml = require "moonlet" package.cpath = os.getenv "TINY_MODULE" local tiny = require "tiny"
  local ok, text = pcall(tiny.fail, 3) assert(not ok and text == "tiny failed with 3", text)
  assert(not pcall(tiny.apply, error)) assert(tiny.apply(math.max, 1, 5) == 5)
  assert(not pcall(ml.no_grad, function() tiny.fail(1) end) and ml.is_grad_enabled()) print "good"'
[ "$("$program" -e "$use_tiny")" = good ] || fail "a C module in bin/moonlet"

build beside beside_lua.cpp moonlet
./beside
build beside-linked beside_lua.cpp moonlet $cc_lua -DWITH_LUA -llua5.4
./beside-linked
build plugin.so beside_lua.cpp moonlet -shared -fPIC -DPLUGIN
${CC:-cc} -O1 $cc_lua "$here/plugin_host.c" -o plugin-host -llua5.4 -ldl
[ -n "$sanitized" ] || ./plugin-host ./plugin.so
${CXX:-c++} -std=c++20 $flags $(pkg-config --cflags moonlet) $cc_lua -DWITH_LUA "$here/beside_lua.cpp" \
  -o beside-static -llua5.4 $(pkg-config --static --libs moonlet | sed 's/-lmoonlet /-l:libmoonlet.a /') \
  -pthread
./beside-static

# States of the host, with Lua's C++ build: shared, and inside the program but shown by it. One that
# it does not show is refused.
build own-state own_state.cpp moonlet-lua
module=$(find "$prefix/lib/lua" -name moonlet.so)
LUA_CPATH_5_4=$module ./own-state
lua_archive=$(pkg-config --variable=libdir lua5.4-c++)/liblua5.4-c++.a
if [ -f "$lua_archive" ]; then
  build own-lua own_state.cpp moonlet-lua -Wl,--whole-archive "$lua_archive" -Wl,--no-whole-archive \
    -Wl,--export-dynamic
  LUA_CPATH_5_4=$module ./own-lua
  build hidden-lua hidden_lua.cpp moonlet-lua "$lua_archive" -Wl,--exclude-libs,ALL -ldl
  ./hidden-lua "$module"
fi

if [ -z "$sanitized" ] && [ -n "$c_lua" ]; then
  [ "$(LD_PRELOAD=$c_lua "$program" -e "$use_tiny")" = good ] || fail "bin/moonlet with another Lua"
  LD_PRELOAD=$c_lua ./beside
  LD_PRELOAD=$c_lua ./own-state refused
fi
if [ -z "$sanitized" ] && command -v lua5.4 >/dev/null 2>&1; then
  text=$(LUA_CPATH_5_4=$module lua5.4 -e 'print(select(2, pcall(require, "moonlet")))')
  case $text in
    *'built as C++'*) ;;
    *) fail "lua5.4 got: $text" ;;
  esac
fi
if [ -z "$sanitized" ] && command -v lua5.1 >/dev/null 2>&1; then
  text=$(MODULE=$module lua5.1 -e '
    print(select(2, pcall(assert(package.loadlib(os.getenv "MODULE", "luaopen_moonlet")))))' 2>&1)
  case $text in
    *'belongs to the one in'*) ;;
    *) fail "lua5.1 got: $text" ;;
  esac
fi
