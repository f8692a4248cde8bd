#!/bin/sh
# tests/cli/bundle_test.sh: one file of an executable, scripts and files: what is found in it, what
# it says of itself, and that a byte that was changed is told.
# usage: bundle_test.sh MOONLET SCRIPTS_FOLDER
# With MOONLET linked statically the bundle also runs in an empty root, as root.
moonlet=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
scripts=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src" "$work/away"
cd "$work/src" || exit 1
unset LUA_INIT LUA_INIT_5_4 LUA_PATH
failed=0
count=0

# check NAME CODE STDOUT-PATTERN STDERR-PATTERN COMMAND...   (patterns: case)
check() {
  name=$1 code=$2 out=$3 err=$4
  shift 4
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  count=$((count + 1))
  good=yes
  [ "$got" = "$code" ] || good=no
  # shellcheck disable=SC2254
  case "$(cat "$work/out")" in $out) ;; *) good=no ;; esac
  # shellcheck disable=SC2254
  case "$(cat "$work/err")" in $err) ;; *) good=no ;; esac
  [ $good = yes ] && return
  failed=$((failed + 1))
  printf 'FAILED: %s: exit code %s\n--- stdout\n%s\n--- stderr\n%s\n' "$name" "$got" \
    "$(cat "$work/out")" "$(cat "$work/err")"
}

# --- an application -------------------------------------------------------------------------------

mkdir -p lib data/more vendor
cat >app.lua <<'LUA'
#!/usr/bin/env moonlet
local ml = require "moonlet"
local util = require("lib.util")
local near = require 'near'
local absent = pcall(require, "not.there") -- require "in.a.comment"
local text = "require 'in.a.string'"
local w = ml.load("weights.safetensors").w
assert(w:sum():item() == 100000, "weights")
w:add_(1) -- a change stays in this process
assert(ml.load("./weights.safetensors").w:sum():item() == 100000, "weights again")
local file = assert(io.open("data/notes.txt"))
assert(file:read "a" == "one\ntwo\n" and file:close())
local lines = {}
for line in io.lines "data/notes.txt" do lines[#lines + 1] = line end
assert(#lines == 2 and lines[2] == "two")
assert(dofile("extra.lua") == "extra")
local system = require "moonlet.system"
assert(system.exists "data" == "directory" and system.exists "data/more/deep.txt" == "file")
local names = system.list "data"
table.sort(names)
assert(table.concat(names, " ") == "more/ notes.txt", table.concat(names, " "))
assert(not pcall(ml.save, "weights.safetensors", { w = w }))
print(arg[0] ~= nil, #arg, ...)
print(util.name, near, absent, text ~= nil, debug.getinfo(1, "S").source)
if arg[1] == "fail" then util.fail() end
if arg[1] == "maps" then
  for line in io.lines "/proc/self/maps" do
    if line:find(arg[2], 1, true) and line:find("rw-p", 1, true) then print("mapped") break end
  end
end
if arg[1] == "load" then
  local part = ml.data.DataLoader({ 1, 2, 3, 4 }, { num_workers = 1, collate_fn = function(batch)
    return ml.tensor(batch) + require("moonlet").load("weights.safetensors").w[1]
  end })
  local sum = 0
  for batch in part:iter() do sum = sum + batch:sum():item() end
  print("workers", sum)
end
LUA
cat >lib/util.lua <<'LUA'
local util = { name = "util" }

function util.fail()
  local nothing
  return nothing.field
end

return util
LUA
echo 'return (require "lib.part")' >near.lua
mkdir lib/part
echo 'return "part"' >lib/part/init.lua
echo 'return "extra"' >extra.lua
printf 'one\ntwo\n' >data/notes.txt
echo deep >data/more/deep.txt
"$moonlet" -e 'require("moonlet").save("weights.safetensors", { w = require("moonlet").ones(100000) })'

app=$work/away/app
check 'bundle' 0 '' '' "$moonlet" bundle app.lua weights.safetensors data -o "$app"
cd "$work/away" || exit 1
tab=$(printf '\t')
check 'run elsewhere' 0 "true${tab}2${tab}a${tab}-x?util${tab}part${tab}false${tab}true${tab}@app.lua" \
  '' ./app a -x
check 'options are the script'"'"'s' 0 "true${tab}1${tab}--help*" '' ./app --help
check 'an error has the line' 1 '*' \
  "moonlet: lib/util.lua:5: attempt to index a nil value (local 'nothing')*stack traceback:*app.lua:25:*" \
  ./app fail
check 'weights are mapped' 0 '*mapped' '' ./app maps "$app"
check 'workers' 0 "*workers${tab}14*" '' ./app load
LUA_INIT='error "no"' MOONLET_STDLIB=/nowhere check 'the environment changes nothing' 0 '*' '' ./app
mkdir "$work/path"
cp app "$work/path/in path"
check 'found by the path' 0 "true${tab}0*" '' env "PATH=$work/path:$PATH" 'in path'
check 'list' 0 '*executable*main*app.lua*script*lib/util.lua*file*weights.safetensors*' '' \
  "$moonlet" bundle --list app
check 'check' 0 '' '' "$moonlet" bundle --check app
check 'extract' 0 '' '' "$moonlet" bundle --extract app -o taken
count=$((count + 1))
cmp -s taken/weights.safetensors ../src/weights.safetensors && cmp -s taken/data/notes.txt \
  ../src/data/notes.txt || { failed=$((failed + 1)) && echo 'FAILED: what was taken out differs'; }
check 'an option that a list has not' 1 '' "moonlet: bundle: '--library' is for bundles that are written" \
  "$moonlet" bundle --list app --library
check 'a plain executable has none' 1 '' "*there is no bundle in it*" "$moonlet" bundle --list "$moonlet"
check 'no bundle of a bundle' 1 '' "*has a bundle already" \
  "$moonlet" bundle ../src/extra.lua --executable app -o again
check 'no executable' 1 '' "*is no executable of moonlet's" \
  "$moonlet" bundle ../src/extra.lua --executable /bin/sh -o again

# --- changed bytes --------------------------------------------------------------------------------

cat >change.lua <<'LUA'
-- change.lua FILE AT: another byte at that position.
local file = assert(io.open(arg[1], "r+b"))
local at = math.tointeger(arg[2])
file:seek("set", at)
local byte = file:read(1):byte()
file:seek("set", at)
file:write(string.char(byte ~ 1))
file:close()
LUA
# where NAME: the position of an entry in the bundle.
where() { "$moonlet" bundle --list app | awk -v name="$1" '$NF == name { print $2 }'; }
# changed NAME POSITION OUT ERROR: what the executable says with another byte there.
changed() {
  cp app bad
  "$moonlet" change.lua bad "$2"
  check "$1" 1 "$3" "$4" ./bad
  check "$1, --check" 1 '' "*'bad'*damaged*" "$moonlet" bundle --check bad
}
size=$(wc -c <app)
mark=$(grep -obaUP 'Moonlet bundle\n' app 2>/dev/null | head -1 | cut -d: -f1)
[ -n "$mark" ] || mark=$("$moonlet" -e 'local f = io.open("app", "rb"):read "a"
  print((f:find("Moonlet bundle\n\x8d\x1a", 1, true)) - 1)')
text=$("$moonlet" -e 'local f = io.open("app", "rb"):read "a"
  print((f:find("stack traceback:", 1, true)) - 1)')
changed 'a byte of the mark' $((mark + 3)) '' "moonlet: './bad' is damaged: its header*"
changed 'a byte of the header' $((mark + 50)) '' "moonlet: './bad' is damaged: its header*"
changed 'a byte of the hash' $((mark + 120)) '' "moonlet: './bad' is damaged: its header*"
changed 'a byte of the executable' "$text" '' \
  "moonlet: './bad' is damaged: the executable in it was changed: bytes * to * are not*"
changed 'a byte of the script' $(($(where app.lua) + 40)) '' \
  "moonlet: *'./bad' is damaged: 'app.lua' in it was changed: bytes $(where app.lua) to *"
changed 'a byte of a module' $(($(where lib/util.lua) + 40)) '' "*'lib/util.lua' in it was changed*"
changed 'a byte of the weights' $(($(where weights.safetensors) + 300000)) '' \
  "*'weights.safetensors' in it was changed*"
changed 'a byte of the index' $((size - 5)) '' "moonlet: './bad' is damaged: its index is damaged*"
head -c $((size - 1)) app >bad
check 'cut off' 1 '' "moonlet: './bad' is damaged: it is cut off: it has $((size - 1)) bytes of $size" ./bad
head -c $(($(where app.lua) + 10)) app >bad
check 'cut off in a script' 1 '' "moonlet: './bad' is damaged: it is cut off*" ./bad
cp app bad && echo more >>bad
check 'appended' 1 '' "moonlet: './bad' is damaged: it has 5 bytes behind its end at $size" ./bad

# --- what is refused ------------------------------------------------------------------------------

cd ../src || exit 1
echo 'require "no.such"' >bad.lua
check 'a missing module' 1 '' "*bundle: bad.lua:1: module 'no.such' is not found*" \
  "$moonlet" bundle bad.lua -o ../away/x
echo 'print(require("torch").ones(2):sum())' >torch7.lua
check 'a module that is found last' 0 '' '' "$moonlet" bundle torch7.lua -o ../away/torch7
check 'it is there' 0 2.0 '' ../away/torch7
printf 'local name = "near"\nreturn require(name)\n' >computed.lua
check 'a computed name' 0 '' "bundle: computed.lua:2: which module*--module" \
  "$moonlet" bundle computed.lua -o ../away/computed
check 'its module is not there' 1 '' "*module 'near' not found*" sh -c 'cd ../away && ./computed'
check 'a module by name' 0 '' '*' "$moonlet" bundle computed.lua --module near -o ../away/computed
check 'its module' 0 '' '' sh -c 'cd ../away && ./computed'
echo 'x = = 1' >wrong.lua
check 'a syntax error' 1 '' "*bundle: wrong.lua:1: unexpected symbol near '='" \
  "$moonlet" bundle wrong.lua -o ../away/x
check 'a path above' 1 '' "*'../away/app' is not below this folder: expected PATH=NAME*" \
  "$moonlet" bundle extra.lua ../away/app -o ../away/x
check 'no such file' 1 '' "*there is no file 'nope'" "$moonlet" bundle extra.lua nope -o ../away/x
echo 'require "near"' >kept.lua
ln -s near.lua linked.lua
for part in kept.lua ./kept.lua "$PWD/kept.lua" linked.lua data/notes.txt; do
  check "over $part" 1 '' "moonlet: bundle: '$part' is a part of the bundle, and would be written over*" \
    "$moonlet" bundle kept.lua data -o "$part"
done
mkdir "$work/beside" "$work/build-windows"
cp "$moonlet" "$work/beside/moonlet"
cp "$moonlet" "$work/beside/moonlet-aarch64"
check 'an executable of this machine' 1 '' "*moonlet-aarch64' is no executable for aarch64" \
  "$work/beside/moonlet" bundle extra.lua --target aarch64 -o ../away/x
printf '\267' | dd of="$work/beside/moonlet-aarch64" bs=1 seek=18 conv=notrunc 2>"$work/dd"
check 'for another machine' 0 '' '' "$work/beside/moonlet" bundle extra.lua --target aarch64 -o ../away/other
check 'list of that' 0 '*executable*main*extra.lua*' '' "$moonlet" bundle --list ../away/other
check 'no executable for it' 1 '' \
  "*there is no moonlet for windows: expected *moonlet-windows.exe or *build-windows/moonlet.exe*platforms.sh*" \
  "$work/beside/moonlet" bundle extra.lua --target windows -o ../away/x
echo MZ >"$work/build-windows/moonlet.exe"
check 'what is none' 1 '' "*build-windows/moonlet.exe' is no executable for windows" \
  "$work/beside/moonlet" bundle extra.lua --target windows -o ../away/x
check 'an unknown platform' 1 '' "*--target must be aarch64 or windows *got 'window'; did you mean 'windows'?" \
  "$moonlet" bundle extra.lua --target window -o ../away/x
check 'two executables' 1 '' "*expected one of --library, --executable and --target" \
  "$moonlet" bundle extra.lua --target windows --library -o ../away/x
cp "$moonlet" "$work/copy"
check 'over the executable' 1 '' "*is a part of the bundle*" \
  "$moonlet" bundle extra.lua --executable "$work/copy" -o "$work/copy"
check 'a script that is not there' 1 '' "moonlet: bundle: 'none.lua': No such file or directory" \
  "$moonlet" bundle none.lua -o ../away/x
check 'no output' 1 '' '*expected -o FILE' "$moonlet" bundle extra.lua
check 'an unknown option' 1 '' "*unrecognized option '--nope'*" "$moonlet" bundle --nope
count=$((count + 1))
[ ! -e ../away/x ] || { failed=$((failed + 1)) && echo 'FAILED: a refused bundle was written'; }

echo 'print(io.open("renamed/a.txt"):read "a", (io.open "two.txt"):read "a")' >names.lua
echo deep >other.txt
check 'globs and other names' 0 '' '' \
  "$moonlet" bundle names.lua 'data/*.txt' data/more=renamed other.txt=two.txt -o ../away/names
check 'list of these' 0 '*data/notes.txt*renamed/deep.txt*two.txt*' '' \
  "$moonlet" bundle --list ../away/names
echo 'return "vendored"' >vendor/dep.lua
echo 'print((require "dep"))' >uses.lua
check 'another path' 0 '' '' "$moonlet" bundle uses.lua --path 'vendor/?.lua' -o ../away/uses
check 'its module there' 0 vendored '' sh -c 'cd ../away && ./uses'
check 'text scripts' 0 '' '' "$moonlet" bundle extra.lua --source --library -o ../away/lib.bundle
check 'extract text' 0 '' '' "$moonlet" bundle --extract ../away/lib.bundle -o ../away/text
count=$((count + 1))
cmp -s ../away/text/extra.lua extra.lua ||
  { failed=$((failed + 1)) && echo 'FAILED: the text of a script differs'; }

# --- plugins --------------------------------------------------------------------------------------

# Whether a bundle has the plugin opened from its copy in memory, where none lies beside it.
build=$(dirname "$moonlet")
cat >plugin.lua <<'LUA'
local ml = require "moonlet"
local ok, message = pcall(load(arg[1]), ml)
local from_memory = false
for line in io.lines "/proc/self/maps" do from_memory = from_memory or line:find "memfd" ~= nil end
print(ok, from_memory, message)
LUA
# plugin NAME FILE CODE PATTERN-WITHOUT
plugin() {
  if [ ! -e "$build/$2" ]; then
    echo "left out: the plugin $1, which was not built"
    return
  fi
  check "bundle with $1" 0 '' '' "$moonlet" bundle plugin.lua --plugin "$1" -o ../away/with
  check "bundle without $1" 0 '' '' "$moonlet" bundle plugin.lua -o ../away/without
  check "list with $1" 0 "*plugin*moonlet-$1.so*" '' "$moonlet" bundle --list ../away/with
  check "$1 from a bundle" 0 "true${tab}true*" '' sh -c 'cd ../away && "$@"' sh ./with "$3"
  check "no $1" 0 "false${tab}false${tab}$4" '' sh -c 'cd ../away && "$@"' sh ./without "$3"
}
plugin onnx interp/onnx/moonlet-onnx.so 'local ml = ...
  local path = os.tmpname()
  ml.onnx.export(ml.nn.ReLU(), ml.ones(1, 3), path)
  ml.onnx.check_model(path)
  os.remove(path)' "*there is no moonlet-onnx.so*"
LD_LIBRARY_PATH=$build/cuda/emulated plugin cuda cuda/moonlet-cuda.so \
  'local ml = ... assert(ml.ones(2, { device = "cuda" }):sum():item() == 2)' '*without the CUDA backend*'
plugin distributed interp/distributed/moonlet-distributed.so \
  'local ml = ... assert(ml.distributed.is_available())' '*there is no moonlet-distributed.so*'
# A static executable says that it opens none at all.
case $("$moonlet" bundle plugin.lua --plugin nope -o ../away/x 2>&1) in
  *'linked statically, so it opens no plugins') wrong='*linked statically, so it opens no plugins' ;;
  *) wrong="*there is no plugin 'nope'*" ;;
esac
check 'an unknown plugin' 1 '' "$wrong" "$moonlet" bundle plugin.lua --plugin nope -o ../away/x

# --- a model and its weights ----------------------------------------------------------------------

mkdir ../gpt
cd ../gpt || exit 1
cp "$scripts/char_gpt.lua" .
seq 1 2000 >text.txt
small='--dim 32 --heads 2 --layers 1 --window 16'
# shellcheck disable=SC2086
check 'a model is trained' 0 '*' '*' "$moonlet" char_gpt.lua text.txt --epochs 1 --length 5 $small
check 'its bundle' 0 '' '' "$moonlet" bundle char_gpt.lua text.txt char_gpt.ckpt -o ../away/gpt
cd ../away || exit 1
# shellcheck disable=SC2086
check 'it writes' 0 '*' '*' ./gpt text.txt --resume --epochs 1 --length 5 $small
at=$("$moonlet" bundle --list gpt | awk '$NF == "char_gpt.ckpt" { print $2 }')
cp gpt bad
"$moonlet" change.lua bad $((at + 20000))
# shellcheck disable=SC2086
check 'a changed weight' 1 '*' "*'char_gpt.ckpt' in it was changed*" ./bad text.txt --resume --epochs 1 $small
if ldd "$moonlet" >/dev/null 2>&1; then
  echo 'left out: an empty root, as the executable is not linked statically'
elif [ "$(id -u)" != 0 ]; then
  echo 'left out: an empty root, which root alone may enter'
else
  mkdir ../empty
  cp gpt ../empty
  # shellcheck disable=SC2086
  check 'in an empty root' 0 '*' '*' chroot ../empty /gpt text.txt --resume --epochs 1 --length 5 $small
fi

echo "$count checks, $failed failed"
[ $failed = 0 ]
