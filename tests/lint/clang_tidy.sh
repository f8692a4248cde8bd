#!/bin/sh
# tests/lint/clang_tidy.sh ROOT BUILD: clang-tidy's checks in .clang-tidy on the tape, the language
# side and the tensor core. The kernels are left out: they are slow to parse, being all templates; so
# are forms for Windows and WebAssembly, whose headers are not here.
set -u
cd "$1" || exit 1
build=$2
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || {
  echo "skipped: clang-tidy is not installed"; exit 77; }
[ -f "$build/compile_commands.json" ] || {
  echo "skipped: there is no compile_commands.json in $build"; exit 77; }
failed=0
find autograd/*.cpp interp/cli interp/embed interp/modules interp/state tensor/core tensor/runtime -name '*.cpp' |
  grep -v '\(windows\|wasm\)[^/]*\.cpp$' | sort |
  xargs -n 1 -P "$(nproc)" "$tool" -p "$build" --quiet --warnings-as-errors='*' \
    2>"$build/clang_tidy_errors.txt" || failed=1
grep -E 'error:' "$build/clang_tidy_errors.txt"
[ $failed = 0 ] && echo "clang-tidy: nothing found"
exit $failed
