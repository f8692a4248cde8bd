#!/bin/sh
# scripts/test.sh: from a fresh clone to a tested one: installs what is missing, builds, and runs
# every test. Closes with a line "N passed, N failed". Arguments go to `meson test`.
set -eu
cd "$(dirname "$0")/.."
build=${MOONLET_TEST_BUILD:-build-test}
sh scripts/setup.sh --tests "$build" -Dcuda=emulated
sh scripts/build.sh "$build" all meson-test-prereq
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes "${MOONLET_JOBS:-2}" "$@" >"$log" 2>&1 || status=$?
cat "$log"
# Most tests hold many checks; those that had to be skipped are counted here by reason.
skips=$(sed -n 's/^SKIP .*: //p' "$build/meson-logs/testlog.txt" 2>/dev/null | sort | uniq -c | sort -rn)
[ -z "$skips" ] || printf 'Checks skipped inside the tests, by reason:\n%s\n' "$skips"
count() { sed -n "s/^$1: *\([0-9][0-9]*\).*/\1/p" "$log" | tail -1; }
passed=$(count Ok)
failed=$(($(count Fail) + $(count Timeout) + $(count 'Unexpected Pass')))
skipped=$(count Skipped)
echo "${passed:-0} passed, ${failed:-0} failed, ${skipped:-0} skipped"
[ "$status" = 0 ] && [ "${passed:-0}" -gt 0 ]
