#!/bin/sh
# tests/abi/c_abi.sh: the ABI of moonlet/c.h beside the recorded one, c-VERSION.abi: its functions, the
# layout of its structs, and in c-VERSION.constants the numbers of its enums. An interface that has only grown is recorded
# again by --record, which refuses any other change: for that MOONLET_ABI_VERSION goes up.
# usage: c_abi.sh LUA [--record]; 77: it was not run, for the reason that is printed.
set -eu
lua=$1
here=$(cd "$(dirname "$0")" && pwd)
header=$(cd "$here/../.." && pwd)/interp/c/c.h
for tool in abidw abidiff; do
  command -v $tool >/dev/null 2>&1 || {
    echo "not run: $tool is not installed (Debian: abigail-tools)"
    exit 77
  }
done
case $(uname -m) in
  x86_64) ;;
  *)
    echo "not run: the ABI was recorded on x86_64, this is $(uname -m)"
    exit 77
    ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^#define MOONLET_ABI_VERSION \([0-9]*\)$/\1/p' "$header")
recorded=$here/c-$version.abi
"$lua" "$here/stubs.lua" "$header" "$work/stubs.c" "$work/stubs.constants"
${CC:-cc} -std=c99 -g -gdwarf-4 -fPIC -shared -Wl,-soname,libmoonlet-c.so -o "$work/stubs.so" "$work/stubs.c"
sed -n 's/.*\(MOONLET_[A-Z0-9_]* = [0-9]*\).*/\1/p' "$work/stubs.constants" | sort >"$work/constants"
if [ ! -e "$recorded" ] && [ "${2:-}" != --record ]; then
  echo "there is no $recorded: sh tests/abi/c_abi.sh lua5.4 --record"
  exit 1
fi
if [ -e "$recorded" ]; then
  changes=0
  abidiff --suppressions "$here/growth.ini" --no-added-syms "$recorded" "$work/stubs.so" >"$work/changes" || changes=$?
  # Functions that were only added leave a summary without others.
  if [ $((changes & 3)) -eq 0 ] && grep -q '^Functions changes summary: 0 Removed, 0 Changed' "$work/changes"; then
    : >"$work/changes"
  fi
  comm -23 "$here/c-$version.constants" "$work/constants" >>"$work/changes"
  if [ $((changes & 3)) -ne 0 ] || [ -s "$work/changes" ]; then
    cat "$work/changes"
    echo 'FAILED: what hosts were compiled with has changed: change it back, or raise MOONLET_ABI_VERSION'
    exit 1
  fi
fi
if [ "${2:-}" = --record ]; then
  abidw --no-comp-dir-path --no-show-locs --no-corpus-path --out-file "$recorded" "$work/stubs.so"
  cp "$work/constants" "$here/c-$version.constants"
elif ! abidiff "$recorded" "$work/stubs.so" || ! diff "$here/c-$version.constants" "$work/constants"; then
  echo 'FAILED: the interface has grown: record it with sh tests/abi/c_abi.sh lua5.4 --record'
  exit 1
fi
