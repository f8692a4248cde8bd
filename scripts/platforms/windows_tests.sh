#!/bin/sh
# scripts/platforms/windows_tests.sh: runs the Lua tests by the Windows executable under Wine, and
# says which fail.
# usage: windows_tests.sh BUILD_FOLDER WINE [AREA/NAME...]
set -eu
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd)
wine=$2
shift 2

# What needs programs of a POSIX shell, or what the build goes without.
left_out='
interp/locale     makes a locale by localedef
interp/plugin     builds plugins with the machine'"'"'s compiler
interp/threads    runs programs by a shell
'

# Paths as Wine has them: the root is drive Z.
MOONLET_SOURCE="Z:$PWD"
MOONLET_BUILD="Z:$build"
MOONLET_OP_CASES="Z:$build/op_cases.lua"
MOONLET_STDLIB="Z:$PWD/stdlib"
WINEDEBUG=-all
WINEPREFIX=${WINEPREFIX:-$build/wine}
export MOONLET_SOURCE MOONLET_BUILD MOONLET_OP_CASES MOONLET_STDLIB WINEDEBUG WINEPREFIX
families=$(sed -n "/^op_families = \[/,/\]/p" meson.build | grep -o "'[a-z]*'" | tr -d "'" | tr '\n' ',')
[ -f "$build/op_cases.lua" ] ||
  lua5.4 tensor/ops/gen/generate.lua "$build" "${families%,}" emit_cases=op_cases.lua

if [ $# -eq 0 ]; then
  set -- $(cd tests/lua && ls */*_test.lua | sed 's/_test\.lua$//' | grep -v '^cuda/\|^ops/op$')
  for family in $(echo "$families" | tr ',' ' '); do set -- "$@" "ops/op:$family"; done
fi
mkdir -p "$build/windows_tests"
passed=0 failed=
for name in "$@"; do
  reason=$(printf '%s' "$left_out" | sed -n "s|^$name  *||p")
  if [ -n "$reason" ]; then
    echo "left out  $name: $reason"
    continue
  fi
  file=${name%%:*}
  family=$([ "$file" = "$name" ] || echo "${name##*:}")
  log=$build/windows_tests/$(echo "$name" | tr '/:' '__').log
  # shellcheck disable=SC2086
  if timeout 600 "$wine" "$build/moonlet.exe" "tests/lua/${file}_test.lua" $family >"$log" 2>&1 </dev/null
  then
    passed=$((passed + 1))
    echo "passed    $name: $(tail -1 "$log" | tr -d '\r')"
  else
    failed="$failed $name"
    echo "FAILED    $name: $log"
  fi
done
echo "$passed passed; failed:${failed:- none}"
[ -z "$failed" ]
