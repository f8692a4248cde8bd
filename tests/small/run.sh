#!/bin/sh
# tests/small/run.sh: hosts that are linked with the static library of chosen ops run with those, name an op that is
# left out, and are small. Prints what they have, stripped.
# usage: run.sh BUILD_FOLDER MOONLET OPS_FILE LIMITS(yes|no) HELP(true|false) STATIC_LINK_FLAG...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 moonlet=$(cd "$(dirname "$2")" && pwd)/$(basename "$2") ops=$3 limits=$4 help=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $*"
  exit 1
}
for op in add fill full ones sum; do
  grep -qx "$op" "$ops" || { echo "skipped: $op is not in $ops, which these hosts call" && exit 77; }
done
grep -qx erfinv "$ops" && { echo "skipped: erfinv is in $ops" && exit 77; }

# size NAME FILE MOST: strips, and tells.
size() {
  strip "$2"
  bytes=$(wc -c <"$2")
  echo "$1: $bytes bytes"
  [ "$limits" = no ] || [ "$bytes" -le "$3" ] || fail "$1 has $bytes bytes, expected at most $3"
}
left_out="erfinv: this build has no such op; add 'erfinv' to the file of its option ops (-Dops=FILE)"

for name in hello interpreter; do
  ${CXX:-c++} -std=c++20 -Os -ffunction-sections -I"$build/include" -o "$name" "$here/$name.cpp" \
    "$build/interp/package/libmoonlet.a" "$@" -pthread || fail "$name does not link"
done
size 'tensors in C++' hello 2000000
size 'an interpreter in C++' interpreter $([ "$help" = true ] && echo 4500000 || echo 4000000)
./hello >out || fail 'tensors in C++ do not run'
printf '8\n%s\n' "$left_out" | cmp - out || { cat out; fail 'tensors in C++'; }
./interpreter "$here/hello.lua" >out || fail 'the interpreter does not run'
printf '14.0\n{{2., 3.},\n {4., 5.}}\nTensor (2, 2) float32\n' >wanted
grep -v "$left_out" out | cmp - wanted || { cat out; fail 'an interpreter in C++'; }
grep -q "$left_out" out || { cat out; fail 'the interpreter does not name what is left out'; }

cp "$moonlet" moonlet
"$moonlet" "$here/hello.lua" | cmp - wanted || fail 'the executable'
if "$moonlet" -e 'require("moonlet").ones(2):erfinv()' 2>err; then fail 'an op that is left out runs'; fi
grep -q "$left_out" err || { cat err; fail 'the executable does not name what is left out'; }
wanted_help=x:sum
[ "$help" = true ] || wanted_help='this build has no texts of help'
"$moonlet" -e 'require("moonlet").help "sum"' | grep -q "$wanted_help" ||
  fail 'help of an op that is there'
size 'the executable' moonlet 5000000
size 'programs (libmoonlet-run.so)' "$(cp -L "$build/interp/package/libmoonlet-run.so" run.so && echo run.so)" 2000000
