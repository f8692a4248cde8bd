#!/bin/sh
# tests/cli/gpu_bundle_test.sh: the bundle of the GPU check is made of a build folder, and its check
# runs through on the emulated device.
# usage: gpu_bundle_test.sh SOURCE_FOLDER BUILD_FOLDER
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() {
  if ! grep -q "$2" "$1"; then
    echo "FAILED: no line '$2' in"
    cat "$1"
    failed=1
  fi
}

sh "$1/scripts/gpu_bundle.sh" "$2" "$work/bundle" >"$work/made" 2>&1
expect "$work/made" "bundle: [0-9]* MiB; copy it"
(cd / && unset MOONLET_SOURCE MOONLET_BUILD MOONLET_STDLIB && "$work/bundle/gpu_check" "$work/out") \
  >"$work/table" 2>"$work/errors"
for section in versions ops paths layers large determinism memory training speed; do
  expect "$work/table" "^$section *ok "
done
expect "$work/table" "^torch *skipped"
expect "$work/table" "softmax .* % of the copy"
expect "$work/table" "emulated on the host: nothing here tells of a GPU"
expect "$work/table" "^12 sections, 0 failed"
expect "$work/out/results.json" '"emulated":true'
expect "$work/out/memory.log" "requests refused"
expect "$work/out/ops.log" "^[1-9][0-9]* passed, 0 failed"
[ "$failed" = 0 ] || cat "$work/errors" "$work"/out/*.log

sh "$1/scripts/gpu_bundle.sh" "$work/nothing" "$work/other" >"$work/made" 2>&1
expect "$work/made" "gpu_bundle: no .*build it first"
exit "$failed"
