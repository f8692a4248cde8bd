#!/bin/sh
# scripts/nightly.sh: what proves the CUDA backend without a GPU and takes too long for each change: the
# emulated device under sanitizers, all kernels watched for races, and orders of streams, blocks and
# threads that are drawn. Closes with a line "N passed, N failed".
# usage: sh scripts/nightly.sh [orders|races|sanitizers]...
#   orders      the op suite and the tests of CUDA in orders that are drawn, 4 times
#   races       the same once, with all kernels watched (g++)
#   sanitizers  the same with queues and without, under AddressSanitizer and UndefinedBehaviorSanitizer (clang)
# all of them unless some are named. MOONLET_DRAWN=NUMBER draws the orders that a run printed again;
# MOONLET_JOBS (2) are the jobs of builds and tests.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
drawn=${MOONLET_DRAWN:-$(date +%s)}
jobs=${MOONLET_JOBS:-2}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export MOONLET_SOURCE="$root" OMP_NUM_THREADS=1
export LSAN_OPTIONS="print_suppressions=0:suppressions=$root/tests/lsan.supp"
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
echo "nightly: drawn by $drawn: MOONLET_DRAWN=$drawn draws the same again"

# The tests in which kernels run. Those that start processes with environments of their own, or count
# calls of the runtime, choose their orders by themselves.
tests='ops/device_suite cuda/cuda cuda/cuda_attention cuda/cuda_attention_wgmma cuda/cuda_conv
  cuda/cuda_cudnn cuda/cuda_cudnn_attention
  cuda/cuda_recurrent cuda/cuda_linalg cuda/cuda_skinny cuda/cuda_fft
  cuda/cuda_layers cuda/cuda_kernels cuda/cuda_rows cuda/cuda_sorted cuda/cuda_loops cuda/cuda_packs
  cuda/cuda_graph cuda/cuda_graphed cuda/cuda_streams cuda/cuda_parallel cuda/pinned cuda/cuda_memory
  optim/capturable optim/scaler_graph optim/optim_modes nn/static_cache'

# run_one BUILD NAME SEED: a test in an order; what it says goes to a file, whose name ends in .ok or .failed.
run_one() {
  build=$1 name=$2 seed=$3
  log=$logs/$(basename "$build").$(basename "$name").$seed${streams:+.plain}
  case $name in
    ops/device_suite) file=tests/lua/$name.lua ;;
    *) file=tests/lua/${name}_test.lua ;;
  esac
  # AddressSanitizer opens libraries for others, and not where their run path says.
  if LD_LIBRARY_PATH="$root/$build/cuda/emulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    MOONLET_BUILD="$root/$build" MOONLET_OP_CASES="$root/$build/tests/op_cases.lua" \
    MOONLET_EMULATED_STREAMS=${streams-$seed} MOONLET_EMULATED_ORDER=random:$seed \
    timeout 3000 "$build/moonlet" "$file" >"$log" 2>&1; then
    mv "$log" "$log.ok"
  else
    mv "$log" "$log.failed"
    echo "FAILED: MOONLET_EMULATED_STREAMS=${streams-$seed} MOONLET_EMULATED_ORDER=random:$seed $build/moonlet $file"
    tail -n 40 "$log.failed"
  fi
}

# run_all BUILD SEED...: all tests in each of the orders, JOBS at a time.
run_all() {
  build=$1
  shift
  for seed in "$@"; do
    running=0
    for name in $tests; do
      run_one "$build" "$name" "$seed" &
      running=$((running + 1))
      if [ "$running" -ge "$jobs" ]; then
        wait
        running=0
      fi
    done
    wait
  done
}

# prepare BUILD OPTION...: builds what the tests need.
prepare() {
  build=$1
  shift
  sh scripts/setup.sh --tests "$build" -Dcuda=emulated -Dhtml_docs=disabled "$@"
  sh scripts/build.sh "$build" moonlet tests/op_cases.lua emulated-tests
}

orders() {
  prepare build-test
  run_all build-test "$drawn" $((drawn + 1)) $((drawn + 2)) $((drawn + 3))
}

races() {
  prepare build-nightly-races -Dwatch_kernels=true
  run_all build-nightly-races "$drawn"
}

sanitizers() {
  CXX=$(command -v clang++ || command -v g++)
  export CXX
  prepare build-nightly-sanitize -Dbuildtype=debugoptimized -Doptimization=1 \
    -Db_sanitize=address,undefined -Db_lundef=false
  unset CXX
  run_all build-nightly-sanitize "$drawn"
  # Once more without queues: only there blocks that are free are hidden from kernels.
  streams=0
  run_all build-nightly-sanitize "$drawn"
  unset streams
}

[ $# -gt 0 ] || set -- orders races sanitizers
for part in "$@"; do
  case $part in
    orders | races | sanitizers) ;;
    *)
      sed -n 's/^# usage: /usage: /p; s/^#   /  /p' scripts/nightly.sh >&2
      exit 2
      ;;
  esac
done
for part in "$@"; do
  echo "nightly: $part"
  "$part"
done
failed=$(find "$logs" -name '*.failed' | wc -l)
passed=$(find "$logs" -name '*.ok' | wc -l)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
