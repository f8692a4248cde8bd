#!/bin/sh
# tests/fuzz/library_test.sh: compares Moonlet's functions of `string` and `table` with Lua's.
# usage: library_test.sh MOONLET LUA LIBRARY_CALLS COUNT SEEDS     COUNT calls with each seed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LUA_INIT LUA_INIT_5_4
failed=0
seed=1
while [ $seed -le "$5" ]; do
  "$2" "$3" "$4" $seed >"$work/lua" || failed=1
  "$1" "$3" "$4" $seed >"$work/moonlet" || failed=1
  if ! cmp -s "$work/lua" "$work/moonlet"; then
    echo "FAILED: seed $seed" && diff "$work/lua" "$work/moonlet" | head -n 20
    failed=1
  fi
  seed=$((seed + 1))
done
[ $failed = 0 ] && echo "$5 seeds passed"
[ $failed = 0 ]
