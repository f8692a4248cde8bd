#!/bin/sh
# scripts/bench_vs_torch.sh: Moonlet's benchmark and the same one in PyTorch, in turn, with the ratio
# per line (above 1: Moonlet is faster, whatever the unit) and the geometric mean. Where there is
# tests/step_floor beside the executable (ninja -C build tests/step_floor), `floor.*` follows: the
# least that a step's products take, and which part of the step that is.
# usage: sh scripts/bench_vs_torch.sh [THREADS [REPEATS]]
# PYTHON names a python3 that has torch; MOONLET names the executable (build/moonlet).
set -eu
cd "$(dirname "$0")/.."
threads=${1:-1}
repeats=${2:-1}
python=${PYTHON:-python3}
moonlet=${MOONLET:-build/moonlet}

[ -x "$moonlet" ] || { echo "There is no $moonlet; build it with sh scripts/quickstart.sh" >&2; exit 1; }
"$python" -c 'import torch' 2>/dev/null || {
  echo "$python has no torch; set PYTHON to a python3 that has it" >&2
  exit 1
}

# These would hold OpenBLAS below what the processor can do.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export OMP_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "Running PyTorch with $threads thread(s) ..." >&2
"$python" tests/bench/peer_torch.py "$threads" "$repeats" >"$work/torch"
echo "Running Moonlet with $threads thread(s) ..." >&2
"$moonlet" tests/bench/bench.lua "$threads" "$repeats" >"$work/moonlet"
floor=$(dirname "$moonlet")/tests/step_floor
[ ! -x "$floor" ] || "$floor" >"$work/floor"

head -1 "$work/torch"
head -1 "$work/moonlet"
awk '
  FNR == 1 { next }
  NR == FNR { torch[$1] = $2; next }
  $2 == "failed:" { print; next }
  !($1 in torch) { next }
  {
    faster = $3 ~ /\/s$/ ? $2 / torch[$1] : torch[$1] / $2
    printf "%-36s %10s %10s %-8s %6.2f\n", $1, $2, torch[$1], $3, faster
    if ($1 != "op.empty_loop" && faster > 0) { sum += log(faster); ++count }
  }
  BEGIN { printf "%-36s %10s %10s %-8s %6s\n", "measure", "moonlet", "torch", "unit", "ratio" }
  END { if (count) printf "geometric mean of %d ratios: %.2f\n", count, exp(sum / count) }
' "$work/torch" "$work/moonlet"
[ ! -f "$work/floor" ] || awk '
  NR == FNR { if (sub(/^train/, "floor", $1)) step[$1] = $2; next }
  $1 in step { printf "%-36s %10s %10s %-8s %6.2f\n", $1, $2, step[$1], $3, $2 / step[$1] }
  BEGIN { printf "%-36s %10s %10s %-8s %6s\n", "measure", "products", "step", "unit", "part" }
' "$work/moonlet" "$work/floor"
