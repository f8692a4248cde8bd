#!/bin/sh
# scripts/platforms.sh: builds Moonlet on Debian for another platform, and runs its tests by an
# emulator. Each platform is a file in scripts/platforms/, which says what it needs; files with _ in
# their names are parts of these.
# usage: sh scripts/platforms.sh PLATFORM [setup|build|test] [ARGUMENT...]
#   setup   gets the platform's compiler and libraries, and sets up the folder build-PLATFORM;
#           arguments are options of `meson setup`
#   build   builds there what the tests need; arguments are targets to build in their place
#   test    builds and runs the tests; arguments are those of `meson test` (default)
set -eu
cd "$(dirname "$0")/.."

usage() {
  sed -n 's/^# usage: /usage: /p; s/^#   /  /p' scripts/platforms.sh >&2
  echo "platforms: $(ls scripts/platforms | sed -n '/_/d; s/\.sh$//p' | tr '\n' ' ')" >&2
  exit 2
}

platform=${1:-}
action=${2:-test}
[ $# -lt 2 ] || shift
[ $# -eq 0 ] || shift
case $platform in '' | *[!a-z0-9]*) usage ;; esac
[ -f "scripts/platforms/$platform.sh" ] || usage
case $action in setup | build | test) ;; *) usage ;; esac

# It defines platform_setup, platform_build and platform_test; each does what comes before it, too.
# shellcheck source=/dev/null
. "scripts/platforms/$platform.sh"
"platform_$action" "$@"
