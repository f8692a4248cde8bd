#!/bin/sh
# tests/run_library/run.sh: a library of the ops of one program is small, gives the same bits as the module, and
# names an op that it does not have.
# usage: run.sh MOONLET HOST LIBRARY OPS_FILE MOST_BYTES; MOST_BYTES 0: the size is that of a build for tests
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
"$1" "$here/program.lua" "$work" "$4"
"$2" "$work/net.mlp" "$work/input" "$work/given" || fail "the program does not run"
cmp "$work/output" "$work/given" || fail "the library computes otherwise than the module"
if "$2" "$work/other.mlp" "$work/input" "$work/given" >"$work/message"; then fail "an op that is left out runs"; fi
grep -q "needs the op 'erf', which is not there" "$work/message" || fail "the message: $(cat "$work/message")"
strip -o "$work/library" "$3"
size=$(wc -c <"$work/library")
echo "stripped: $size bytes"
[ "$5" = 0 ] || [ "$size" -lt "$5" ] || fail "the library has $size bytes, expected less than $5"
