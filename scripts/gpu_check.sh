#!/bin/sh
# scripts/gpu_check.sh: what only a machine with a GPU can show: runs the device tests of a build
# made with nvcc, then a short benchmark, and prints a summary.
# usage: sh scripts/gpu_check.sh [build folder]
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
moonlet=$build/moonlet
if [ ! -x "$moonlet" ]; then
  echo "gpu_check: no executable in $build; build first (meson setup $build -Dcuda=enabled)" >&2
  exit 1
fi

echo "device"
"$moonlet" -e '
local cuda = require("moonlet").cuda
if not cuda.is_available() then
  print("  none: " .. cuda.unavailable_reason())
  os.exit(2)
end
for i = 0, cuda.device_count() - 1 do print("  cuda:" .. i, cuda.device_name(i)) end
if cuda.is_emulated() then print("  (emulated on the host: this shows nothing about a GPU)") end' || {
  echo "gpu_check: no CUDA device to check" >&2
  exit 1
}

failed=""
passed=0
run() {
  title=$1
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "  ok      $title"
  else
    failed="$failed $title"
    echo "  FAILED  $title"
    tail -n 15 "$log" | sed 's/^/          /'
  fi
  rm -f "$log"
}

echo "tests"
if [ -x "$build/tests/cpp_tests" ]; then run memory "$build/tests/cpp_tests" "[cuda]"; fi
MOONLET_OP_CASES=$(cd "$build" && pwd)/tests/op_cases.lua
MOONLET_SOURCE=$(pwd)
MOONLET_BUILD=$(cd "$build" && pwd)
export MOONLET_OP_CASES MOONLET_SOURCE MOONLET_BUILD
if [ -f "$MOONLET_OP_CASES" ]; then
  for rows in tensor/ops/*.lua; do
    family=$(basename "$rows" .lua)
    # The optimisers' steps have no samples; training runs them.
    [ "$family" = optim ] && continue
    run "ops-$family" "$moonlet" tests/lua/op_test.lua "$family" ": cuda"
  done
fi
run paths "$moonlet" tests/lua/cuda_test.lua
run train-digits "$moonlet" scripts/train_digits.lua --device cuda --epochs 1 --out "${TMPDIR:-/tmp}/gpu-check"

echo "speed"
"$moonlet" -e '
local ml = require "moonlet"
local clock = require "moonlet.system".clock
local emulated = ml.cuda.is_emulated()
local function measure(name, work, unit, f)
  f()
  ml.cuda.synchronize()
  local best = math.huge
  for _ = 1, 5 do
    local start = clock()
    for _ = 1, 10 do f() end
    ml.cuda.synchronize()
    best = math.min(best, (clock() - start) / 10)
  end
  print(("  %-22s %10.1f us %10.1f %s"):format(name, best * 1e6, work / best / 1e9, unit))
end
local n = emulated and 1 << 16 or 1 << 24
local x, y = ml.randn { n, device = "cuda" }, ml.randn { n, device = "cuda" }
measure(("add, %d floats"):format(n), 12 * n, "GB/s", function() return x + y end)
measure(("exp, %d floats"):format(n), 8 * n, "GB/s", function() return x:exp() end)
measure(("sum, %d floats"):format(n), 4 * n, "GB/s", function() return x:sum() end)
local side = emulated and 128 or 4096
local m = ml.randn { side, side, device = "cuda" }
measure(("softmax, %d^2"):format(side), 8 * side ^ 2, "GB/s", function() return m:softmax(2) end)
measure(("transpose, %d^2"):format(side), 8 * side ^ 2, "GB/s", function() return m:t():contiguous() end)
measure(("matmul, %d^3"):format(side), 2 * side ^ 3, "GFLOP/s", function() return m:matmul(m) end)
local small = ml.randn { 10, device = "cuda" }
measure("add, 10 floats", 1, "G/s", function() return small + small end)'

echo "summary: $passed passed;${failed:- none} failed"
[ -z "$failed" ]
