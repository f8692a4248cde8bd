#!/bin/sh
# scripts/build.sh: builds targets in a build folder, showing progress on a terminal and nothing
# but errors elsewhere.
# usage: sh scripts/build.sh BUILD_FOLDER [TARGET...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
jobs=${MOONLET_JOBS:-2}
if [ -t 1 ]; then
  ninja -C "$build" -j "$jobs" "$@"
  exit
fi
ninja -C "$build" -j "$jobs" -n "$@" | grep -q 'no work to do' || echo "Building in $build (a few minutes the first time)."
log=$(mktemp)
if ! ninja -C "$build" -j "$jobs" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  rm -f "$log"
  exit 1
fi
rm -f "$log"
