#!/bin/sh
# tests/cli/package_test.sh: the .deb files of scripts/package.sh install into a root of their own,
# run, have the examples compiled against them, and leave nothing behind when they are removed.
# usage: package_test.sh FOLDER_OF_DEBS | --build BUILD_FOLDER (of which they are made, loosely packed);
# as root. Of a build folder lintian looks at them only where MOONLET_LONG_TESTS is set. Exit code 77
# where the packages cannot be made or installed here.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip 'dpkg installs packages as root alone'
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture pkg-config patchelf; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
if [ "$1" = --build ]; then
  debs=$work/debs
  grep -q '"name": "b_sanitize", "value": "none"' "$2/meson-info/intro-buildoptions.json" || skip 'the build has sanitizers'
  MOONLET_DEB_LEVEL=0 sh "$source/scripts/package.sh" deb "$2" "$debs" >"$work/made" 2>&1 || {
    cat "$work/made"
    echo 'FAILED: no packages are made'
    exit 1
  }
else
  debs=$(cd "$1" && pwd)
fi
root=$work/root
fail() {
  echo "FAILED: $*"
  exit 1
}
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
: >"$root/var/lib/dpkg/status"
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# What they depend on is in the system's root.
dpkg --root="$root" --force-depends --force-script-chrootless -i "$debs"/*.deb >"$work/log" 2>&1 || {
  cat "$work/log"
  fail 'the packages do not install'
}
"$root/usr/bin/moonlet" -e 'print(require("moonlet").ones(2, 3):sum():item())' | grep -qx 6.0 ||
  fail 'the executable does not run'
if [ -e "$root/usr/share/doc/moonlet-distributed" ]; then
  "$root/usr/bin/moonlet" -e 'assert(require("moonlet").distributed.is_available())' ||
    fail 'the plugin of several processes does not open'
fi
[ -s "$root/usr/share/man/man1/moonlet.1.gz" ] || fail 'no manual page'

export PKG_CONFIG_LIBDIR="$root/usr/lib/$triplet/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
export LD_LIBRARY_PATH="$root/usr/lib/$triplet"
flags=$(pkg-config --cflags --libs moonlet)
count=0
for example in "$source"/scripts/embed_*/*.cpp; do
  case $(sed -n 1,12p "$example") in *moonlet-run*) continue ;; esac
  # shellcheck disable=SC2086
  g++ -std=c++20 -o "$work/example" "$example" $flags || fail "$example does not compile"
  count=$((count + 1))
done
[ "$count" -ge 2 ] || fail "$count examples were found"
cat >"$work/host.cpp" <<'CPP'
#include <cstdio>
#include <moonlet/moonlet.h>
int main() {
  moonlet::Interpreter lua;
  std::printf("%g\n", lua.run_string("return require('moonlet').ones(2, 3):sum():item()")[0].number());
}
CPP
# shellcheck disable=SC2086
g++ -std=c++20 -o "$work/host" "$work/host.cpp" $flags || fail 'a host does not compile'
[ "$("$work/host")" = 6 ] || fail 'a host does not run'

names=$(cd "$debs" && for deb in *.deb; do dpkg-deb -f "$deb" Package; done)
# shellcheck disable=SC2086
dpkg --root="$root" --force-depends --purge $names >"$work/log" 2>&1 || {
  cat "$work/log"
  fail 'the packages cannot be removed'
}
left=$(find "$root/usr" -mindepth 1 2>/dev/null | head -5)
[ -z "$left" ] || fail "these stay behind: $left"
if [ "$1" = --build ] && [ -z "${MOONLET_LONG_TESTS:-}" ]; then
  echo 'left out: lintian, which takes longer than all else, as MOONLET_LONG_TESTS is not set'
elif command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error --tag-display-limit 0 "$debs"/*.deb >"$work/lintian" || {
    grep '^E:' "$work/lintian"
    fail 'lintian finds errors'
  }
  echo "lintian: no errors, $(grep -c '^W:' "$work/lintian") warnings"
else
  echo 'lintian is not installed: its checks were left out'
fi
echo "$count examples compiled"
