# tests/embed/symbols.sh, read by run.sh: what the binaries export, and nothing else.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }'; }

if exported "$library" | grep -v '^_Z[A-Z]*N*K*7moonlet'; then
  fail "libmoonlet.so exports what is not its own"
fi
for name in lua_State Interpreter5stateEv moonlet3cpu moonlet6N_ moonlet7binding; do
  if exported "$library" | grep -v 'typeinfo' | grep "^_ZN.*$name"; then
    fail "libmoonlet.so exports internals ($name)"
  fi
done
exported "$library" | grep -q '^_ZN7moonlet11Interpreter10run_string' || fail "no Interpreter is exported"
if exported "$libdir/libmoonlet-lua.so" | grep -v -e '^luaopen_moonlet$' -e '^_Z[A-Z]*N*K*7moonlet'; then
  fail "libmoonlet-lua.so exports what is not its own"
fi
exported "$libdir/libmoonlet-lua.so" | grep -q '^luaopen_moonlet$' || fail "luaopen_moonlet is not exported"
for name in lua_callk luaL_checkversion_ luaL_newstate lua_gettop luaopen_base; do
  exported "$program" | grep -q "^$name\$" || fail "bin/moonlet does not export $name for C modules"
done
if exported "$program" | grep -e moonlet7binding -e 'moonlet6N_' -e 11Interpreter; then
  fail "bin/moonlet exports what neither C modules nor the plugin need"
fi
for file in "$library" "$program"; do
  if readelf -d "$file" | grep NEEDED | grep lua; then fail "$file needs a shared Lua"; fi
done
readelf -d "$library" | grep -q 'SONAME.*\[libmoonlet\.so\.0\]' || fail "the soname of libmoonlet.so"
