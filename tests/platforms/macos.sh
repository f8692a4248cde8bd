#!/bin/sh
# tests/platforms/macos.sh ROOT BUILD: what can be checked of macOS elsewhere. Some files compile by
# clang with LLVM's C++ library; and the platform layer compiles as for macOS, by macos_names.h, and
# does what it says with stand-ins for what macOS has (macos_layer.cpp). Headers that the build has
# generated are those of BUILD. Everything is built with that library by scripts/platforms.sh.
set -u
compiler=${MOONLET_MACOS_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/macos}/clang++
[ -x "$compiler" ] || compiler=clang++
echo '#include <version>' | $compiler -stdlib=libc++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null || {
  echo 'skipped: there is no clang++ with LLVM'"'"'s C++ library (Debian: clang libc++-dev libc++abi-dev)'
  exit 77
}
root=$1 build=$2
# shellcheck source=tests/platforms/compile_files.sh
. "$root/tests/platforms/compile_files.sh"
# What macOS has; macos_names.h declares what is in them.
mkdir -p "$headers/macos/mach-o" "$headers/macos/sys"
for name in crt_externs.h mach-o/dyld.h sys/sysctl.h xlocale.h; do : >"$headers/macos/$name"; done

layer="$(ls tensor/core/platform/*_posix.cpp)"
rest="tensor/core/platform/charconv.cpp tensor/core/error.cpp tensor/runtime/execution.cpp
tensor/runtime/interrupt.cpp tests/platforms/macos_stand_ins.cpp tests/platforms/macos_layer.cpp"
files="$layer $rest tensor/core/storage.cpp tensor/io/csv/numbers.cpp tensor/io/csv/write.cpp
tensor/memory/pooled.cpp tensor/runtime/stack.cpp
tensor/cpu/common/abandonable.cpp autograd/engine.cpp autograd/native/op_schema.cpp
interp/cli/cli.cpp interp/embed/deadline.cpp interp/state/chunks.cpp interp/state/interrupt.cpp
interp/workers/pool.cpp"
compile() {
  as_macos=
  case $1 in *_posix.cpp) as_macos="-isystem $headers/macos -include tests/platforms/macos_names.h" ;; esac
  # shellcheck disable=SC2086
  $compiler -stdlib=libc++ $own_flags $as_macos -fopenmp -c "$1" -o "$2"
}
# shellcheck disable=SC2086
compile_files macOS $files || exit 1

# The libraries of the compiler's own version.
libraries=$(realpath "$($compiler -print-resource-dir)/../..")
# shellcheck disable=SC2046,SC2086
$compiler -stdlib=libc++ -L"$libraries" -Wl,-rpath,"$libraries" -fopenmp -ldl \
  $(objects_of $layer $rest) -o "$headers/layer" || exit 1
"$headers/layer" | tee "$headers/said"
grep -qx '0 wrong' "$headers/said" && grep -qx 'at the exit' "$headers/said"
