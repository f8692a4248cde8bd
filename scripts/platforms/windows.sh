# scripts/platforms/windows.sh: Windows on x86-64 by mingw-w64, run by Wine; a part of platforms.sh.
# What is not Debian's for Windows is in ~/.cache/moonlet/windows (or MOONLET_WINDOWS_ROOT): the
# headers that are the same for every system, and the source of Lua.
# OpenBLAS, oneDNN, AsmJit, cairo, libsndfile, libwebp, PCRE2 and ONNX have no packages there; the
# build goes without them.
# shellcheck shell=sh disable=SC2016,SC2119,SC2120

# shellcheck source=scripts/platforms/cross_files.sh
. scripts/platforms/cross_files.sh

windows_root=${MOONLET_WINDOWS_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/windows}
# The posix variant has C++'s threads.
windows_compiler=x86_64-w64-mingw32-g++-posix
windows_wine=/usr/lib/wine/wine64
windows_packages='g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine64 libhwy-dev nlohmann-json3-dev libstb-dev'

windows_get_packages() {
  ! { command -v $windows_compiler && [ -x $windows_wine ] && [ -d /usr/include/hwy ] &&
    [ -d /usr/include/nlohmann ] && [ -d /usr/include/stb ] &&
    [ -f /usr/x86_64-w64-mingw32/lib/libz.a ]; } >/dev/null 2>&1 || return 0
  # shellcheck disable=SC2086
  install_packages $windows_packages
}

windows_write_cross_file() {
  ccache=$(command -v ccache || true)
  cat >"$windows_root/cross.ini" <<EOF
[binaries]
cpp = [${ccache:+'$ccache', }'$windows_compiler']
ar = 'x86_64-w64-mingw32-ar'
nm = 'x86_64-w64-mingw32-nm'
objcopy = 'x86_64-w64-mingw32-objcopy'
strip = 'x86_64-w64-mingw32-strip'
pkgconfig = 'pkg-config'
exe_wrapper = '$windows_wine'

[properties]
pkg_config_libdir = '$windows_root/pkgconfig:/usr/x86_64-w64-mingw32/lib/pkgconfig'

[built-in options]
# GCC aligns the stack to 16 bytes there, whatever a vector needs: the assembler turns moves that
# want alignment into those that do not.
cpp_args = ['-Wa,-muse-unaligned-vector-move', '-isystem', '$windows_root/include']
cpp_link_args = ['-static']

[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
EOF
}

# Arguments are options of `meson setup`, as -Doptimization=1, which compiles in half the time.
platform_setup() {
  windows_get_packages
  fetch_lua "$windows_root/apt"
  write_headers "$windows_root"
  [ ! -f build-windows/build.ninja ] || return 0
  windows_write_cross_file
  meson setup build-windows --cross-file "$windows_root/cross.ini" -Dblas=bundled \
    -Dcuda=disabled -Dhtml_docs=disabled -Donnx=disabled -Dtests=false "$@"
}

platform_build() {
  platform_setup
  libraries=interp/package/windows
  [ $# -gt 0 ] || set -- moonlet.exe interp/reference $libraries/libmoonlet.dll $libraries/libmoonlet-static.a
  ninja -C build-windows "$@"
}

# Arguments are names of Lua tests, as tensor/storage, or cli, console, files and hosts; all without
# any.
platform_test() {
  platform_build
  sh scripts/platforms/windows_tests.sh build-windows "$windows_wine" "$@"
}
