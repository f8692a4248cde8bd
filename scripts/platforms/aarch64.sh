# scripts/platforms/aarch64.sh: 64-bit ARM under Linux, run by qemu-user; a part of platforms.sh.
# The libraries are Debian's packages for arm64, unpacked into ~/.cache/moonlet/aarch64/sysroot (or
# below MOONLET_AARCH64_ROOT): nothing of them is installed, so that the machine's own packages stay
# as they are. The compiler and the emulator are installed where this runs as root or with sudo, and
# unpacked beside them elsewhere.
# shellcheck shell=sh disable=SC2016,SC2119,SC2120

# shellcheck source=scripts/platforms/cross_files.sh
. scripts/platforms/cross_files.sh

root=${MOONLET_AARCH64_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/moonlet/aarch64}
sysroot=$root/sysroot
triplet=aarch64-linux-gnu

# What meson.build looks for, and the C++ tests.
libraries='libc6-dev libstdc++6 libgomp1 liblua5.4-dev libhwy-dev libopenblas-openmp-dev
libdnnl-dev libasmjit-dev libedit-dev nlohmann-json3-dev zlib1g-dev libstb-dev libwebp-dev
libsndfile1-dev libpcre2-dev libcairo2-dev libonnx-dev libprotobuf-dev fonts-dejavu-core catch2'
tools='g++-aarch64-linux-gnu qemu-user qemu-user-binfmt'

have_tools() { command -v $triplet-g++ >/dev/null 2>&1 && command -v qemu-aarch64 >/dev/null 2>&1; }

get_tools() {
  if [ -d "$root/tools" ]; then
    PATH=$root/tools/usr/bin:$PATH
    LD_LIBRARY_PATH=$root/tools/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    export PATH LD_LIBRARY_PATH
  fi
  ! have_tools || return 0
  # shellcheck disable=SC2086
  ! install_packages $tools || return 0
  echo "Unpacking them, as this is not root: $tools"
  # shellcheck disable=SC2086
  fetch_packages "$root/apt-tools" "$(dpkg --print-architecture)" /var/lib/dpkg/status $tools
  unpack "$root/apt-tools" "$root/tools.part"
  mv "$root/tools.part" "$root/tools"
  get_tools
}

get_sysroot() {
  [ ! -d "$sysroot" ] || return 0
  echo 'Fetching the libraries for arm64: 61 MB.'
  mkdir -p "$root"
  : >"$root/no-packages"
  # shellcheck disable=SC2086
  fetch_packages "$root/apt" arm64 "$root/no-packages" $libraries
  unpack "$root/apt" "$sysroot.part"
  mv "$sysroot.part" "$sysroot"
}

write_cross_file() {
  ccache=$(command -v ccache || true)
  cat >"$root/cross.ini" <<EOF
[binaries]
cpp = [${ccache:+'$ccache', }'$triplet-g++']
ar = '$triplet-ar'
nm = '$triplet-nm'
objcopy = '$triplet-objcopy'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-cpu', 'cortex-a72', '-L', '$sysroot']

[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/$triplet/pkgconfig:$sysroot/usr/share/pkgconfig'
needs_exe_wrapper = true

[built-in options]
cpp_args = ['--sysroot=$sysroot']
cpp_link_args = ['--sysroot=$sysroot']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
EOF
}

# Arguments are options of `meson setup`, as -Doptimization=1, which compiles in half the time.
platform_setup() {
  # The machine's own choice of OpenBLAS's kernels is no choice for another processor.
  unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
  get_tools
  get_sysroot
  [ ! -f build-aarch64/build.ninja ] || return 0
  write_cross_file
  meson setup build-aarch64 --cross-file "$root/cross.ini" --wrap-mode nodownload \
    -Dcuda=disabled -Dhtml_docs=disabled "$@"
}

platform_build() {
  platform_setup
  ninja -C build-aarch64 "$@"
}

# Tests start programs of this build by themselves: the kernel has to run these by the emulator.
let_kernel_run_programs() {
  QEMU_LD_PREFIX=$sysroot QEMU_CPU=cortex-a72
  export QEMU_LD_PREFIX QEMU_CPU
  formats=/proc/sys/fs/binfmt_misc
  ! grep -qs enabled $formats/qemu-aarch64 || return 0
  {
    [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register
  } 2>/dev/null || echo 'The kernel does not run programs for aarch64 by qemu, which takes root and' \
    'binfmt_misc: tests that start programs will fail.' >&2
}

platform_test() {
  platform_setup
  let_kernel_run_programs
  MOONLET_TEST_LEFT_OUT=$PWD/tests/platforms/aarch64_left_out.lua
  CXX="$triplet-g++ --sysroot=$sysroot"  # of extensions
  export MOONLET_TEST_LEFT_OUT CXX
  meson test -C build-aarch64 --timeout-multiplier 20 "$@"
}
