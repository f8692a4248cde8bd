#!/bin/sh
# scripts/package.sh: packages of a build: .deb files (moonlet, libmoonlet0, libmoonlet-dev and, where
# their plugins were built, moonlet-distributed, moonlet-mpi and moonlet-cuda), or a .tar.xz of one
# executable that needs no library.
# usage: sh scripts/package.sh deb|tar BUILD_FOLDER OUTPUT_FOLDER [MESON_OPTION...]
# The build folder is set up where it is not there: for Debian's folders, or with -Dstatic=true. What another
# prefix was set up for is moved to /usr. With -Dblas=bundled the .tar.xz has no OpenBLAS.
# DEBFULLNAME and DEBEMAIL say who maintains the packages.
set -eu
cd "$(dirname "$0")/.."
source=$PWD
usage() {
  sed -n 's/^# \(usage: .*\)/\1/p' scripts/package.sh >&2
  exit 1
}
[ $# -ge 3 ] || usage
kind=$1
build=$2
mkdir -p "$3"
output=$(cd "$3" && pwd)
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n "s/^  version: '\([^']*\)'.*/\1/p" meson.build)

# option NAME: its value in the build folder.
option() {
  sed 's/}, {/\n/g' "$build/meson-info/intro-buildoptions.json" |
    sed -n "s/.*\"name\": \"$1\", \"value\": \"\([^\"]*\)\".*/\1/p"
}

set_up() {
  [ -f "$build/build.ninja" ] || meson setup "$build" -Dtests=false "$@" >"$work/setup" 2>&1 || {
    cat "$work/setup" >&2
    exit 1
  }
}

# --- .deb ----------------------------------------------------------------------------------------

# drop_run_path FILE...: which build of OpenBLAS is loaded is the choice of the system's alternatives, as
# Debian's policy has it; what lies beside a plugin ($ORIGIN) is still found there.
drop_run_path() {
  for file; do
    run_path=$(patchelf --print-rpath "$file") || exit 1
    own=$(printf '%s' "$run_path" | tr ':' '\n' | grep '^\$ORIGIN' | paste -sd: || true)
    if [ -n "$own" ]; then
      patchelf --set-rpath "$own" "$file"
    else
      patchelf --remove-rpath "$file"
    fi
  done
}

# take PACKAGE PATH...: moves what was installed into the folder of a package.
take() {
  package=$1
  shift
  for path; do
    [ -e "$work/all/$path" ] || [ -L "$work/all/$path" ] || continue
    mkdir -p "$work/$package/$(dirname "$path")"
    mv "$work/all/$path" "$work/$package/$path"
  done
}

copyright() {
  echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: moonlet
Source: https://github.com/moonlet/moonlet

Files: *
Copyright: The authors of Moonlet
License: Expat'
  sed -e 's/^$/./' -e 's/^/ /' LICENSE
}

# The libraries that the files of a package need, as Debian names their packages.
needed() {
  mkdir -p "$work/shlibs/debian"
  printf 'Source: moonlet\n\nPackage: moonlet\nArchitecture: any\n' >"$work/shlibs/debian/control"
  files=$(find "$work/$1/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \))
  # The packages' own libraries, which no installed package has.
  for file in $files; do
    (cd "$work/shlibs" && dpkg-shlibdeps --ignore-missing-info -O -l"$work/libmoonlet0/usr/lib/$triplet" \
      -e"$file" 2>/dev/null)
  done | sed -n 's/^shlibs:Depends=//p' | tr ',' '\n' | sed 's/^ *//; s/ *$//' | grep -v '^libmoonlet' |
    sed 's/^libopenblas0$/libopenblas0-openmp | libopenblas0/' | LC_ALL=C sort -uV | awk '
      { name = $1
        # Of several versions of a package the last, which is the highest here.
        of[name] = $0 }
      END { for (name in of) print of[name] }' | LC_ALL=C sort | paste -sd, | sed 's/,/, /g'
}

# build_deb PACKAGE SECTION DEPENDS SUMMARY: writes the .deb of the folder. The description is on
# standard input.
build_deb() {
  folder=$work/$1
  doc=$folder/usr/share/doc/$1
  mkdir -p "$folder/DEBIAN" "$doc"
  copyright >"$doc/copyright"
  printf 'moonlet (%s-1) unstable; urgency=medium\n\n  * See the changes of this version in CHANGELOG.md.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$stamp")" | gzip -9n >"$doc/changelog.Debian.gz"
  find "$folder" -type d -exec chmod 755 {} +
  find "$folder" -type f ! -path '*/bin/*' -exec chmod 644 {} +
  (cd "$folder" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  {
    printf 'Package: %s\nSource: moonlet\nVersion: %s-1\nArchitecture: %s\n' "$1" "$version" "$arch"
    printf 'Maintainer: %s\nInstalled-Size: %s\n' "$maintainer" "$(du -sk "$folder/usr" | cut -f1)"
    [ -z "$3" ] || printf 'Depends: %s\n' "$3"
    printf 'Section: %s\nPriority: optional\n' "$2"
    [ "$1" != moonlet ] || echo 'Recommends: libmoonlet0'
    printf 'Description: %s\n' "$4"
    sed 's/^/ /'
  } >"$folder/DEBIAN/control"
  dpkg-deb --root-owner-group -Zxz -z"${MOONLET_DEB_LEVEL:-6}" -b "$folder" "$output/$1_$version-1_$arch.deb" >/dev/null
  echo "$output/$1_$version-1_$arch.deb"
}

# build_plugin PACKAGE SECTION SUMMARY: the same of a plugin, where it was built.
build_plugin() {
  [ ! -d "$work/$1" ] ||
    build_deb "$1" "$2" "moonlet (= $version-1) | libmoonlet0 (= $version-1), $(needed "$1")" "$3"
}

make_debs() {
  command -v patchelf >/dev/null || { echo 'package.sh: patchelf is missing: install it' >&2; exit 1; }
  triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  arch=$(dpkg-architecture -qDEB_HOST_ARCH)
  maintainer=${DEBFULLNAME:-Moonlet} && maintainer="$maintainer <${DEBEMAIL:-moonlet@example.org}>"
  stamp=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
  set_up --prefix=/usr --libdir="lib/$triplet" "$@"
  ninja -C "$build" -j "${MOONLET_JOBS:-2}" >"$work/log" || { cat "$work/log" >&2; exit 1; }
  [ "$(option libdir)" = "lib/$triplet" ] ||
    { echo "package.sh: the libraries of $build are for $(option libdir), expected lib/$triplet" >&2; exit 1; }
  DESTDIR=$work/all meson install -C "$build" --no-rebuild --quiet >/dev/null
  prefix=$(option prefix)
  if [ "$prefix" != /usr ]; then
    mv "$work/all$prefix" "$work/moved"
    rm -rf "$work/all"
    mkdir "$work/all"
    mv "$work/moved" "$work/all/usr"
    sed -i 's|^prefix=.*|prefix=/usr|' "$work/all/usr/lib/$triplet"/pkgconfig/*.pc
  fi

  lib=usr/lib/$triplet
  strip --remove-section=.comment --remove-section=.note "$work/all/usr/bin/moonlet"
  find "$work/all/usr/lib" -name '*.so*' -type f -exec strip --strip-unneeded \
    --remove-section=.comment --remove-section=.note {} +
  find "$work/all/usr/bin" "$work/all/usr/lib" -type f \( -name moonlet -o -name '*.so*' \) >"$work/elf"
  while read -r file; do drop_run_path "$file"; done <"$work/elf"
  find "$work/all/usr/lib" -name '*.a' -exec strip --strip-debug --enable-deterministic-archives {} +
  take libmoonlet0 "$lib/moonlet/moonlet-onnx.so"
  take moonlet-distributed "$lib/moonlet/moonlet-distributed.so"
  take moonlet-mpi "$lib/moonlet/moonlet-distributed-mpi.so"
  # The plugin, and what stands in for NVIDIA's libraries where it is emulated.
  [ ! -e "$work/all/$lib/moonlet/moonlet-cuda.so" ] || take moonlet-cuda "$lib/moonlet"
  take libmoonlet-dev usr/include "$lib/pkgconfig" usr/lib/cmake "$lib/libmoonlet.so" \
    "$lib/libmoonlet-lua.so" "$lib/libmoonlet-run.so" "$lib/libmoonlet.a" "$lib/libmoonlet-run.a"
  for path in "$work/all/$lib"/*.so.* "$work/all/usr/lib/lua"; do take libmoonlet0 "${path#"$work/all/"}"; done
  mkdir -p "$work/all/usr/share/doc/moonlet"
  take moonlet usr/bin usr/share
  mkdir -p "$work/moonlet/usr/share/man/man1"
  man_page | gzip -9n >"$work/moonlet/usr/share/man/man1/moonlet.1.gz"

  # As short as Debian's policy wants it.
  ln -sf "../../$triplet/libmoonlet-lua.so.0" "$work/libmoonlet0/usr/lib/lua/5.4/moonlet.so"
  mkdir -p "$work/libmoonlet0/DEBIAN"
  printf 'libmoonlet 0 libmoonlet0 (>= %s)\nlibmoonlet-lua 0 libmoonlet0 (>= %s)\nlibmoonlet-run 0 libmoonlet0 (>= %s)\n' \
    "$version" "$version" "$version" >"$work/libmoonlet0/DEBIAN/shlibs"
  echo 'activate-noawait ldconfig' >"$work/libmoonlet0/DEBIAN/triggers"
  chmod 644 "$work/libmoonlet0/DEBIAN/shlibs" "$work/libmoonlet0/DEBIAN/triggers"

  build_deb moonlet interpreters "$(needed moonlet)" 'Lua with tensors and automatic differentiation' <<'TEXT'
Lua 5.4 with a built-in tensor type, a tape that differentiates what was
written, and a standard library for training: one executable that runs
scripts and is a prompt.
TEXT
  build_deb libmoonlet0 libs "$(needed libmoonlet0)" 'tensors and Lua for C and C++ programs - library' <<'TEXT'
Lua 5.4 with a built-in tensor type and automatic differentiation, as
libraries for programs in C and C++, and as a module for Lua.
TEXT
  build_deb libmoonlet-dev libdevel "libmoonlet0 (= $version-1), libstdc++-dev | libstdc++-12-dev, zlib1g-dev" \
    'tensors and Lua for C and C++ programs - headers' <<'TEXT'
Headers, static libraries, and the files by which pkg-config and CMake
find libmoonlet.
TEXT
  build_plugin moonlet-distributed net 'training by several processes for Moonlet' <<'TEXT'
The plugin that moonlet and libmoonlet open when a script first asks for
more than one process: collectives over TCP, by Gloo.
TEXT
  build_plugin moonlet-mpi net 'training by several processes over MPI for Moonlet' <<'TEXT'
The plugin that moonlet and libmoonlet open when a script asks for process
groups over MPI.
TEXT
  build_plugin moonlet-cuda science 'tensors on NVIDIA GPUs for Moonlet' <<'TEXT'
The plugin that moonlet and libmoonlet open when a script first names a
CUDA device.
TEXT
}

man_page() {
  printf '.TH MOONLET 1 "" "moonlet %s" "User Commands"\n.SH NAME\nmoonlet \\- Lua with tensors and automatic differentiation\n' "$version"
  printf '.SH SYNOPSIS\n.nf\n'
  "$build/moonlet" --help | sed -e 's/\\/\\\\/g' -e 's/^\./\\\&./' -e "s/^'/\\\\\&'/" -e 's/-/\\-/g'
  printf '.fi\n.SH SEE ALSO\nThe documents in /usr/share/doc/moonlet.\n'
}

# --- .tar.xz -------------------------------------------------------------------------------------

make_tar() {
  set_up -Dstatic=true -Dcuda=disabled -Donnx=disabled -Dhtml_docs=disabled "$@"
  ninja -C "$build" -j "${MOONLET_JOBS:-2}" moonlet interp/reference.lua >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  name=moonlet-$version-$(uname -m)-linux-$(option blas)
  mkdir -p "$work/$name/docs"
  strip -o "$work/$name/moonlet" "$build/moonlet"
  cp README.md LICENSE CHANGELOG.md "$work/$name"
  cp docs/*.md "$work/$name/docs"
  cp "$build/interp/op_stubs.lua" "$work/$name"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$output/$name.tar.xz" "$name"
  echo "$output/$name.tar.xz"
}

case $kind in
  deb) make_debs "$@" ;;
  tar) make_tar "$@" ;;
  *) usage ;;
esac
