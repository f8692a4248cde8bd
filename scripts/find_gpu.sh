#!/bin/sh
# scripts/find_gpu.sh: succeeds where this machine has a GPU that CUDA can use: a device file of the
# driver (or of WSL), or one that nvidia-smi lists. The build asks it for -Dcuda=auto.
for device in /dev/nvidia[0-9]* /dev/dxg; do
  if [ -e "$device" ]; then exit 0; fi
done
nvidia-smi -L 2>/dev/null | grep -q '^GPU '
