# tests/platforms/compile_files.sh: compiles files for a platform, without its libraries, with headers
# that are the same for every system; no others of this one are found. The platforms' tests read it.
# They set `root` and `build`, and define compile FILE OBJECT, with the headers of $headers.
# shellcheck shell=sh disable=SC2154

headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
for name in hwy nlohmann zlib.h; do ln -s "/usr/include/$name" "$headers/$name"; done
cat /usr/include/zconf.h /usr/include/*/zconf.h 2>/dev/null >"$headers/zconf.h"
for name in lua lauxlib lualib luaconf; do ln -s "/usr/include/lua5.4/$name.h" "$headers/$name.h"; done
ln -s /usr/include/lua5.4/lua.hpp "$headers/lua.hpp"

# Warnings are errors. Headers that the build has generated are those of $build.
own_flags="-std=c++20 -O0 -Wall -Wextra -Werror -isystem $headers -I. -I$build -I$build/tensor
-I$build/autograd -I$build/interp"
cd "$root" || exit 1

# Files of two rooms may have one name.
object_of() { echo "$headers/$(echo "${1%.cpp}" | tr / _).o"; }

objects_of() { for file in "$@"; do object_of "$file"; done; }

# compile_files PLATFORM FILE...: false when one of them does not compile.
compile_files() {
  platform=$1 failed=0
  shift
  for file in "$@"; do
    compile "$file" "$(object_of "$file")" || {
      echo "$file: it does not compile for $platform"
      failed=$((failed + 1))
    }
  done
  echo "$# files compiled for $platform, $failed of them in vain"
  [ $failed = 0 ]
}
