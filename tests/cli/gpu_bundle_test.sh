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
for section in versions ops paths layers libraries large determinism memory streams training speed models cublas; do
  expect "$work/table" "^$section *ok "
done
expect "$work/table" "^torch *skipped"
expect "$work/table" "softmax .* % of the copy"
expect "$work/table" "emulated on the host: nothing here tells of a GPU"
expect "$work/table" "^15 sections, 0 failed"
expect "$work/table" "product .* TFLOP/s (cuBLAS .* times as fast)"
expect "$work/table" "mlp_.*, captured step"
expect "$work/table" "^ *float64  *[0-9]* elements"
expect "$work/out/results.json" '"emulated":true'
expect "$work/out/memory.log" "requests refused"
expect "$work/table" "cuDNN  *[1-9]"
tar -tzf "$work/out/results.tar.gz" >"$work/listed"
expect "$work/listed" "^results.json"
expect "$work/listed" "^logs.txt"
expect "$work/listed" "^figures.md"
[ "$(wc -l <"$work/listed")" -le 8 ] || { echo "FAILED: more than 8 files of results" && failed=1; }
limits=$(sed -n 's/.*\(section\|tests\) [a-z]* \([0-9][0-9]*\) .*/\2/p' "$work/bundle/gpu_check" | awk '$1 > 5 { sum += $1 } END { print sum }')
[ "$limits" -le 480 ] || { echo "FAILED: the limits of the sections are $limits s" && failed=1; }
expect "$work/out/ops.log" "^[1-9][0-9]* passed, 0 failed"
[ "$failed" = 0 ] || cat "$work/errors" "$work"/out/*.log

# Figures beside PyTorch's, as from a GPU, go into a document under the device's name, and in the
# position of older ones; those of the emulation do not.
moonlet=$2/moonlet
check=$1/scripts/gpu_check
mkdir "$work/gpu"
printf 'versions 0 1\nspeed 0 1\ncublas 0 1\ntorch 0 1\n' >"$work/gpu/sections.txt"
printf 'result\tcuda:0\tFast Device\t\nresult\temulated\tfalse\t\n' >"$work/gpu/versions.log"
printf 'result\tcopy\t100\tGB/s\nresult\tadd\t90\t%% of the copy\nresult\tsmall\t4\tus\nresult\tproduct\t30\tTFLOP/s\n' \
  >"$work/gpu/speed.log"
printf 'result\tproduct\t40\tTFLOP/s\n' >"$work/gpu/cublas.log"
printf 'result\tsmall\t6\tus\nresult\tproduct\t15\tTFLOP/s\n' >"$work/gpu/torch.log"
"$moonlet" "$check/report.lua" "$work/gpu" >"$work/table" 2>&1 || failed=1
expect "$work/table" "small  *4 us (PyTorch 6, 1.50 times as fast)"
expect "$work/table" "product .*cuBLAS 40, 0.75 times as fast; PyTorch 15, 2.00 times as fast"
printf '# Speed\n\n## CUDA\n\nSome words.\n\n## More\n' >"$work/document"
for _ in 1 2; do
  "$moonlet" "$check/figures.lua" "$work/gpu/results.json" "$work/document" >"$work/made" 2>&1
  expect "$work/made" "the figures of Fast Device"
done
expect "$work/document" "| product | 30 TFLOP/s | 2.00 times as fast as PyTorch, 0.75 times as fast as cuBLAS |"
expect "$work/document" "| add | 90 % of the copy |"
[ "$(grep -c '^### Fast Device' "$work/document")" = 1 ] || { echo "FAILED: figures twice" && failed=1; }
[ "$(tail -n 1 "$work/document")" = "## More" ] || { cat "$work/document" && failed=1; }
"$moonlet" "$check/figures.lua" "$work/out/results.json" "$work/document" >"$work/made" 2>&1 && failed=1
expect "$work/made" "is of no GPU"

# Of compute-sanitizer: an error fails, the end of the time alone does not.
mkdir -p "$work/fake" "$work/bundled/tests/lua/cuda" "$work/bundled/check"
cat >"$work/fake/compute-sanitizer" <<'FAKE'
#!/bin/sh
case "$*" in
  *racecheck*) exec sleep 60 ;;
  *cuda_rows*) echo '========= Invalid __global__ read of size 4 bytes' && exit 9 ;;
esac
FAKE
chmod +x "$work/fake/compute-sanitizer"
sed 's/^\(sanitize [a-z]*\) [0-9]*/\1 1/' "$check/sanitize.sh" >"$work/sanitize.sh"
PATH=$work/fake:$PATH sh "$work/sanitize.sh" "$moonlet" "$work/bundled" >"$work/made" 2>&1 && failed=1
expect "$work/made" "memcheck, cuda_kernels_test.*clean"
expect "$work/made" "racecheck, cuda_kernels_test.*clean until 1 s were over"
expect "$work/made" "memcheck, cuda_rows_test.*FAILED (9)"

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
