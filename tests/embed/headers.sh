# tests/embed/headers.sh, read by run.sh: each installed header stands alone, without Lua's headers
# and with nothing but include/ on the path.
include=$prefix/include
[ -f "$include/moonlet/moonlet.h" ] || fail "moonlet.h is not installed"
if find "$include" -mindepth 1 -maxdepth 1 | grep -v '/moonlet$'; then
  fail "something beside include/moonlet is installed"
fi
if grep -rnE '#include ("(tensor|autograd|interp)/|[<"](lua|lualib|lauxlib)\.h)' "$include"; then
  fail "an installed header includes what a host does not have"
fi
# The generated ones are many and alike: ops.h includes them all.
for header in $(cd "$include" && find moonlet -name '*.h' ! -name 'ops_*'); do
  echo "#include <$header>" >header.cpp
  ${CXX:-c++} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$include" header.cpp ||
    fail "$header does not stand alone"
done
cat >version.cpp <<'EOF'
#include <moonlet/version.h>
static_assert(MOONLET_VERSION_NUMBER >= MOONLET_MAKE_VERSION(0, 1, 0));
static_assert(MOONLET_VERSION_MAJOR == 0 && MOONLET_VERSION_STRING[0] == '0');
EOF
${CXX:-c++} -std=c++20 -fsyntax-only -I"$include" version.cpp || fail "version.h"
