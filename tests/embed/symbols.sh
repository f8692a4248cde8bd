# tests/embed/symbols.sh, read by run.sh: what the binaries export, and nothing else.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }'; }

if exported "$library" | grep -v -e '^_Z[A-Z]*N*K*7moonlet' -e '^moonlet_[a-z]'; then
  fail "libmoonlet.so exports what is not its own"
fi
# The C interface: its header's functions, and no others.
exported "$library" | grep '^moonlet_' | sort >c_exported
sed -n 's/^MOONLET_API.*[ *]\(moonlet_[a-z_0-9]*\)(.*/\1/p' "$prefix/include/moonlet/c.h" | sort >c_declared
diff c_declared c_exported || fail "moonlet/c.h and the C functions of libmoonlet.so differ"
[ "$(wc -l <c_declared)" -ge 100 ] && [ "$(wc -l <c_declared)" -le 150 ] || fail "the size of moonlet/c.h"
# What hosts may rely on is declared in a header that is installed: the name of each function and
# class is in one.
cat $(find "$prefix/include/moonlet" -name '*.h') >all_headers.txt
nm -D --defined-only "$library" | sed -n 's/.* \(_Z[^ @]*\)@@MOONLET_0$/\1/p' | c++filt |
  sed 's/(.*//; s/\[abi:cxx11\]//; s/^.* for //; s/.*:://; s/operator.*/operator/; s/^~//' | sort -u >cpp_exported
tr -cs 'A-Za-z0-9_' '\n' <all_headers.txt | sort -u >header_words
if comm -23 cpp_exported header_words | grep .; then
  fail "libmoonlet.so exports what no installed header names"
fi
[ "$(exported "$library" | wc -l)" -lt 3500 ] || fail "libmoonlet.so exports more than its headers promise"
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
exported "$program" | grep -q '^_ZN7moonlet11Interpreter10run_string' ||
  fail "bin/moonlet does not export what the headers promise to extensions"
if exported "$program" | grep -e moonlet7binding -e 'moonlet6N_'; then
  fail "bin/moonlet exports what neither C modules, extensions nor the plugin need"
fi
for file in "$library" "$program"; do
  if readelf -d "$file" | grep NEEDED | grep lua; then fail "$file needs a shared Lua"; fi
done
readelf -d "$library" | grep -q 'SONAME.*\[libmoonlet\.so\.0\]' || fail "the soname of libmoonlet.so"
