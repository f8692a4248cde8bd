#!/bin/sh
# tests/embed/subprojects.sh: Moonlet's sources inside other projects: CMake's FetchContent builds a host with
# what the build folder holds, and Meson's dependency() finds a subproject. The subproject itself is built,
# which takes as long as Moonlet does, only where MOONLET_LONG_TESTS is set.
# usage: subprojects.sh SOURCE_FOLDER BUILD_FOLDER
set -eu
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $*"
  exit 1
}
cat >host.cpp <<'CPP'
#include <cstdio>
#include <moonlet/moonlet.h>
int main() {
  moonlet::Interpreter lua;
  std::printf("%g\n", lua.run_string("return require('moonlet').ones(2, 3):sum():item()")[0].number());
}
CPP

# --- CMake ----------------------------------------------------------------------------------------

if ! command -v cmake >/dev/null 2>&1; then
  echo 'left out: cmake is not installed'
elif ! grep -q '"name": "b_sanitize", "value": "none"' "$build/meson-info/intro-buildoptions.json"; then
  echo 'left out: a host of CMake has no sanitizers'
else
  mkdir cmake
  cp host.cpp cmake
  cat >cmake/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.24)
project(host CXX)
include(FetchContent)
FetchContent_Declare(moonlet SOURCE_DIR "$source" SOURCE_SUBDIR interp/package)
FetchContent_MakeAvailable(moonlet)
add_executable(host host.cpp)
target_link_libraries(host PRIVATE moonlet::moonlet)
CMAKE
  { cmake -S cmake -B cmake-build -DMOONLET_BUILD_FOLDER="$build" && cmake --build cmake-build; } >log 2>&1 || {
    cat log
    fail 'FetchContent'
  }
  [ "$(./cmake-build/host)" = 6 ] || fail 'the host of FetchContent does not run'
  if cmake -S cmake -B other -DMOONLET_OPTIONS=-Dnope=1 >log 2>&1; then fail 'an unknown option is taken'; fi
  grep -q 'nope' log || { cat log; fail 'an unknown option is not named'; }
fi

# --- Meson ----------------------------------------------------------------------------------------

mkdir -p meson/subprojects
cp host.cpp meson
ln -s "$source" meson/subprojects/moonlet
cat >meson/meson.build <<'MESON'
project('host', 'cpp', default_options: ['cpp_std=c++20', 'buildtype=release'])
moonlet_dep = dependency('moonlet', fallback: ['moonlet', 'moonlet_dep'])
assert(moonlet_dep.type_name() == 'internal', 'an installed one was found')
assert(dependency('moonlet').version() == moonlet_dep.version(), 'the dependency is not overridden')
executable('host', 'host.cpp', dependencies: moonlet_dep)
MESON
meson setup meson/build meson --wrap-mode=nodownload --force-fallback-for=moonlet -Dmoonlet:tests=false \
  -Dmoonlet:cuda=disabled -Dmoonlet:html_docs=disabled -Dmoonlet:onnx=disabled >log 2>&1 || {
  cat log
  fail 'the subproject is not set up'
}
ninja -C meson/build -t inputs host >inputs 2>&1 || { cat inputs; fail 'no host in the subproject'"'"'s build'; }
grep -q 'libmoonlet.so' inputs || fail 'the host is not linked with the library of the subproject'
if [ -n "${MOONLET_LONG_TESTS:-}" ]; then
  ninja -C meson/build -j "${MOONLET_JOBS:-2}" host >log 2>&1 || { tail -40 log; fail 'the subproject does not build'; }
  [ "$(./meson/build/host)" = 6 ] || fail 'the host of the subproject does not run'
else
  echo 'the subproject was set up, not built: MOONLET_LONG_TESTS is not set'
fi
