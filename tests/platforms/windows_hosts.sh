#!/bin/sh
# tests/platforms/windows_hosts.sh SOURCE BUILD WINE: hosts on Windows: in C with libmoonlet.dll, the
# tests of the whole interface among them, and in C++ with the static library.
set -eu
source=$1 build=$2 wine=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lua5.4 "$source/interp/package/public_headers.lua" "$source" "$build" "$work/include"
libraries=$build/interp/package/windows
cp "$libraries/libmoonlet.dll" "$work"

flags="-pedantic -Wall -Wextra -Werror -O1 -I$work/include -L$libraries"
c=$source/tests/embed/c
# shellcheck disable=SC2086
compile() {
  output=$1
  shift
  x86_64-w64-mingw32-gcc-posix -std=c99 -D_POSIX_C_SOURCE=200809L $flags "$@" \
    -o "$work/$output" "$libraries/libmoonlet.dll.a" -lm -static -pthread
}
compile host.exe "$c/host.c"
compile interface.exe "$c/interface.c" "$c/scripts.c" "$c/tensors.c" "$c/ops.c" "$c/programs.c" \
  "$c/misuse.c" "$c/threads.c" "$c/files.c" "$c/hooks.c"

echo 'What libmoonlet.dll exports is of moonlet/c.h:'
exported=$(x86_64-w64-mingw32-objdump -p "$work/libmoonlet.dll" |
  sed -n '/^\[Ordinal\/Name Pointer\] Table/,$p' | sed -n 's/^\t\[ *[0-9]*\] //p')
[ "$(echo "$exported" | wc -l)" -gt 100 ]
if echo "$exported" | grep -v '^moonlet_'; then exit 1; fi

cd "$work"
"$wine" host.exe
OMP_NUM_THREADS=1 "$wine" interface.exe "Z:$work"
echo 'hosts in C passed'

# shellcheck disable=SC2086
x86_64-w64-mingw32-g++-posix -std=c++20 $flags "$source/tests/embed/host.cpp" -o host_cpp.exe \
  -lmoonlet-static -lz -fopenmp -static
"$wine" host_cpp.exe
echo 'hosts in C and C++ passed'
