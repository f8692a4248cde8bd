#!/bin/sh
# scripts/platforms/windows_tests.sh: runs the tests by the Windows executable under Wine, and says
# which fail: Lua's, those of the command line and of the console, and hosts in C and C++.
# usage: windows_tests.sh BUILD_FOLDER WINE [AREA/NAME|cli|console|files|hosts...]
set -eu
cd "$(dirname "$0")/../.."
source=$PWD
build=$(cd "$1" && pwd)
wine=$2
shift 2

# Files of tests that need what is not there; tests/platforms/windows_left_out.lua has single tests.
left_out='
ext/ext           compiles extensions
extension/native_op_forms wants a host that has loaded an extension
extension/native_ops wants a host that has loaded an extension
interp/locale     makes a locale by localedef
interp/plugin     builds plugins for the machine that builds
tensor/backend    opens a library of the machine that builds
'

# Paths as Wine has them: the root is drive Z.
MOONLET_SOURCE="Z:$source"
MOONLET_BUILD="Z:$build"
MOONLET_OP_CASES="Z:$build/op_cases.lua"
MOONLET_TEST_LEFT_OUT="Z:$source/tests/platforms/windows_left_out.lua"
WINEDEBUG=-all
WINEPREFIX=${WINEPREFIX:-$build/wine}
# For tests/platforms/wine_shell.c.
MOONLET_TEST_DISK=$WINEPREFIX/dosdevices/c:
MOONLET_TEST_START=$build/start
export MOONLET_SOURCE MOONLET_BUILD MOONLET_OP_CASES WINEDEBUG WINEPREFIX \
  MOONLET_TEST_LEFT_OUT MOONLET_TEST_DISK MOONLET_TEST_START

# Commands of tests run by the sh of this system, as those of MSYS run by its own.
x86_64-w64-mingw32-gcc-posix -std=gnu99 -Wall -Wextra -Werror -O1 -static \
  tests/platforms/wine_shell.c -o "$build/wine_shell.exe"
"$wine" reg add 'HKLM\System\CurrentControlSet\Control\Session Manager\Environment' \
  /v ComSpec /t REG_SZ /d "Z:$(echo "$build" | tr / '\\')\\wine_shell.exe" /f >/dev/null 2>&1
printf '#!/bin/sh\nexec %s %s/moonlet.exe "$@"\n' "$wine" "$build" >"$build/start"
chmod +x "$build/start"

# shellcheck source=scripts/platforms/lua_tests.sh
. scripts/platforms/lua_tests.sh

# Runs one of the names.
run_test() {
  file=${1%%:*}
  case $1 in
    cli | console | files | hosts)
      sh "tests/platforms/windows_$1.sh" "$source" "$build" "$wine"
      ;;
    *:*) timeout 600 "$wine" "$build/moonlet.exe" "tests/lua/${file}_test.lua" "${1##*:}" ;;
    *) timeout 600 "$wine" "$build/moonlet.exe" "tests/lua/${file}_test.lua" ;;
  esac
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(all_tests) cli console files hosts
run_tests "$build/windows_tests" "$@"
