#!/bin/sh
# tests/embed/c/run.sh: hosts in C, and in languages that call C, against a library that was built.
# usage: run.sh SOURCE_FOLDER BUILD_FOLDER LIBRARY LUA PART, where PART is interface, c, luajit, python or
# rust. 77: it was not run, for the reason that is printed.
set -eu
source=$1 build=$2 library=$3 lua=$4 part=$5
here=$source/tests/embed/c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$lua" "$source/interp/package/public_headers.lua" "$source" "$build" "$work/include"
folder=$(cd "$(dirname "$library")" && pwd)
ln -s "$folder/$(basename "$library")" "$work/libmoonlet.so"
ln -s "$folder/$(basename "$library")" "$work/libmoonlet.so.0"
LD_LIBRARY_PATH=$work
export LD_LIBRARY_PATH
flags='-std=c99 -pedantic -Wall -Wextra -Werror -O1 -g -D_POSIX_C_SOURCE=200809L'
counted=-DCOUNT_ALLOCATIONS
sanitized=
if ldd "$library" | grep -q libasan; then
  flags="$flags -fsanitize=address,undefined"
  counted=
  sanitized=yes
fi

skip() {
  echo "not run: $*"
  exit 77
}
needs() { command -v "$1" >/dev/null 2>&1 || skip "$1 is not installed"; }
compile() {
  output=$1
  shift
  # shellcheck disable=SC2086
  ${CC:-cc} $flags -I"$work/include" "$@" -o "$work/$output" -L"$work" -lmoonlet -lm -pthread
}

case $part in
  interface)
    compile interface $counted "$here/interface.c" "$here/scripts.c" "$here/tensors.c" \
      "$here/ops.c" "$here/programs.c" "$here/misuse.c" "$here/threads.c" "$here/files.c" \
      "$here/hooks.c"
    OMP_NUM_THREADS=1 "$work/interface" "$work"
    # The header in C++, whose callers may be old.
    for standard in c++11 c++17 c++20; do
      echo '#include <moonlet/c.h>' >"$work/header.cpp"
      echo '#include <moonlet/dlpack.h>' >>"$work/header.cpp"
      ${CXX:-c++} -std=$standard -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$work/include" \
        "$work/header.cpp"
    done
    ;;
  c)
    compile host "$here/host.c"
    "$work/host"
    ;;
  luajit)
    [ -z "$sanitized" ] || skip 'the library has sanitizers, and luajit has none'
    needs luajit
    luajit "$here/host.luajit" "$work/include/moonlet/c.h" "$work/libmoonlet.so"
    ;;
  python)
    [ -z "$sanitized" ] || skip 'the library has sanitizers, and python3 has none'
    needs python3
    python3 "$here/host.py" "$work/libmoonlet.so"
    ;;
  rust)
    [ -z "$sanitized" ] || skip 'the library has sanitizers, and rustc has none'
    needs cargo
    cp -r "$here/rust" "$work/rust"
    cd "$work/rust"
    MOONLET_LIBRARY_FOLDER=$work cargo run --offline --quiet
    ;;
  *)
    echo "no part '$part'"
    exit 2
    ;;
esac
