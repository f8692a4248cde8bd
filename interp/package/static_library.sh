#!/bin/sh
# interp/package/static_library.sh: one archive of everything, whose Lua is as private as that of the
# shared library: all objects become one, in which Lua's symbols are local.
# usage: static_library.sh OUTPUT OBJCOPY AR COMPILER... -- ARCHIVE...
set -eu
output=$1
objcopy=$2
ar=$3
shift 3
compiler=
while [ "$1" != -- ]; do
  compiler="$compiler $1"
  shift
done
shift
object=$output.o
# shellcheck disable=SC2086
$compiler -r -nostdlib -o "$object" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
"$objcopy" --wildcard --localize-symbol='lua*' --localize-symbol='moonlet_std*' "$object"
rm -f "$output"
"$ar" crs "$output" "$object"
rm -f "$object"
