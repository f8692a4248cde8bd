#!/bin/sh
# scripts/quickstart.sh: from a fresh clone to a trained model: installs what is missing, builds,
# and trains a digit classifier. Arguments go to the training script (see --help).
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh build -Dtests=false
sh scripts/build.sh build
build/moonlet scripts/train_digits.lua "$@"
