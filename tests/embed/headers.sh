# tests/embed/headers.sh, read by run.sh: each installed header stands alone, without Lua's headers
# and with nothing but include/ on the path, and no file of a host is taken for one.
include=$prefix/include
[ -f "$include/moonlet/moonlet.h" ] || fail "moonlet.h is not installed"
if find "$include" -mindepth 1 -maxdepth 1 | grep -v '/moonlet$'; then
  fail "something beside include/moonlet is installed"
fi
if grep -rnE '#include ("|<(tensor|autograd|interp)/|<(lua|lualib|lauxlib)\.h)' "$include"; then
  fail "an installed header includes what a host does not have, or may have of its own"
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

# A host may have a file of any of these names: as the source tree has them, and, where only
# includes in quotes look, also as the installed ones are called.
for header in $(cd "$include/moonlet" && find . -name '*.h'); do
  header=${header#./}
  echo "#include <moonlet/$header>" >>all_headers.cpp
  for shadow in "shadows/$header" "shadows/interp/$header" "quoted/moonlet/$header"; do
    mkdir -p "$(dirname "$shadow")"
    echo "#error $shadow is a file of the host" >"$shadow"
  done
done
echo '#include <tensor/tensor.h>' >shadowed.cpp
echo '#include "moonlet/moonlet.h"' >quoted.cpp
set -- -iquote quoted -iquote shadows -Ishadows -I"$include"
for source in shadowed quoted; do
  ! ${CXX:-c++} -std=c++20 -fsyntax-only "$@" "$source.cpp" >/dev/null 2>&1 ||
    fail "$source.cpp finds no file of the host: the next check shows nothing"
done
${CXX:-c++} -std=c++20 -fsyntax-only "$@" all_headers.cpp ||
  fail "an installed header includes a file of the host"
build own-tensor own_tensor/main.cpp moonlet -I"$here/own_tensor"
./own-tensor
