#!/bin/sh
# scripts/setup.sh: installs what Moonlet needs from Debian's packages, and sets up the build
# folder. Quick and quiet when nothing is missing.
# usage: sh scripts/setup.sh [--tests] [BUILD_FOLDER [MESON_OPTION...]]
set -eu
cd "$(dirname "$0")/.."

packages='g++:the C++20 compiler
meson:the build system
ninja-build:runs the build
pkg-config:finds libraries
dpkg-dev:tells where Debian keeps libraries
lua5.4:runs the code generator
liblua5.4-dev:the Lua library, built as C++
libhwy-dev:SIMD kernels
libopenblas-openmp-dev:matrix products and factorizations
libdnnl-dev:convolutions
libasmjit-dev:machine code for fused loops
libedit-dev:line editing in the REPL
nlohmann-json3-dev:reading and writing JSON
zlib1g-dev:gzip files, zip archives and the Lua that is built in
libstb-dev:PNG, JPEG and BMP pictures
libwebp-dev:WebP pictures
libsndfile1-dev:FLAC, Ogg and other sound
libpcre2-dev:regular expressions of tokenizers
libcairo2-dev:figures as PNG
libonnx-dev:ONNX files
libprotobuf-dev:their messages
libgloo-dev:training by several processes
fonts-dejavu-core:the font of their texts
lowdown:the reference as HTML pages'
optional='libopenmpi-dev:training by several processes over MPI
openmpi-bin:starts them'
tests=0
if [ "${1:-}" = --tests ]; then
  shift
  tests=1
  packages="$packages
catch2:the C++ tests
clang-format:checks the layout of C++
clang-tidy:checks C++ for mistakes
clang:a second compiler, which clang-tidy needs too
libomp-dev:OpenMP for clang
libc++-dev:the C++ library of macOS
libc++abi-dev:its other half
libclang-rt-dev:sanitizers for clang
llvm:names functions in what sanitizers report
lua-check:checks Lua for mistakes
locales:a locale with decimal commas
git:lists the project's files
make:builds the embedding example
luajit:a host of the C interface
iproute2:network namespaces, for ranks on machines of their own
patchelf:takes run paths out of packages
abigail-tools:compares the C interface with the recorded one
g++-aarch64-linux-gnu:compiles some files for 64-bit ARM
cmake:builds the hosts that find the library by its CMake package"
fi

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# list_missing LINES: the packages among lines of NAME:WHAT_FOR that are not installed, each told.
list_missing() {
  missing=
  command -v dpkg-query >/dev/null 2>&1 || return 0
  for line in $(printf '%s\n' "$1" | tr ' ' '~'); do
    name=${line%%:*}
    installed "$name" && continue
    [ -n "$missing" ] || echo "$2"
    printf '  %-24s %s\n' "$name" "$(printf '%s' "${line#*:}" | tr '~' ' ')"
    missing="$missing $name"
  done
}

# install_missing: installs them with apt-get; false where it failed, with its output in $log.
log=/tmp/moonlet-setup.$$
install_missing() {
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
      echo "Install them as root, then run this again: apt-get install$missing" >"$log"
      return 1
    }
    as_root=sudo
  fi
  echo 'Installing them with apt-get.'
  # shellcheck disable=SC2086
  { $as_root apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
  } >"$log" 2>&1
}

list_missing "$packages" 'Moonlet needs these packages, which are not installed:'
if [ -n "$missing" ]; then
  install_missing || {
    cat "$log" >&2
    rm -f "$log"
    echo 'These packages are needed; the output of their installation is above.' >&2
    exit 1
  }
  rm -f "$log"
fi

# What nvcc makes of the kernels is tested with NVIDIA's disassemblers, which a toolkit may lack.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ "$tests" = 1 ] && [ -x "$nvcc" ] && [ ! -d build-tools ] && ! command -v cuobjdump >/dev/null 2>&1 &&
  [ ! -x "${nvcc%/*}/cuobjdump" ] && python3 -m pip --version >/dev/null 2>&1; then
  echo 'Installing cuobjdump and nvdisasm with pip, into build-tools.'
  python3 -m pip install --quiet --target build-tools nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm >"$log" 2>&1 || {
    rm -rf build-tools
    echo 'They could not be installed; the test of machine code is left out.'
  }
  rm -f "$log"
fi

build=${1:-build}
[ $# -eq 0 ] || shift
if [ ! -f "$build/build.ninja" ]; then
  list_missing "$optional" 'Without these packages, which are not installed, parts are left out:'
  [ -z "$missing" ] || install_missing || echo 'They could not be installed; the rest is built without them.'
  rm -f "$log"
  echo "Setting up the build folder $build."
  # Meson looks for ccache by itself only where no compiler is named.
  case ${CXX:-} in
    '' | *ccache*) ;;
    *) ! command -v ccache >/dev/null || CXX="ccache $CXX" ;;
  esac
  meson setup "$build" "$@" >"/tmp/moonlet-meson.$$" 2>&1 || {
    cat "/tmp/moonlet-meson.$$" >&2
    rm -f "/tmp/moonlet-meson.$$"
    exit 1
  }
  sed -n 's/^\(.*: \)\{0,1\}Message: \(The CUDA backend is left out\|Training by several\)/\2/p' "/tmp/moonlet-meson.$$"
  rm -f "/tmp/moonlet-meson.$$"
fi
