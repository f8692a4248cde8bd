#!/bin/sh
# scripts/gpu_bundle.sh: makes a folder that checks a GPU on a machine without a compiler: a driver,
# CUDA's libraries and glibc are all that it needs. Run gpu_check in it there. It says which glibc:
# 2.36, or 2.35 of a build with -Dpacked_relocations=false.
# usage: sh scripts/gpu_bundle.sh [BUILD_FOLDER [TARGET_FOLDER]]; build, gpu-bundle unless given
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
target=${2:-gpu-bundle}
most=$((60 * 1024 * 1024))
plugin=$build/cuda/moonlet-cuda.so
for file in "$build/moonlet" "$plugin" "$build/tests/op_cases.lua" "$build/tests/cublas_direct"; do
  [ -f "$file" ] && continue
  echo "gpu_bundle: no $file: build it first (meson setup $build -Dcuda=enabled; ninja -C $build)" >&2
  exit 1
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/carried" "$work/check" "$work/tests/lua/cuda" "$work/tests/lua/ops"
strip -o "$work/bin/moonlet" "$build/moonlet"
strip -o "$work/bin/moonlet-cuda.so" "$plugin"
strip -o "$work/bin/cublas_direct" "$build/tests/cublas_direct"
for emulated in "$build"/cuda/emulated/libmoonlet-*-emulated.so; do
  [ ! -f "$emulated" ] || strip -o "$work/bin/$(basename "$emulated")" "$emulated"
done

# The libraries that a bare machine may lack. glibc and the compiler's runtime are everywhere, newer
# ones here than there; those of the driver and of CUDA belong to the machine.
ldd "$build/moonlet" "$plugin" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | ld-linux*) ;;
      libstdc++.so.* | libgcc_s.so.* | libmoonlet*) ;;
      libcuda* | libcublas* | libcudnn* | libnv* | libnccl*) ;;
      *) cp -L "$library" "$work/carried/" ;;
    esac
  done

# The glibc that all that goes along needs. Packed relocations are no function of glibc: 2.36 brought
# the loader that reads them.
newest=35
for file in "$work"/bin/* "$work"/carried/*; do
  for needed in $(objdump -p "$file" | sed -n 's/.* GLIBC_2\.\([0-9]*\).*/\1/p; s/.* GLIBC_ABI_DT_RELR.*/36/p'); do
    [ "$needed" -le "$newest" ] || newest=$needed
  done
  if [ "$newest" -gt 36 ]; then
    echo "gpu_bundle: $(basename "$file") needs glibc 2.$newest; the bundle is for 2.36 at most" >&2
    exit 1
  fi
done
echo "2.$newest" >"$work/glibc"

cp scripts/gpu_check/*.lua scripts/gpu_check/*.py scripts/gpu_check/*.sh scripts/gpu_check/*.txt "$work/check/"
# The networks of the benchmarks, ours and PyTorch's.
cp tests/bench/models.lua "$work/check/bench_models.lua"
cp tests/bench/peer_torch.py "$work/check/bench_models_torch.py"
for test in cuda cuda_kernels cuda_rows cuda_sorted cuda_graph cuda_graphed cuda_layers cuda_linalg cuda_fft \
  cuda_conv cuda_attention cuda_attention_wgmma cuda_loops cuda_skinny cuda_cudnn cuda_cudnn_attention \
  cuda_recurrent; do
  cp "tests/lua/cuda/${test}_test.lua" "$work/tests/lua/cuda/"
done
cp tests/lua/harness.lua tests/lua/emulated.lua tests/lua/on_device.lua tests/lua/device_checks.lua tests/lua/test_device.lua tests/lua/op_*.lua \
  "$work/tests/lua/"
cp tests/lua/ops/op_test.lua "$work/tests/lua/ops/"
cp "$build/tests/op_cases.lua" "$work/tests/"
# The optimisers' steps have no samples; training runs them.
for rows in tensor/ops/*.lua; do basename "$rows" .lua; done | grep -vx optim >"$work/families"

mkdir -p "$target"
tar -cf - -C "$work" . | gzip -9 >"$target/payload.tar.gz"
cp scripts/gpu_check/gpu_check "$target/gpu_check"
chmod +x "$target/gpu_check"
size=$(($(wc -c <"$target/payload.tar.gz") + $(wc -c <"$target/gpu_check")))
if [ "$size" -gt "$most" ]; then
  echo "gpu_bundle: $size bytes, at most $most are wanted: build with fewer of -Dgpu_archs" >&2
  exit 1
fi
echo "$target: $((size / 1024 / 1024)) MiB; copy it to the machine and run ./gpu_check there (glibc 2.$newest)"
