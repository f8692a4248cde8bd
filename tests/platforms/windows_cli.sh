#!/bin/sh
# tests/platforms/windows_cli.sh SOURCE BUILD WINE: the tests of the command line with the Windows
# executable, whose lines end in \r\n, and of bundles.
set -eu
source=$1 build=$2 wine=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/moonlet" <<SH
#!/bin/sh
out=\$(mktemp) err=\$(mktemp) code=0
"$wine" "$build/moonlet.exe" "\$@" >"\$out" 2>"\$err" || code=\$?
tr -d '\r' <"\$out"
tr -d '\r' <"\$err" >&2
rm "\$out" "\$err"
exit \$code
SH
chmod +x "$work/moonlet"
sh "$source/tests/cli/cli_test.sh" "$work/moonlet"

# A bundle is one .exe, with modules and mapped weights, and knows when it was changed.
cd "$work"
mkdir part
echo 'return { name = "a module" }' >part/util.lua
cat >app.lua <<'LUA'
local ml = require "moonlet"
local x = ml.load("weights.safetensors").x
print(require("part.util").name, x:sum():item(), #x, ...)
LUA
cat >save.lua <<'LUA'
require("moonlet").save("weights.safetensors", { x = require("moonlet").ones(50000) })
LUA
./moonlet save.lua
./moonlet bundle app.lua weights.safetensors -o app.exe
mkdir elsewhere
mv app.exe elsewhere
cd elsewhere
expected=$(printf 'a module\t50000.0\t50000\tone\ttwo')
got=$("$wine" app.exe one two | tr -d '\r')
[ "$got" = "$expected" ] || { echo "FAILED: a bundle wrote: $got" && exit 1; }
../moonlet bundle --list app.exe | grep -q 'weights\.safetensors'
printf '\1' | dd of=app.exe bs=1 seek=$(($(stat -c %s app.exe) - 100000)) conv=notrunc 2>/dev/null
! "$wine" app.exe one two >out 2>&1
grep -q "is damaged: 'weights.safetensors' in it was changed" out || { cat out && exit 1; }
echo 'the command line and bundles passed'
