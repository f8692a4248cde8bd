#!/bin/sh
# scripts/platforms/wasm_tests.sh: runs the Lua tests by the module of WebAssembly under node, and
# says which fail.
# usage: wasm_tests.sh BUILD_FOLDER [AREA/NAME...]
set -eu
cd "$(dirname "$0")/../.."
source=$PWD
build=$(cd "$1" && pwd)
shift

# Files of tests that need what is not there; tests/platforms/wasm_left_out.lua has single tests.
left_out='
interp/locale     makes a locale by localedef
interp/plugin     builds plugins with a compiler
interp/threads    runs programs by a shell
ext/ext           compiles and opens shared libraries
extension/native_op_forms  runs in a host that opens an extension
extension/native_ops       runs in a host that opens an extension
tensor/backend    opens a module of Lua in C
'

MOONLET_SOURCE=$source
MOONLET_BUILD=$build
MOONLET_OP_CASES=$build/op_cases.lua
MOONLET_TEST_LEFT_OUT=$source/tests/platforms/wasm_left_out.lua
export MOONLET_SOURCE MOONLET_BUILD MOONLET_OP_CASES MOONLET_TEST_LEFT_OUT
# shellcheck source=scripts/platforms/lua_tests.sh
. scripts/platforms/lua_tests.sh

# A name is AREA/FILE or AREA/FILE:PART, where PART is of the names of single tests.
run_test() {
  case $1 in *:*) set -- "${1%%:*}" "${1##*:}" ;; esac
  file=tests/lua/${1}_test.lua
  shift
  timeout 600 node scripts/platforms/wasm_node.js "$build/moonlet.js" "$file" "$@"
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(all_tests)
run_tests "$build/wasm_tests" "$@"
