#!/bin/sh
# scripts/gpu_check/sanitize.sh: tests of kernels under compute-sanitizer, each for some seconds. One that
# is out of time is no failure, unless an error was found until then.
# usage: sh sanitize.sh MOONLET FOLDER, that of the bundle
set -u
moonlet=$1
work=$2
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# sanitize TOOL SECONDS SCRIPT
sanitize() {
  timeout -k 2 "$2" compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 \
    "$moonlet" "$work/$3" >"$log" 2>&1
  status=$?
  cat "$log"
  name="$1, $(basename "$3" .lua)"
  if grep -q '^========= \(Invalid\|Error:\|Warning: Race\|Uninitialized\|Barrier error\|Program hit\)' "$log"; then
    status=9
  fi
  case $status in
    0) printf 'result\t%s\tclean\t\n' "$name" ;;
    124 | 137) printf 'result\t%s\tclean until %s s were over\t\n' "$name" "$2" ;;
    *)
      printf 'result\t%s\tFAILED (%s)\t\n' "$name" "$status"
      failed=1
      ;;
  esac
}

sanitize memcheck 20 tests/lua/cuda/cuda_kernels_test.lua
sanitize racecheck 14 tests/lua/cuda/cuda_kernels_test.lua
sanitize memcheck 9 tests/lua/cuda/cuda_rows_test.lua
sanitize synccheck 9 tests/lua/cuda/cuda_sorted_test.lua
sanitize memcheck 9 check/training.lua
exit "$failed"
