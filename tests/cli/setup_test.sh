#!/bin/sh
# tests/cli/setup_test.sh: the first command builds the CUDA backend where there is a GPU, and says
# so where it leaves it out.  usage: setup_test.sh SOURCE_FOLDER
source=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
passed=0
check() { if [ "$2" = "$3" ]; then passed=$((passed + 1)); else
  echo "FAILED: $1: got '$2', wanted '$3'" && failed=$((failed + 1)); fi; }

mkdir "$work/bin"
PATH=$work/bin:$PATH
export PATH
fake() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
gpu() { sh "$source/scripts/find_gpu.sh" && echo yes || echo no; }

skipped=0
if ls /dev/nvidia[0-9]* /dev/dxg >/dev/null 2>&1; then
  echo 'SKIP what happens without a GPU: this machine has one'
  skipped=1
else
  fake nvidia-smi 'echo "NVIDIA-SMI has failed because there is no driver." >&2; exit 9'
  check 'a machine without a driver' "$(gpu)" no
  fake nvidia-smi 'echo "No devices found"'
  check 'a driver without a device' "$(gpu)" no
  if command -v meson >/dev/null 2>&1; then
    fake nvcc 'exit 1'
    lines=$(sh "$source/scripts/setup.sh" "$work/build" -Dtests=false -Donnx=disabled | grep -c 'CUDA backend is left out: nvcc is here')
    check 'setup.sh says that it leaves the backend out' "$lines" 1
    check 'and does not build it' "$(grep -c 'moonlet-cuda.so:' "$work/build/build.ninja")" 0
  fi
fi
fake nvidia-smi 'echo "GPU 0: A (UUID: B)"'
check 'a machine with a GPU' "$(gpu)" yes

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
