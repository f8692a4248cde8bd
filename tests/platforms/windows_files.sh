#!/bin/sh
# tests/platforms/windows_files.sh SOURCE BUILD WINE: windows_test.lua by the Windows executable.
set -eu
source=$1 build=$2 wine=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Of UTF-8, which Wine takes names and variables for.
LC_ALL=C.UTF-8
export LC_ALL
env MOONLET_TEST_ÄÖ=ü€ "$wine" "$build/moonlet.exe" "Z:$source/tests/platforms/windows_test.lua" </dev/null
