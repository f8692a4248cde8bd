# scripts/platforms/cross_files.sh: what builds for other platforms fetch and write alike; the files of
# the platforms read it.
# shellcheck shell=sh

debian_mirror=${MOONLET_DEBIAN_MIRROR:-http://deb.debian.org}
debian_key='signed-by=/usr/share/keyrings/debian-archive-keyring.gpg'

# install_packages NAME...: by apt-get. False where this is not root and there is no sudo.
install_packages() {
  as_root=
  [ "$(id -u)" = 0 ] || as_root=$(command -v sudo) || return 1
  echo "Installing them with apt-get: $*"
  { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install \
    -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"; } >/dev/null
}

# Runs apt-get on a record of packages of its own: fetch_packages FOLDER ARCHITECTURE STATUS NAME...
# leaves the packages of that name, and those they depend on that STATUS has not, in FOLDER/cache.
fetch_packages() {
  folder=$1 architecture=$2 status=$3
  shift 3
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/etc/apt.conf.d" \
    "$folder/etc/preferences.d" "$folder/etc/sources.list.d"
  cat >"$folder/etc/sources.list" <<EOF
deb [$debian_key] $debian_mirror/debian bookworm main
deb [$debian_key] $debian_mirror/debian bookworm-updates main
deb [$debian_key] $debian_mirror/debian-security bookworm-security main
EOF
  cat >"$folder/apt.conf" <<EOF
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "0";
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "$folder";
Dir::State::lists "$folder/lists";
Dir::State::status "$status";
Dir::Cache "$folder/cache";
Dir::Etc "$folder/etc";
Dir::Log "$folder";
Debug::NoLocking "1";
EOF
  # shellcheck disable=SC2086
  { APT_CONFIG=$folder/apt.conf apt-get -qq update &&
    APT_CONFIG=$folder/apt.conf apt-get -qq -y --download-only install "$@"
  } >"$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    echo 'apt-get failed; its output is above.' >&2
    exit 1
  }
}

# unpack FOLDER TO: all packages that were fetched to FOLDER. Links to absolute paths, which name the
# same file of the machine, are made relative.
unpack() {
  mkdir -p "$2/usr/bin" "$2/usr/sbin" "$2/usr/lib"
  for name in bin sbin lib; do [ -e "$2/$name" ] || ln -s "usr/$name" "$2/$name"; done
  for package in "$1"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$2" --keep-directory-symlink --no-same-owner
  done
  find "$2" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$2$(readlink "$link")")" "$link"
  done
}

# fetch_sources FOLDER NAME...: leaves the archives of Debian's source packages in FOLDER.
fetch_sources() {
  folder=$1
  shift
  mkdir -p "$folder/lists/partial"
  (
    cd "$folder"
    echo "deb-src [$debian_key] $debian_mirror/debian bookworm main" >sources.list
    lists="-qq -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=/dev/null
      -o Dir::State::lists=$PWD/lists -o APT::Sandbox::User="
    # shellcheck disable=SC2086
    apt-get $lists update && apt-get $lists source --download-only "$@"
  ) >"$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    echo 'apt-get failed; its output is above.' >&2
    exit 1
  }
}

# fetch_lua FOLDER: the archive that subprojects/lua.wrap names, which is Debian's too.
fetch_lua() {
  archive=subprojects/packagecache/lua-5.4.4.tar.gz
  [ ! -f $archive ] || return 0
  fetch_sources "$1" lua5.4
  mkdir -p subprojects/packagecache
  cp "$1"/lua5.4_5.4.4.orig.tar.gz $archive
}

# write_headers ROOT: ROOT/include has those that are the same for every system, and ROOT/pkgconfig
# what pkg-config says of them.
write_headers() {
  mkdir -p "$1/include" "$1/pkgconfig"
  for name in hwy nlohmann stb; do ln -sfn "/usr/include/$name" "$1/include/$name"; done
  for name in libhwy nlohmann_json; do
    printf 'Name: %s\nDescription: headers\nVersion: %s\nCflags: -isystem %s\n' \
      $name "$(pkg-config --modversion $name)" "$1/include" >"$1/pkgconfig/$name.pc"
  done
}
