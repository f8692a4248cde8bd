#!/bin/sh
# tests/lint/luacheck.sh ROOT: luacheck finds nothing in the project's Lua.
set -u
cd "$1" || exit 1
command -v luacheck >/dev/null || { echo "skipped: luacheck is not installed"; exit 77; }
exec luacheck --no-color -q tensor autograd cuda interp stdlib scripts tests
