#!/bin/sh
# tests/platforms/windows_cli.sh SOURCE BUILD WINE: the tests of the command line with the Windows
# executable, whose lines end in \r\n, of packages of LuaRocks, and of bundles. Ctrl-C is for
# windows_console.sh.
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
MOONLET_TEST_WINDOWS=1 sh "$source/tests/cli/cli_test.sh" "$work/moonlet"

fail() {
  echo "FAILED: $*" && exit 1
}

# What luarocks installs for a user is in the folder that Windows calls APPDATA.
cd "$work"
rock=$(./moonlet -e 'print((os.getenv "APPDATA":gsub("\\", "/")))')/luarocks/share/lua/5.4/moonlet_test_rock
disk=${WINEPREFIX:?}/drive_c
case $rock in C:/*) rock=$disk/${rock#C:/} ;; *) fail "APPDATA is $rock" ;; esac
trap 'rm -rf "$work" "$rock"' EXIT
mkdir -p "$rock"
echo 'return { name = "a rock" }' >"$rock/init.lua"
got=$(./moonlet -e 'print(require("moonlet_test_rock").name)')
[ "$got" = 'a rock' ] || fail "a rock wrote: $got"
if ./moonlet -E -e 'require "moonlet_test_rock"' 2>err; then fail 'a rock was found under -E'; fi
grep -q "module 'moonlet_test_rock' not found" err || fail "$(cat err)"

# A bundle is one .exe, with modules and mapped weights, and knows when it was changed.
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
[ "$got" = "$expected" ] || fail "a bundle wrote: $got"
../moonlet bundle --list app.exe | grep -q 'weights\.safetensors'
printf '\1' | dd of=app.exe bs=1 seek=$(($(stat -c %s app.exe) - 100000)) conv=notrunc 2>/dev/null
if "$wine" app.exe one two >out 2>&1; then fail "$(cat out)"; fi
grep -q "is damaged: 'weights.safetensors' in it was changed" out || fail "$(cat out)"

# Paths may have \ in them; names in the bundle have /.
cd "$work"
mkdir data
cp weights.safetensors data
sed 's/"weights/"data\/weights/' app.lua >part/main.lua
./moonlet bundle --path '?.lua' 'part\main.lua' 'data\weights.safetensors' -o elsewhere/other.exe
got=$(cd elsewhere && "$wine" other.exe one two | tr -d '\r')
[ "$got" = "$expected" ] || fail "a bundle of paths with \\ wrote: $got"
echo 'the command line and bundles passed'
