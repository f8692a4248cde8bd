#!/bin/sh
# tests/embed/run.sh: installs a build to a temporary prefix, builds host programs against it through
# pkg-config and CMake, and runs them, also beside other Luas.  usage: run.sh BUILD_FOLDER CUDA_MODE
set -eu
build=$1
cuda=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*"
  exit 1
}

meson install -C "$build" --no-rebuild --quiet --destdir "$work/root" >install.log 2>&1 || {
  cat install.log
  exit 1
}
pc=$(find root -name moonlet.pc)
program=$work/$(find root -path '*/bin/moonlet')
[ -n "$pc" ] && [ -x "$program" ] || fail "moonlet.pc or bin/moonlet is not installed"
prefix=${program%/bin/moonlet}
libdir=$work/$(dirname "$(dirname "$pc")")
library=$libdir/libmoonlet.so
[ -e "$library" ] && [ -e "$libdir/libmoonlet.a" ] || fail "a library is not installed"
PKG_CONFIG_PATH=$libdir/pkgconfig
LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_PATH LD_LIBRARY_PATH
sed -i "s|^prefix=.*|prefix=$prefix|" "$PKG_CONFIG_PATH"/*.pc
unset LUA_PATH LUA_CPATH LUA_PATH_5_4 LUA_CPATH_5_4 MOONLET_CUDA_PLUGIN || true

# A library built with sanitizers wants a program that is.
flags='-O1 -g -Wall -Wextra'
sanitized=
if ldd "$library" | grep -q libasan; then
  flags="$flags -fsanitize=address,undefined"
  sanitized=yes
fi
# build OUTPUT SOURCE PACKAGE [FLAG...]
build() {
  output=$1 source=$here/$2 package=$3
  shift 3
  # shellcheck disable=SC2046,SC2086
  ${CXX:-c++} -std=c++20 $flags "$source" -o "$output" $(pkg-config --cflags "$package") "$@" \
    $(pkg-config --libs "$package") -pthread
}

. "$here/headers.sh"
. "$here/symbols.sh"

# Hosts: the shared library, as the Makefile finds it, and the static one.
make -s -f "$here/Makefile" SOURCE_DIR="$here/" CXXFLAGS="$flags" host
./host
build tensors tensors.cpp moonlet
./tensors
build weights weights.cpp moonlet
./weights
# The host of the gallery: what it trained is far better than the mean image, and loads elsewhere.
scripts=$(cd "$here/../../scripts" && pwd)
build embed-autoencoder ../../scripts/embed_autoencoder/main.cpp moonlet
./embed-autoencoder "$scripts/embed_autoencoder/autoencoder.lua" "$scripts/data/digits.csv" \
  autoencoder.safetensors 8 >autoencoder.txt
awk '/^Test error:/ { good = $3 < 0.6 * ($8 + 0) } /^Loaded and trained differ by 0$/ { same = 1 }
  END { exit !(good && same) }' autoencoder.txt || fail "embed_autoencoder: $(cat autoencoder.txt)"
if ./embed-autoencoder "$scripts/embed_autoencoder/autoencoder.lua" none.csv a.safetensors 1 2>err; then
  fail 'embed_autoencoder takes a file that is not there'
fi
grep -q 'none.csv' err || fail "embed_autoencoder: $(cat err)"
# The host with classes of its own: what the script's effect does comes out, and the class has help.
build embed-class ../../scripts/embed_class/main.cpp moonlet
./embed-class "$scripts/embed_class/chain.lua" >class.txt
for line in '^sound    0.7042$' '^clip     0.8829$' '^clip has clipped 663 samples$' '^  :process(x: number) -> number$'; do
  grep -q "$line" class.txt || fail "embed_class: $(cat class.txt)"
done
if ./embed-class none.lua 2>err; then fail 'embed_class takes a file that is not there'; fi
grep -q 'none.lua' err || fail "embed_class: $(cat err)"
# shellcheck disable=SC2046,SC2086
for name in host tensors weights; do
  ${CXX:-c++} -std=c++20 $flags "$here/$name.cpp" -o "$name-static" $(pkg-config --cflags moonlet) \
    $(pkg-config --static --libs moonlet | sed 's/-lmoonlet /-l:libmoonlet.a /') -pthread
done
# Highway is headers alone.
case $(pkg-config --static --libs moonlet) in *-lhwy*) fail 'pkg-config names a library that is not needed' ;; esac
./host-static
./tensors-static
./weights-static
if ldd host-static | grep -q -e moonlet -e 'liblua'; then fail "host-static needs a shared library"; fi
[ "$("$program" -e 'print(1 + 1)')" = 2 ]

. "$here/programs.sh"
. "$here/extensions.sh"
. "$here/other_luas.sh"

# The CUDA plugin takes its symbols from the executable, from the library, or from the program.
if [ "$cuda" = emulated ]; then
  check='ml = require "moonlet" assert(ml.cuda.is_available(), ml.cuda.unavailable_reason())
    return ml.ones{4, device = "cuda"}:sum():item()'
  [ "$("$program" -e "print((function() $check end)())")" = 4.0 ] || fail "the plugin in bin/moonlet"
  build plugin-user plugin_user.cpp moonlet
  ./plugin-user "$check"
  # shellcheck disable=SC2046,SC2086
  ${CXX:-c++} -std=c++20 $flags "$here/plugin_user.cpp" -o plugin-user-static \
    $(pkg-config --cflags moonlet) \
    $(pkg-config --static --libs moonlet | sed 's/-lmoonlet /-l:libmoonlet.a /') -pthread
  MOONLET_CUDA_PLUGIN=$libdir/moonlet/moonlet-cuda.so ./plugin-user-static "$check"
  # shellcheck disable=SC2046,SC2086
  ${CXX:-c++} -std=c++20 $flags "$here/plugin_user.cpp" -o plugin-user-closed \
    $(pkg-config --cflags moonlet) -pthread $(pkg-config --static --libs moonlet |
      sed 's/-lmoonlet /-l:libmoonlet.a /; s/-Wl,--export-dynamic//')
  text=$(MOONLET_CUDA_PLUGIN=$libdir/moonlet/moonlet-cuda.so ./plugin-user-closed "$check") || true
  case $text in
    *'undefined symbol'*) ;;
    *) fail "a program that exports no tensors got: $text" ;;
  esac
fi

if command -v cmake >/dev/null 2>&1; then
  CXXFLAGS=$flags cmake -S "$here/cmake" -B cmake -DSOURCES="$here" \
    -DCMAKE_PREFIX_PATH="$prefix" >cmake.log 2>&1 && cmake --build cmake >>cmake.log 2>&1 || {
    cat cmake.log
    fail "the CMake package"
  }
  mkdir newer
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(newer CXX)' \
    'find_package(moonlet 0.99 REQUIRED)' >newer/CMakeLists.txt
  if cmake -S newer -B newer -DCMAKE_PREFIX_PATH="$prefix" >newer.log 2>&1; then
    fail 'the CMake package takes itself for a newer version'
  fi
  grep -q 'compatible with requested version "0.99"' newer.log || {
    cat newer.log
    fail 'the CMake package is not found'
  }
  ./cmake/host
  ./cmake/host-static
  ./cmake/program net.mlp wanted.bin
  ./cmake/program-static net.mlp wanted.bin
  LUA_CPATH_5_4=$module ./cmake/own-state
else
  echo 'cmake is not installed: its package is not tested'
fi
