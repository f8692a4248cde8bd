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
expect "$work/made" "bundle: [0-9]* MiB; copy it .*(glibc 2.3[56])"
# What the loader must know is in no list of functions.
if objdump -p "$2/moonlet" | grep -q GLIBC_ABI_DT_RELR; then expect "$work/made" "(glibc 2.36)"; fi
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
expect "$work/table" "cuDNN  *[1-9]"
tar -tzf "$work/out/results.tar.gz" >"$work/listed"
expect "$work/listed" "^results.json"
expect "$work/listed" "^logs.txt"
[ "$(wc -l <"$work/listed")" -le 8 ] || { echo "FAILED: more than 8 files of results" && failed=1; }
limits=$(sed -n 's/.*\(section\|tests\) [a-z]* \([0-9][0-9]*\) .*/\2/p' "$work/bundle/gpu_check" | awk '$1 > 5 { sum += $1 } END { print sum }')
[ "$limits" -le 480 ] || { echo "FAILED: the limits of the sections are $limits s" && failed=1; }
expect "$work/out/ops.log" "^[1-9][0-9]* passed, 0 failed"
[ "$failed" = 0 ] || cat "$work/errors" "$work"/out/*.log

# Without a driver the reason is said, and no section runs after it.
(cd / && MOONLET_EMULATED_DEVICES=0 "$work/bundle/gpu_check" "$work/none") >"$work/table" 2>"$work/errors" && failed=1
expect "$work/errors" "gpu_check: no CUDA device: "

# A machine whose glibc is too old is told so, as is who names no Python.
mkdir "$work/old"
printf '#!/bin/sh\necho glibc 2.31\n' >"$work/old/getconf"
chmod +x "$work/old/getconf"
PATH=$work/old:$PATH "$work/bundle/gpu_check" "$work/none" >"$work/table" 2>"$work/errors" && failed=1
expect "$work/errors" "gpu_check: this machine has glibc 2.31, the bundle needs 2.3[56]"
"$work/bundle/gpu_check" --python >"$work/table" 2>"$work/errors" && failed=1
expect "$work/errors" "gpu_check: --python needs a program"

sh "$1/scripts/gpu_bundle.sh" "$work/nothing" "$work/other" >"$work/made" 2>&1
expect "$work/made" "gpu_bundle: no .*build it first"
exit "$failed"
