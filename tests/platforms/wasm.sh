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
# shellcheck source=tests/platforms/compile_files.sh
. "$root/tests/platforms/compile_files.sh"
echo '#define DEB_HOST_MULTIARCH "wasm32"' >"$headers/lua5.4-deb-multiarch.h"

layer="$(ls tensor/core/platform/*_wasm.cpp) tensor/core/platform/charconv.cpp
tensor/core/platform/files_posix.cpp
tensor/core/platform/numeric_locale_posix.cpp tensor/core/platform/streams_posix.cpp
tensor/core/platform/write_file_posix.cpp tensor/core/error.cpp tensor/runtime/execution.cpp
tensor/runtime/interrupt.cpp tests/platforms/wasm_layer.cpp"
files="$layer tensor/core/storage.cpp tensor/io/read_file.cpp
tensor/cpu/common/abandonable.cpp tensor/cpu/reduce/softmax.cpp tensor/cpu/optim/optim_simd.cpp
autograd/engine.cpp interp/cli/page.cpp interp/state/interrupt.cpp interp/state/output.cpp
interp/workers/pool.cpp"
flags=$(em++ --cflags -fwasm-exceptions -msimd128)

# em++ itself would take longer to start than most files take.
compile() {
  # shellcheck disable=SC2086
  clang++-14 $flags $own_flags -Wno-unknown-pragmas -DHWY_COMPILE_ONLY_EMU128 \
    -include tensor/core/platform/wasm_names.h -Itensor/core/platform/wasm_headers -c "$1" -o "$2"
}
# shellcheck disable=SC2086
compile_files WebAssembly $files || exit 1

# shellcheck disable=SC2046,SC2086
em++ -fwasm-exceptions -sEXIT_RUNTIME=1 -sALLOW_MEMORY_GROWTH=1 $(objects_of $layer) \
  -o "$headers/layer.js" || exit 1
node scripts/platforms/wasm_node.js "$headers/layer.js"
