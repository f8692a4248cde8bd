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
# shellcheck source=tests/platforms/compile_files.sh
. "$root/tests/platforms/compile_files.sh"

layer="$(ls tensor/core/platform/*_windows.cpp) tensor/core/platform/windows_names.cpp
tensor/core/error.cpp tensor/runtime/execution.cpp tensor/runtime/interrupt.cpp
tests/platforms/windows_layer.cpp"
files="$layer tensor/core/storage.cpp tensor/io/read_file.cpp tensor/memory/pooled.cpp
tensor/runtime/plugin.cpp tensor/runtime/stack.cpp tensor/cpu/common/abandonable.cpp
tensor/cpu/reduce/softmax.cpp autograd/engine.cpp interp/cli/cli.cpp interp/cli/editor_plain.cpp
interp/cli/repl.cpp interp/embed/deadline.cpp interp/modules/system.cpp interp/state/chunks.cpp
interp/state/interrupt.cpp interp/state/lua_check.cpp interp/state/output.cpp
interp/state/run_limits.cpp interp/workers/pool.cpp"
compile() {
  # shellcheck disable=SC2086
  $compiler $own_flags -Wno-cast-function-type -fopenmp \
    -include tensor/core/platform/windows_names.h -D_USE_MATH_DEFINES -D_WIN32_WINNT=0x0A00 \
    -DNOMINMAX -DWIN32_LEAN_AND_MEAN -DHWY_COMPILE_ONLY_STATIC -c "$1" -o "$2"
}
# shellcheck disable=SC2086
compile_files Windows $files || exit 1

if [ ! -x $wine ]; then
  echo 'left out: the run of the layer, as Wine is not installed (Debian: wine64)'
  exit 0
fi
# shellcheck disable=SC2046,SC2086
$compiler -static -fopenmp $(objects_of $layer) -o "$headers/layer.exe" || exit 1
folder=$headers/é
WINEDEBUG=-all WINEPREFIX=$headers/wine LC_ALL=C.UTF-8 timeout 300 $wine "$headers/layer.exe" "Z:$folder"
