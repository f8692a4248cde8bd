# scripts/platforms/macos.sh: what of macOS can be checked on Debian: the compiler and the C++ library
# that Apple gives, clang and libc++, which compile the whole tree for Linux here; a part of
# platforms.sh. What macOS has in another way than Linux is checked by tests/platforms/macos.sh.
# Debian's packages of clang 19, as new as Xcode 16.3's, are unpacked into ~/.cache/moonlet/macos (or
# MOONLET_MACOS_ROOT): installed, its C++ library and OpenMP would take the room of those of another
# clang. The build goes without OpenBLAS, oneDNN, ONNX, Gloo and MPI, which bring GCC's OpenMP and C++
# library.
# shellcheck shell=sh disable=SC2119,SC2120

# shellcheck source=scripts/platforms/cross_files.sh
. scripts/platforms/cross_files.sh

macos_root=${MOONLET_MACOS_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/macos}
macos_llvm=$macos_root/tools/usr/lib/llvm-19
macos_packages='clang-19 libc++-19-dev libc++abi-19-dev libomp-19-dev'

macos_get_compiler() {
  [ ! -x "$macos_root/clang++" ] || return 0
  echo "Unpacking them: $macos_packages (51 MB)"
  mkdir -p "$macos_root"
  # shellcheck disable=SC2086
  fetch_packages "$macos_root/apt" "$(dpkg --print-architecture)" /var/lib/dpkg/status $macos_packages
  unpack "$macos_root/apt" "$macos_root/tools"
  cat >"$macos_root/clang++" <<EOF
#!/bin/sh
LD_LIBRARY_PATH=$macos_root/tools/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH) \
  exec $macos_llvm/bin/clang++ -stdlib=libc++ "\$@"
EOF
  chmod +x "$macos_root/clang++"
}

# Arguments are options of `meson setup`, as -Doptimization=1.
platform_setup() {
  macos_get_compiler
  fetch_lua "$macos_root/apt-sources"
  [ ! -f build-macos/build.ninja ] || return 0
  # Debian's Meson knows no later OpenMP than 5.0.
  CXX="$(command -v ccache || true) $macos_root/clang++" CXXFLAGS=-fopenmp-version=50 \
    LDFLAGS="-L$macos_llvm/lib -Wl,-rpath,$macos_llvm/lib" meson setup build-macos \
    --force-fallback-for lua -Dblas=bundled -Donednn=disabled -Donnx=disabled -Dcuda=disabled \
    -Ddistributed=disabled -Dmpi=disabled -Dhtml_docs=disabled "$@"
}

platform_build() {
  platform_setup
  ninja -C build-macos "$@"
}

platform_test() {
  platform_setup
  MOONLET_TEST_LEFT_OUT=$PWD/tests/platforms/macos_left_out.lua
  export MOONLET_TEST_LEFT_OUT
  meson test -C build-macos "$@"
}
