#!/bin/sh
# tests/embed/standards.sh: moonlet/moonlet.h is C++17, moonlet/ops.h C++20, without warnings, by each
# compiler that is installed.  usage: standards.sh SOURCE_FOLDER BUILD_FOLDER LUA
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$3" "$1/interp/package/public_headers.lua" "$1" "$2" "$work/include"
cat >"$work/moonlet.cpp" <<'END'
#include <moonlet/moonlet.h>
#include <type_traits>
static_assert(__cplusplus == 201703L, "another standard");
moonlet::Value first(moonlet::Interpreter& lua, const moonlet::Tensor& x) {
  const moonlet::Values out = lua.call("f", x, 1, 0.5, "text", moonlet::name(x.dtype()));
  const moonlet::Device cpu, same = x.device();
  if (cpu != same || !(cpu == moonlet::Device{})) throw moonlet::Error("not on the CPU");
  return x.data<float>()[0] > out.at(0).as<int>() ? out.at(0) : moonlet::Value(out.at(1).as<double>());
}
int64_t bytes(moonlet::DType dtype) {
  return moonlet::visit(dtype, SizeOf{});
}
END
sed -i 's/^int64_t bytes/struct SizeOf {\n  template <class T>\n  int64_t operator()() const { return sizeof(T); }\n};\nint64_t bytes/' "$work/moonlet.cpp"
cat >"$work/ops.cpp" <<'END'
#include <moonlet/ops.h>
static_assert(__cplusplus == 202002L, "another standard");
moonlet::Tensor twice(const moonlet::Tensor& x) { return moonlet::relu(x * 2); }
END
compiled=0
for compiler in g++ clang++; do
  command -v $compiler >/dev/null 2>&1 || continue
  # A header of the program is not one of the system, whose warnings are not shown.
  $compiler -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$work/include" "$work/moonlet.cpp"
  $compiler -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$work/include" "$work/ops.cpp"
  compiled=$((compiled + 1))
done
[ $compiled -gt 0 ] || {
  echo 'not run: neither g++ nor clang++ is installed'
  exit 77
}
