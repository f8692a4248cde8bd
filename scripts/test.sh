#!/bin/sh
# scripts/test.sh: from a fresh clone to a tested one: installs what is missing, builds, and runs
# every test; then builds with clang, whose warnings are errors, and sanitizers, and runs the
# fuzzers and the Lua tests there, with kernels of the emulated device. Closes with a line
# "N passed, N failed".
# usage: sh scripts/test.sh [ARGUMENT...]; arguments go to `meson test` of the first build, and the
# other is left out.
set -eu
cd "$(dirname "$0")/.."
build=${MOONLET_TEST_BUILD:-build-test}
log=$(mktemp)
failures=$(mktemp)  # names of what failed; said last, where a log that is cut off still has them
trap 'rm -f "$log" "$failures"' EXIT
passed=0
failed=0
skipped=0

# run_tests BUILD_FOLDER [ARGUMENT...]: runs tests of a folder and adds to the counts.
run_tests() {
  folder=$1
  shift
  status=0
  meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "${MOONLET_JOBS:-2}" "$@" \
    >"$log" 2>&1 || status=$?
  cat "$log"
  # Most tests hold many checks; those that had to be skipped are counted here by reason.
  skips=$(sed -n 's/^SKIP .*: //p' "$folder"/meson-logs/testlog*.txt 2>/dev/null |
    sort | uniq -c | sort -rn)
  [ -z "$skips" ] || printf 'Checks skipped inside the tests, by reason:\n%s\n' "$skips"
  bad=$(($(count Fail) + $(count Timeout) + $(count 'Unexpected Pass')))
  # No test at all, or an end without counts, is a failure too.
  if [ "$bad" = 0 ] && { [ "$status" != 0 ] || [ "$(count Ok)" = 0 ]; }; then bad=1; fi
  sed -n '/^Summary of Failures:/,/^Ok:/s|^ *[0-9]*/[0-9]* |FAILED: |p' "$log" >>"$failures"
  passed=$((passed + $(count Ok)))
  failed=$((failed + bad))
  skipped=$((skipped + $(count Skipped)))
}
count() {
  number=$(sed -n "s/^$1: *\([0-9][0-9]*\).*/\1/p" "$log" | tail -1)
  echo "${number:-0}"
}

# build_only TITLE BUILD_FOLDER [TARGET...]: builds, as one test more; fails when that fails.
build_only() {
  title=$1
  shift
  if sh scripts/build.sh "$@"; then
    passed=$((passed + 1))
    echo "ok: $title"
  else
    failed=$((failed + 1))
    echo "FAILED: $title" | tee -a "$failures"
    return 1
  fi
}

sh scripts/setup.sh --tests "$build" -Dcuda=emulated
sh scripts/build.sh "$build" all meson-test-prereq
run_tests "$build" "$@"

if [ $# = 0 ]; then
  # clang and sanitizers in one build: what each compiles twice is most of the time.
  compiler=$(command -v clang++ || command -v g++)
  CXX=$compiler sh scripts/setup.sh --tests "$build-sanitize" -Dcuda=emulated \
    -Dhtml_docs=disabled -Dbuildtype=debugoptimized -Doptimization=1 -Dwerror=true \
    -Db_sanitize=address,undefined -Db_lundef=false
  if build_only "builds with $(basename "$compiler") and sanitizers without warnings" \
    "$build-sanitize" lua-tests emulated-tests libraries; then
    run_tests "$build-sanitize" --timeout-multiplier 3 --suite fuzz --suite lua --suite drawn
  fi
fi
cat "$failures"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
