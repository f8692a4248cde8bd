#!/bin/sh
# tests/lint/clang_format.sh ROOT: the C++ and CUDA sources are as clang-format leaves them.
set -u
cd "$1" || exit 1
# Versions differ in details; the sources follow the one Debian 12 has.
tool=$(command -v clang-format-14 || command -v clang-format) || tool=
case $("${tool:-false}" --version 2>/dev/null) in
  *' 14.'*) ;;
  *) echo "skipped: clang-format 14 is not installed"; exit 77 ;;
esac
list=$(git ls-files -- '*.cpp' '*.h' '*.cu' '*.cuh' 2>/dev/null)
[ -n "$list" ] || { echo "skipped: not a git checkout, so there is no list of files"; exit 77; }
if echo "$list" | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    xargs "$tool" --dry-run -Werror 2>&1; then
  echo "clang-format: $(echo "$list" | wc -l) files are in order"
else
  echo "clang-format: to fix, run $tool -i on the files above"
  exit 1
fi
