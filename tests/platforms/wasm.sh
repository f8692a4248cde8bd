#!/bin/sh
# tests/platforms/wasm.sh ROOT BUILD: some files compile for WebAssembly, without its libraries: what
# the platform layer has for it, those that use the layer most, kernels, the tape and the page's
# prompt; and the layer does what it says under node (wasm_layer.cpp). Headers that the build has
# generated are those of BUILD. Everything is built and tested by scripts/platforms.sh.
set -u
command -v em++ >/dev/null || {
  echo 'skipped: em++ is not installed (Debian: emscripten)'
  exit 77
}
root=$1 build=$2
# Headers that are the same for every system; no others of this one may be found.
headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
for name in hwy nlohmann zlib.h; do ln -s "/usr/include/$name" "$headers/$name"; done
cat /usr/include/zconf.h /usr/include/*/zconf.h 2>/dev/null >"$headers/zconf.h"
for name in lua lauxlib lualib luaconf; do ln -s "/usr/include/lua5.4/$name.h" "$headers/$name.h"; done
ln -s /usr/include/lua5.4/lua.hpp "$headers/lua.hpp"
echo '#define DEB_HOST_MULTIARCH "wasm32"' >"$headers/lua5.4-deb-multiarch.h"

cd "$root" || exit 1
layer="$(ls tensor/core/platform/*_wasm.cpp) tensor/core/platform/files_posix.cpp
tensor/core/platform/numeric_locale_posix.cpp tensor/core/platform/streams_posix.cpp
tensor/core/platform/write_file_posix.cpp tensor/core/error.cpp tensor/runtime/execution.cpp
tensor/runtime/interrupt.cpp tests/platforms/wasm_layer.cpp"
files="$layer tensor/core/storage.cpp tensor/io/read_file.cpp
tensor/cpu/common/abandonable.cpp tensor/cpu/reduce/softmax.cpp tensor/cpu/optim/optim_simd.cpp
autograd/engine.cpp interp/cli/page.cpp interp/state/interrupt.cpp interp/state/output.cpp
interp/workers/pool.cpp"
flags=$(em++ --cflags -fwasm-exceptions -msimd128)
# Files of two rooms may have one name.
object_of() { echo "$headers/$(echo "${1%.cpp}" | tr / _).o"; }
failed=0
for file in $files; do
  # em++ itself would take longer to start than most files take.
  # shellcheck disable=SC2086
  clang++-14 $flags -std=c++20 -O0 -Wall -Wextra -Werror -Wno-unknown-pragmas \
    -DHWY_COMPILE_ONLY_EMU128 -include tensor/core/platform/wasm_names.h \
    -Itensor/core/platform/wasm_headers -isystem "$headers" -I. -I"$build" -I"$build/tensor" \
    -I"$build/autograd" -I"$build/interp" -c "$file" -o "$(object_of "$file")" || {
    echo "$file: it does not compile for WebAssembly"
    failed=$((failed + 1))
  }
done
# shellcheck disable=SC2086
set -- $files
echo "$# files compiled for WebAssembly, $failed of them in vain"
[ $failed = 0 ] || exit 1

objects=$(for file in $layer; do object_of "$file"; done)
# shellcheck disable=SC2086
em++ -fwasm-exceptions -sEXIT_RUNTIME=1 -sALLOW_MEMORY_GROWTH=1 $objects -o "$headers/layer.js" || exit 1
node scripts/platforms/wasm_node.js "$headers/layer.js"
