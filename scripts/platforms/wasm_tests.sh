#!/bin/sh
# scripts/platforms/wasm_tests.sh: runs the Lua tests by the module of WebAssembly under node, and
# says which fail.
# usage: wasm_tests.sh BUILD_FOLDER [AREA/NAME...]
set -eu
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd)
shift

# What WebAssembly cannot do, or what the build goes without.
left_out='
interp/locale     makes a locale by localedef
interp/plugin     builds plugins with the machine'"'"'s compiler
interp/threads    runs programs by a shell
ext/ext           compiles and opens shared libraries
'

MOONLET_SOURCE=$PWD
MOONLET_BUILD=$build
MOONLET_OP_CASES=$build/op_cases.lua
MOONLET_STDLIB=$PWD/stdlib
export MOONLET_SOURCE MOONLET_BUILD MOONLET_OP_CASES MOONLET_STDLIB
families=$(sed -n "/^op_families = \[/,/\]/p" meson.build | grep -o "'[a-z]*'" | tr -d "'" | tr '\n' ',')
[ -f "$build/op_cases.lua" ] ||
  lua5.4 tensor/ops/gen/generate.lua "$build" "${families%,}" emit_cases=op_cases.lua

if [ $# -eq 0 ]; then
  set -- $(cd tests/lua && ls */*_test.lua | sed 's/_test\.lua$//' | grep -v '^cuda/\|^ops/op$')
  for family in $(echo "$families" | tr ',' ' '); do set -- "$@" "ops/op:$family"; done
fi
mkdir -p "$build/wasm_tests"
passed=0 failed=
for name in "$@"; do
  reason=$(printf '%s' "$left_out" | sed -n "s|^$name  *||p")
  if [ -n "$reason" ]; then
    echo "left out  $name: $reason"
    continue
  fi
  file=${name%%:*}
  family=$([ "$file" = "$name" ] || echo "${name##*:}")
  log=$build/wasm_tests/$(echo "$name" | tr '/:' '__').log
  # shellcheck disable=SC2086
  if timeout 600 node scripts/platforms/wasm_node.js "$build/moonlet.js" \
    "tests/lua/${file}_test.lua" $family >"$log" 2>&1 </dev/null
  then
    passed=$((passed + 1))
    echo "passed    $name: $(tail -1 "$log")"
  else
    failed="$failed $name"
    echo "FAILED    $name: $log"
  fi
done
echo "$passed passed; failed:${failed:- none}"
[ -z "$failed" ]
