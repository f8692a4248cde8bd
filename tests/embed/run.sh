#!/bin/sh
# tests/embed/run.sh: installs a build to a temporary prefix, builds the host program against it
# through pkg-config and runs it.  usage: run.sh BUILD_FOLDER
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

meson install -C "$build" --no-rebuild --quiet --destdir "$work/root" >"$work/install.log" 2>&1 || {
  cat "$work/install.log"
  exit 1
}
pc=$(find "$work/root" -name moonlet.pc)
library=$(find "$work/root" -name 'libmoonlet.so')
program=$(find "$work/root" -path '*/bin/moonlet')
[ -n "$pc" ] && [ -n "$library" ] && [ -n "$program" ] || {
  echo "FAILED: moonlet.pc, libmoonlet.so or bin/moonlet is not installed"
  exit 1
}
prefix=${program%/bin/moonlet}
if grep -rl 'lua\.h' "$prefix/include/moonlet"; then
  echo "FAILED: an installed header needs lua.h"
  exit 1
fi

PKG_CONFIG_PATH=$(dirname "$pc")
LD_LIBRARY_PATH=$(dirname "$library")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
# A library built with sanitizers wants a program that is.
flags='-O1 -g -Wall -Wextra'
if ldd "$library" | grep -q libasan; then flags="$flags -fsanitize=address,undefined"; fi
make -s -C "$work" -f "$here/Makefile" SOURCE_DIR="$here/" CXXFLAGS="$flags" \
  PKG_CONFIG="pkg-config --define-variable=prefix=$prefix" host
"$work/host"
[ "$("$program" -e 'print(1 + 1)')" = 2 ]
