#!/bin/sh
# tests/platforms/aarch64.sh ROOT BUILD: some files compile for 64-bit ARM, without its libraries: the
# vectors' math, a kernel of each kind that has code of its own there, and the machine code of loops.
# Headers that the build has generated are those of BUILD. Everything, with its tests, is built by
# scripts/platforms.sh.
set -u
compiler=aarch64-linux-gnu-g++
command -v $compiler >/dev/null || {
  echo "skipped: $compiler is not installed (Debian: g++-aarch64-linux-gnu)"
  exit 77
}
root=$1 build=$2
files='tensor/cpu/fft/fft_simd.cpp tensor/cpu/optim/optim_simd.cpp tensor/cpu/random/random_simd.cpp
tensor/cpu/reduce/softmax.cpp tensor/cpu/simd/simd_targets.cpp tensor/program/jit/op_table.cpp'
if [ -f /usr/include/asmjit/arm/a64compiler.h ]; then
  files="$files tensor/program/jit/neon_emitter.cpp tensor/program/jit/neon_memory.cpp
    tensor/program/jit/neon_nodes.cpp tensor/program/jit/op_table_neon.cpp"
else
  echo 'left out: the machine code of loops, as AsmJit is not installed (Debian: libasmjit-dev)'
fi
failed=0
for file in $files; do
  # Headers that are the same on all processors are the machine's own, behind the compiler's.
  $compiler -std=c++20 -O0 -Wall -Wextra -Werror -Wno-psabi -fopenmp -ffp-contract=off \
    -I"$root" -I"$build" -I"$build/tensor" -idirafter /usr/include \
    -c "$root/$file" -o /dev/null || {
    echo "$file: it does not compile for aarch64"
    failed=$((failed + 1))
  }
done
# shellcheck disable=SC2086
set -- $files
echo "$# files compiled for aarch64, $failed of them in vain"
[ $failed = 0 ]
