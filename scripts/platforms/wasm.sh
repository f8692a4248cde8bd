# scripts/platforms/wasm.sh: WebAssembly by emscripten, run by node and in a browser; a part of
# platforms.sh. What is not Debian's for WebAssembly is in ~/.cache/moonlet/wasm (or MOONLET_WASM_ROOT):
# the headers that are the same for every system, zlib, compiled from Debian's source package, and the
# source of Lua. The build goes without OpenBLAS, oneDNN, AsmJit, OpenMP, cairo, libsndfile, libwebp,
# PCRE2 and ONNX.
# shellcheck shell=sh disable=SC2119,SC2120

# shellcheck source=scripts/platforms/cross_files.sh
. scripts/platforms/cross_files.sh

wasm_root=${MOONLET_WASM_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/wasm}
# What names files of this checkout.
wasm_own=$wasm_root/checkouts/$(pwd | tr / _)
wasm_packages='emscripten node-acorn libhwy-dev nlohmann-json3-dev libstb-dev'

wasm_get_packages() {
  ! { command -v em++ && command -v node && [ -d /usr/include/hwy ] &&
    [ -d /usr/share/nodejs/acorn ] && [ -d /usr/include/nlohmann ] && [ -d /usr/include/stb ]
  } >/dev/null 2>&1 || return 0
  command -v node >/dev/null || wasm_packages="$wasm_packages nodejs"
  # shellcheck disable=SC2086
  install_packages $wasm_packages
}

# zlib, of Debian's source package.
wasm_build_zlib() {
  [ ! -f "$wasm_root/lib/libz.a" ] || return 0
  fetch_sources "$wasm_root/apt" zlib
  mkdir -p "$wasm_root/zlib" "$wasm_root/lib" "$wasm_root/include"
  tar -x -C "$wasm_root/zlib" --strip-components 1 \
    -f "$(find "$wasm_root/apt" -name 'zlib_*.orig.tar.*' | head -1)"
  (
    cd "$wasm_root/zlib" || exit
    for name in adler32 compress crc32 deflate gzclose gzlib gzread gzwrite infback inffast inflate \
      inftrees trees uncompr zutil
    do emcc -O2 -fwasm-exceptions -DHAVE_UNISTD_H -c $name.c -o $name.o; done
    emar rc "$wasm_root/lib/libz.a" ./*.o
    cp zlib.h zconf.h "$wasm_root/include"
  )
}

wasm_write_headers() {
  write_headers "$wasm_root"
  printf 'Name: zlib\nDescription: compression\nVersion: %s\nLibs: %s\nCflags: -isystem %s\n' \
    "$(sed -n 's/^#define ZLIB_VERSION "\(.*\)"/\1/p' "$wasm_root/include/zlib.h")" \
    "$wasm_root/lib/libz.a" "$wasm_root/include" >"$wasm_root/pkgconfig/zlib.pc"
}

# wasm_keep_if_same FILE: FILE.new becomes FILE, unless they are the same: all files are compiled again
# when its time changes.
wasm_keep_if_same() { cmp -s "$1.new" "$1" || mv "$1.new" "$1"; }

# The compiler without em++ in front of it, which takes longer to start than many files to compile.
# What nearly all files include is compiled once.
wasm_write_compiler() {
  if [ -f "$wasm_own/checked" ] && [ -z "$(find tensor autograd scripts/platforms/wasm.sh \
    \( -name '*.h' -o -path '*/wasm_headers/*' -o -name wasm.sh \) -newer "$wasm_own/checked")" ]
  then
    return 0
  fi
  mkdir -p "$wasm_own"
  cat >"$wasm_own/common.h.new" <<EOF
$(printf '#include <%s>\n' algorithm array atomic bit chrono cmath cstdio cstring functional limits \
    map memory mutex optional span string string_view tuple unordered_map utility vector)
$(printf '#include "%s"\n' tensor/core/platform/wasm_names.h tensor/core/tensor.h \
    tensor/core/views.h tensor/runtime/execution.h tensor/runtime/backend.h \
    tensor/cpu/common/parallel.h autograd/tape.h)
EOF
  wasm_keep_if_same "$wasm_own/common.h"
  flags=$(em++ --cflags -fwasm-exceptions -msimd128 -isystem "$wasm_root/include")
  # shellcheck disable=SC2086
  clang++-14 $flags -I"$PWD" -I"$PWD/tensor/core/platform/wasm_headers" -std=c++20 -O2 -DNDEBUG \
    -D_FILE_OFFSET_BITS=64 -Wno-unknown-pragmas -fno-math-errno -Xclang -fno-pch-timestamp \
    -x c++-header "$wasm_own/common.h" -o "$wasm_own/common.pch.new"
  wasm_keep_if_same "$wasm_own/common.pch"
  cat >"$wasm_own/em++" <<EOF
#!/bin/sh
# Compiles files of Moonlet, which have -DNDEBUG; all else is em++'s.
case " \$* " in
  *' -DNDEBUG '*' -c '*)
    CCACHE_SLOPPINESS=pch_defines,time_macros
    export CCACHE_SLOPPINESS
    # As what is compiled once: one module has no use for hidden names or for code that can be moved.
    case " \$* " in *' -fvisibility=hidden '*) set -- "\$@" -fvisibility=default ;; esac
    # clang 14 forgets that a load which it makes a splat of comes before the stores behind it: a
    # vector on the stack must not get the slot of an earlier one.
    case " \$* " in *' -o tensor/'*) set -- "\$@" -mllvm -no-stack-coloring ;; esac
    exec $(command -v ccache || true) clang++-14 $flags -include-pch $wasm_own/common.pch \
      -Xclang -fno-pch-timestamp -Wno-unused-command-line-argument "\$@" -fno-PIC ;;
esac
# A node that is not Debian's does not look where Debian has acorn, which em++ needs to link.
NODE_PATH=/usr/share/nodejs exec em++ -fwasm-exceptions -msimd128 -isystem $wasm_root/include "\$@"
EOF
  chmod +x "$wasm_own/em++"
  touch "$wasm_own/checked"
}

# Highway has no vectors of float64 for WebAssembly, but for a processor that it emulates by loops,
# of which the compiler makes instructions of WebAssembly.
wasm_write_cross_file() {
  cat >"$wasm_own/cross.ini" <<EOF
[binaries]
cpp = '$wasm_own/em++'
ar = 'emar'
nm = 'emnm'
strip = 'true'
pkgconfig = 'pkg-config'
exe_wrapper = ['node', '$PWD/scripts/platforms/wasm_node.js']

[properties]
pkg_config_libdir = '$wasm_root/pkgconfig'
needs_exe_wrapper = true

[built-in options]
cpp_args = ['-DHWY_COMPILE_ONLY_EMU128']

[host_machine]
system = 'emscripten'
cpu_family = 'wasm32'
cpu = 'wasm32'
endian = 'little'
EOF
}

# Arguments are options of `meson setup`.
platform_setup() {
  wasm_get_packages
  fetch_lua "$wasm_root/apt"
  wasm_build_zlib
  wasm_write_headers
  wasm_write_compiler
  [ ! -f build-wasm/build.ninja ] || return 0
  wasm_write_cross_file
  meson setup build-wasm --cross-file "$wasm_own/cross.ini" -Doptimization=2 -Dblas=bundled \
    -Donednn=disabled -Dcuda=disabled -Dhtml_docs=disabled -Donnx=disabled -Dtests=false "$@"
}

platform_build() {
  platform_setup
  ninja -C build-wasm "${@:-moonlet.js}"
  [ -f build-wasm/moonlet.wasm ] || return 0
  # The page in the browser (docs/browser.md).
  mkdir -p build-wasm/page
  cp docs/browser/* build-wasm/moonlet.js build-wasm/moonlet.wasm build-wasm/page
}

# Arguments are names of Lua tests, as tensor/storage; without any, all of them and the page.
platform_test() {
  platform_build
  sh scripts/platforms/wasm_tests.sh build-wasm "$@"
  [ $# -gt 0 ] || node tests/browser/page_test.js "$PWD" build-wasm
}
