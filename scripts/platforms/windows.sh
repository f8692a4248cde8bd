# scripts/platforms/windows.sh: Windows on x86-64 by mingw-w64, run by Wine; a part of platforms.sh.
# What is not Debian's for Windows is in ~/.cache/moonlet/windows (or MOONLET_WINDOWS_ROOT): the
# headers that are the same for every system, and the source of Lua.
# OpenBLAS, oneDNN, AsmJit, cairo, libsndfile, libwebp, PCRE2 and ONNX have no packages there; the
# build goes without them.

windows_root=${MOONLET_WINDOWS_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/windows}
windows_mirror=${MOONLET_DEBIAN_MIRROR:-http://deb.debian.org}
# The posix variant has C++'s threads.
windows_compiler=x86_64-w64-mingw32-g++-posix
windows_wine=/usr/lib/wine/wine64
windows_packages='g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine64 libhwy-dev nlohmann-json3-dev libstb-dev'

windows_get_packages() {
  ! { command -v $windows_compiler && [ -x $windows_wine ] && [ -d /usr/include/hwy ] &&
    [ -d /usr/include/nlohmann ] && [ -d /usr/include/stb ] &&
    [ -f /usr/x86_64-w64-mingw32/lib/libz.a ]; } >/dev/null 2>&1 || return 0
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  echo "Installing them with apt-get: $windows_packages"
  # shellcheck disable=SC2086
  { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $windows_packages; } >/dev/null
}

# The archive that subprojects/lua.wrap names, as Debian keeps it with its source packages.
windows_get_lua() {
  archive=subprojects/packagecache/lua-5.4.4.tar.gz
  [ ! -f $archive ] || return 0
  mkdir -p subprojects/packagecache "$windows_root/apt/lists/partial"
  (
    cd "$windows_root/apt"
    key='signed-by=/usr/share/keyrings/debian-archive-keyring.gpg'
    echo "deb-src [$key] $windows_mirror/debian bookworm main" >sources.list
    set -- -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
      -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=
    apt-get "$@" update && apt-get "$@" source --download-only lua5.4
  ) >"$windows_root/log" 2>&1 || {
    cat "$windows_root/log" >&2
    echo 'apt-get failed; its output is above.' >&2
    exit 1
  }
  cp "$windows_root"/apt/lua5.4_5.4.4.orig.tar.gz $archive
}

# A folder of headers that are the same everywhere, and what pkg-config says of them.
windows_write_headers() {
  mkdir -p "$windows_root/include" "$windows_root/pkgconfig"
  for name in hwy nlohmann stb; do ln -sfn "/usr/include/$name" "$windows_root/include/$name"; done
  for name in libhwy nlohmann_json; do
    printf 'Name: %s\nDescription: headers\nVersion: %s\nCflags: -isystem %s\n' \
      $name "$(pkg-config --modversion $name)" "$windows_root/include" \
      >"$windows_root/pkgconfig/$name.pc"
  done
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
  windows_get_lua
  windows_write_headers
  [ ! -f build-windows/build.ninja ] || return 0
  windows_write_cross_file
  meson setup build-windows --cross-file "$windows_root/cross.ini" -Dblas=bundled \
    -Dcuda=disabled -Dhtml_docs=disabled -Donnx=disabled -Dtests=false "$@"
}

platform_build() {
  platform_setup
  libraries=interp/package/windows
  [ $# -gt 0 ] || set -- moonlet.exe $libraries/libmoonlet.dll $libraries/libmoonlet-static.a
  ninja -C build-windows "$@"
}

# Arguments are names of Lua tests, as tensor/storage, or cli, console, files and hosts; all without
# any.
platform_test() {
  platform_build
  sh scripts/platforms/windows_tests.sh build-windows "$windows_wine" "$@"
}
