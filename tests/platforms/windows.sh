#!/bin/sh
# tests/platforms/windows.sh ROOT BUILD: some files compile for Windows, without its libraries: what
# the platform layer has for it, those that use the layer most, a kernel and the tape; and the layer
# does what it says, where Wine runs it (windows_layer.cpp). Headers that the build has generated are
# those of BUILD. Everything is built and tested by scripts/platforms.sh.
set -u
compiler=x86_64-w64-mingw32-g++-posix
wine=/usr/lib/wine/wine64
command -v $compiler >/dev/null || {
  echo "skipped: $compiler is not installed (Debian: g++-mingw-w64-x86-64-posix)"
  exit 77
}
root=$1 build=$2
# Headers that are the same for every system; no others of this one may be found.
headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
for name in hwy nlohmann zlib.h; do ln -s "/usr/include/$name" "$headers/$name"; done
cat /usr/include/zconf.h /usr/include/*/zconf.h 2>/dev/null >"$headers/zconf.h"
for name in lua lauxlib lualib luaconf; do ln -s "/usr/include/lua5.4/$name.h" "$headers/$name.h"; done
ln -s /usr/include/lua5.4/lua.hpp "$headers/lua.hpp"

cd "$root" || exit 1
layer="$(ls tensor/core/platform/*_windows.cpp) tensor/core/platform/windows_names.cpp
tensor/core/error.cpp tensor/runtime/execution.cpp tensor/runtime/interrupt.cpp
tests/platforms/windows_layer.cpp"
files="$layer tensor/core/storage.cpp tensor/io/read_file.cpp tensor/memory/pooled.cpp
tensor/runtime/plugin.cpp tensor/runtime/stack.cpp tensor/cpu/common/abandonable.cpp
tensor/cpu/reduce/softmax.cpp autograd/engine.cpp interp/cli/cli.cpp interp/cli/editor_plain.cpp
interp/cli/repl.cpp interp/embed/deadline.cpp interp/modules/system.cpp interp/state/chunks.cpp
interp/state/interrupt.cpp interp/state/lua_check.cpp interp/state/output.cpp
interp/state/run_limits.cpp interp/workers/pool.cpp"
# Files of two rooms may have one name.
object_of() { echo "$headers/$(echo "${1%.cpp}" | tr / _).o"; }
failed=0
for file in $files; do
  $compiler -std=c++20 -O0 -Wall -Wextra -Werror -Wno-cast-function-type -fopenmp \
    -include tensor/core/platform/windows_names.h -D_USE_MATH_DEFINES -D_WIN32_WINNT=0x0A00 \
    -DNOMINMAX -DWIN32_LEAN_AND_MEAN -DHWY_COMPILE_ONLY_STATIC -isystem "$headers" -I. -I"$build" \
    -I"$build/tensor" -I"$build/autograd" -I"$build/interp" -c "$file" -o "$(object_of "$file")" || {
    echo "$file: it does not compile for Windows"
    failed=$((failed + 1))
  }
done
# shellcheck disable=SC2086
set -- $files
echo "$# files compiled for Windows, $failed of them in vain"
[ $failed = 0 ] || exit 1

if [ ! -x $wine ]; then
  echo 'left out: the run of the layer, as Wine is not installed (Debian: wine64)'
  exit 0
fi
objects=$(for file in $layer; do object_of "$file"; done)
# shellcheck disable=SC2086
$compiler -static -fopenmp $objects -o "$headers/layer.exe" || exit 1
folder=$headers/é
WINEDEBUG=-all WINEPREFIX=$headers/wine LC_ALL=C.UTF-8 timeout 300 $wine "$headers/layer.exe" "Z:$folder"
