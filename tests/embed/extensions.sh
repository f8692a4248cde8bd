# tests/embed/extensions.sh: a part of run.sh: extensions that are made ahead of time, with
# pkg-config, CMake and Meson, and compiled from scripts, loaded by the executable and by a host of
# the library.
cat >area.cpp <<'END'
#include <moonlet/extension.h>
#include <moonlet/ops.h>

static double area(double r) { return 3 * r * r; }
static moonlet::Tensor twice(const moonlet::Tensor& x) { return x * 2; }

MOONLET_EXTENSION(area, module) {
  module.function("area", &area).function("twice", &twice);
}
END
cat >area.lua <<'END'
local ml = require "moonlet"
local m = ml.ext.load_library(area)
local x = ml.ones(2, { requires_grad = true })
m.twice(x):sum():backward()
print(m.area(2), x.grad[1]:item())
END
cat >extension_host.cpp <<'END'
#include <moonlet/moonlet.h>
#include <cstdio>
#include <exception>

int main(int, char** argv) {
  try {
    moonlet::Interpreter::Options options;
    options.environment = true;
    moonlet::Interpreter lua(options), other(options);
    for (moonlet::Interpreter* each : {&lua, &other}) {
      each->set("area", moonlet::Value(argv[1]));
      each->run_file(argv[2]);
    }
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
END
# loads WHERE: the executable, and two interpreters of a host, load the library at WHERE.
loads() {
  [ "$("$program" -e "area = '$1'" area.lua)" = '12.0	2.0' ] || fail "bin/moonlet does not load $1"
  [ "$(./extension-host "$1" area.lua | tr '\n' ' ')" = '12.0	2.0 12.0	2.0 ' ] ||
    fail "a host does not load $1: $(./extension-host "$1" area.lua)"
}
here_before=$here
here=$work
build extension-host extension_host.cpp moonlet
here=$here_before
case $(pkg-config --libs moonlet-extension) in *moonlet*) fail 'an extension is linked to the library' ;; esac
# shellcheck disable=SC2046,SC2086
${CXX:-c++} -std=c++20 $flags -shared -fPIC area.cpp -o area-pc.so $(pkg-config --cflags moonlet-extension)
loads ./area-pc.so
# One that is compiled against other headers says so.
sed 's/\(headers [0-9a-f]*\)[0-9a-f]/\1x/' area-pc.so >area-other.so
"$program" -e "area = './area-other.so'" area.lua >other.txt 2>&1 && fail 'an extension of another Moonlet is loaded'
grep -q 'compiled against other headers' other.txt || fail "area-other: $(cat other.txt)"

if command -v cmake >/dev/null 2>&1; then
  mkdir extension-cmake
  cp area.cpp extension-cmake/
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(area CXX)' \
    'find_package(moonlet 0.1 REQUIRED)' 'moonlet_add_extension(area area.cpp)' >extension-cmake/CMakeLists.txt
  CXXFLAGS=$flags cmake -S extension-cmake -B extension-cmake/build -DCMAKE_PREFIX_PATH="$prefix" >extension.log 2>&1 &&
    cmake --build extension-cmake/build >>extension.log 2>&1 || {
    cat extension.log
    fail 'moonlet_add_extension'
  }
  loads "$work/extension-cmake/build/area.so"
fi
if command -v meson >/dev/null 2>&1; then
  mkdir extension-meson
  cp area.cpp extension-meson/
  printf '%s\n' "project('area', 'cpp', default_options: ['cpp_std=c++20', 'b_lundef=false'])" \
    "shared_module('area', 'area.cpp', name_prefix: '', gnu_symbol_visibility: 'hidden'," \
    "  dependencies: dependency('moonlet-extension'))" >extension-meson/meson.build
  meson setup extension-meson/build extension-meson >extension.log 2>&1 &&
    ninja -C extension-meson/build >>extension.log 2>&1 || {
    cat extension.log
    fail 'an extension by Meson'
  }
  loads "$work/extension-meson/build/area.so"
fi
# What is installed compiles extensions, too.
if [ -z "$sanitized" ]; then
  MOONLET_CACHE=$work/cache
  export MOONLET_CACHE
  cat >inline.lua <<'END'
print(require("moonlet").ext.load_inline { name = "two", cpp = "int two() { return 2; }",
  functions = { "two" } }.two())
END
  [ "$("$program" inline.lua)" = 2 ] || fail "bin/moonlet compiles no extension"
  [ "$(./extension-host none inline.lua | tr '\n' ' ')" = '2 2 ' ] || fail "a host compiles no extension"
  unset MOONLET_CACHE
fi
