#!/bin/sh
# tests/cli/cli_test.sh: what a Lua user expects of the command line.  usage: cli_test.sh MOONLET
# MOONLET_TEST_WINDOWS=1: MOONLET is one for Windows, whose own tests are windows_cli.sh and
# windows_console.sh.
moonlet=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset LUA_INIT LUA_INIT_5_4 LUA_PATH MOONLET_STDLIB
failed=0
count=0

# check NAME CODE STDOUT-PATTERN STDERR-PATTERN ARGS...   (stdin: the file `input`; patterns: case)
check() {
  name=$1 code=$2 out=$3 err=$4
  shift 4
  "$moonlet" "$@" <input >out 2>err
  got=$?
  count=$((count + 1))
  good=yes
  [ "$got" = "$code" ] || good=no
  # shellcheck disable=SC2254
  case "$(cat out)" in $out) ;; *) good=no ;; esac
  # shellcheck disable=SC2254
  case "$(cat err)" in $err) ;; *) good=no ;; esac
  [ $good = yes ] && return
  failed=$((failed + 1))
  printf 'FAILED: %s: exit code %s\n--- stdout\n%s\n--- stderr\n%s\n' "$name" "$got" \
    "$(cat out)" "$(cat err)"
}

: >input
cat >args.lua <<'LUA'
print(arg[0], #arg, arg[1], arg[2], arg[-1] ~= nil, ...)
LUA
printf 'local t = nil\nprint(t.x)\n' >broken.lua
printf 'x = = 1\n' >syntax.lua
printf 'return { name = "mod" }\n' >mod.lua
printf '#!/usr/bin/env moonlet\nprint("shebang")\n' >shebang.lua
tab=$(printf '\t')

check 'empty code' 0 '' '' -e ''
check 'code' 0 2 '' -e 'print(1 + 1)'
check 'code joined' 0 2 '' '-eprint(1 + 1)'
check 'several codes' 0 3 '' -e 'x = 1' -e 'print(x + 2)'
check 'script and arguments' 0 "args.lua${tab}2${tab}a${tab}b c${tab}true${tab}a${tab}b c" '' \
  args.lua a 'b c'
check 'code, then script' 0 "1?args.lua*" '' -e 'print(1)' args.lua
check 'arguments that look like options' 0 "*-e${tab}--help*" '' args.lua -e --help
check 'end of options' 0 'args.lua*' '' -- args.lua
check 'shebang line' 0 shebang '' shebang.lua
mkdir -p app/part
echo 'return { name = "beside" }' >app/near.lua
echo 'return "part"' >app/part/init.lua
echo 'print(require("near").name, (require "part"))' >app/main.lua
check 'modules beside the script' 0 "beside${tab}part" '' app/main.lua
check 'modules beside the script by its path' 0 "beside${tab}part" '' "$PWD/app/main.lua"
check 'library' 0 mod '' -l mod -e 'print(mod.name)'
check 'library by another name' 0 mod '' -l m=mod -e 'print(m.name)'
check 'version' 0 'Moonlet *.*.* (Lua 5.4*' '' --version
check 'short version' 0 'Moonlet *' '' -v
check 'help' 0 'usage: moonlet *' '' --help
check 'short help' 0 'usage: moonlet *' '' -h
check 'warnings off' 0 '' '' -e 'warn("careful")'
check 'warnings on' 0 '' 'Lua warning: careful' -W -e 'warn("careful")'

check 'unknown option' 1 '' "moonlet: unrecognized option '-x'*usage:*" -x
check 'unknown long option' 1 '' "*'--nope'*" --nope
check 'missing value' 1 '' "*a value is missing after '-e'*" -e
check 'missing script' 1 '' 'moonlet: cannot open nope.lua*' nope.lua
check 'missing library' 1 '' "moonlet: module 'nope' not found*" -l nope
check 'missing built-in module' 1 '' "*no module 'moonlet.nope' in moonlet's standard library*" \
  -l moonlet.nope
check 'syntax error' 1 '' "moonlet: syntax.lua:1: unexpected symbol near '='" syntax.lua
check 'run-time error' 1 '' \
  "moonlet: broken.lua:2: attempt to index a nil value*stack traceback:*broken.lua:2: in main*" \
  broken.lua
check 'error object' 1 '' 'moonlet: (error object is a table value)*' -e 'error({})'
check 'error object with text' 1 '' 'moonlet: told*' \
  -e 'error(setmetatable({}, {__tostring = function() return "told" end}))'
check 'nothing after an error' 1 '' '*' -e 'error("x")' -e 'print(1)'

check 'exit code' 7 '' '' -e 'os.exit(7)'
check 'exit true' 0 '' '' -e 'os.exit(true)'
check 'exit false' 1 '' '' -e 'os.exit(false)'
check 'exit closes the state' 3 closed '' \
  -e 'setmetatable({}, {__gc = function() print("closed") end}) os.exit(3)'
check 'exit from a coroutine' 4 '' '' -e 'coroutine.wrap(function() os.exit(4) end)()'

echo 'print("from stdin", ...)' >input
check 'stdin without arguments' 0 'from stdin' ''
check 'stdin by a dash' 0 "from stdin${tab}a${tab}b" '' - a b
echo 'error("in stdin")' >input
check 'error on stdin' 1 '' 'moonlet: stdin:1: in stdin*' -
printf '1 + 1\nx = 5\n=x\nfor i = 1, 2 do\nprint(i)\nend\nerror("oops")\n"last"\n' >input
check 'prompt without a terminal' 0 '*2*5*1*2*last*' '*stdin:1: oops*traceback*' -i
check 'script, then prompt' 0 'args.lua*2*5*' '*oops*' -i args.lua
: >input

LUA_INIT='print("init")' check 'LUA_INIT' 0 init '' -e ''
LUA_INIT='print("init")' check 'environment ignored' 0 '' '' -E -e ''
mkdir over
echo 'return "overridden"' >over/class.lua
MOONLET_STDLIB=$work/over check 'stdlib from a folder' 0 overridden '' \
  -e 'print((require "moonlet.class"))'

# What luarocks installs for a user.
test_rocks() {
  mkdir -p home/.luarocks/share/lua/5.4/rock home/.luarocks/lib/lua/5.4
  echo 'return { name = "a rock" }' >home/.luarocks/share/lua/5.4/rock/init.lua
  HOME=$work/home check 'a rock' 0 'a rock' '' -e 'print(require("rock").name)'
  HOME=$work/home check 'C rocks' 0 true '' \
    -e 'print(package.cpath:find("home/.luarocks/lib/lua/5.4/?.so", 1, true) ~= nil)'
  HOME=$work/home check 'no rocks' 1 '' "*module 'rock' not found*" -E -e 'require "rock"'
}
[ -n "${MOONLET_TEST_WINDOWS:-}" ] || test_rocks

# The ops of a run, with those of its gradients.
cat >ops.lua <<'LUA'
local ml = require "moonlet"
local x = ml.ones { 2, requires_grad = true }
x:exp():sum():backward()
print(...)
if ... == "exit" then os.exit(3) end
if ... == "fail" then error "failed" end
LUA
check 'the ops of a run' 0 one '' --record-ops ops ops.lua one
count=$((count + 1))
case $(tr '\n' ' ' <ops) in *'exp '*'mul '*'sum '*) ;; *) failed=$((failed + 1)) && echo "FAILED: $(cat ops)" ;; esac
grep -qx ones ops || { failed=$((failed + 1)) && echo 'FAILED: a composite is not among the ops'; }
cp ops kept && rm ops
check 'the ops of a run that exits' 3 exit '' --record-ops ops ops.lua exit
check 'the ops of a run that fails' 1 fail '*ops.lua:6: failed*' --record-ops ops2 ops.lua fail
count=$((count + 1))
cmp -s ops kept && cmp -s ops2 kept || { failed=$((failed + 1)) && echo 'FAILED: other ops'; }
echo 'print(require("moonlet").ones(1):item())' >input
check 'the ops of standard input' 0 1.0 '' --record-ops ops2
: >input
count=$((count + 1))
grep -qx ones ops2 || { failed=$((failed + 1)) && echo 'FAILED: no ops of a script on standard input'; }
check 'no script for the ops' 1 '' "*a script is missing behind '--record-ops ops.lua'*" --record-ops ops.lua -e 1
check 'no file for the ops' 1 '' "*a value is missing after '--record-ops'*" --record-ops

cat >system.lua <<'LUA'
local system = require "moonlet.system"
system.write_file("data", { "one", "\0", "two" })
assert(system.read_file("data") == "one\0two")
assert(system.exists("data") == "file" and not system.exists("nope"))
assert(system.exists(".") == "directory")
local folder, name = system.split("a/b.c/d.txt")
assert(folder == "a/b.c/" and name == "d.txt")
assert(table.concat({ system.split("d") }, "|") == "|d" and system.split("a/") == "a/")
assert(system.read_file(system.current_folder() .. "/mod.lua") == system.read_file("mod.lua"))
assert(system.read_file("data.gz") == "packed\n")
local function fails(pattern, f, ...)
  local good, message = pcall(f, ...)
  assert(not good and message:find(pattern), message)
end
fails("'nope': No such file", system.read_file, "nope")
fails("cut short", system.read_file, "short.gz")
fails("Is a directory", system.read_file, ".")
fails("'none/x': No such file", system.write_file, "none/x", "")
fails("'%.': Is a directory", system.write_file, ".", "")
assert(system.pid() > 0 and system.clock() > 0)
assert(not system.isatty(0) and system.terminal_size() > 0)
print("good")
LUA
echo packed | gzip -c >data.gz
seq 1 5000 | gzip -c | head -c 900 >short.gz
check 'module moonlet.system' 0 good '' system.lua
count=$((count + 1))
if ls | grep -q tmp; then
  echo 'FAILED: a temporary file stays behind' && failed=$((failed + 1))
fi

# Compiled chunks are loaded only when that was asked for.
cat >dump.lua <<'LUA'
local out = assert(io.open("compiled.lua", "wb"))
out:write(string.dump(function(...) return ..., "compiled" end))
out:close()
LUA
check 'dump' 0 '' '' dump.lua
refusal='*attempt to load a binary chunk*compiled chunks are loaded under --bytecode only*'
check 'a compiled script' 1 '' "$refusal" compiled.lua
cp compiled.lua input
check 'a compiled script on standard input' 1 '' "$refusal" -
: >input
LUA_INIT=@compiled.lua check 'a compiled LUA_INIT' 1 '' "$refusal" -e ''
check 'dofile' 1 '' "$refusal" -e 'dofile "compiled.lua"'
check 'require' 1 '' "*error loading module 'compiled' from file*$refusal" -e 'require "compiled"'
check 'require as option' 1 '' "$refusal" -l compiled
cat >load.lua <<'LUA'
local code = string.dump(function() return 1 end)
local function pieces()
  local at = 0
  return function() at = at + 1 return code:sub(at, at) end
end
local hint = "compiled chunks are loaded under --bytecode only"
for _, mode in ipairs { false, "b", "bt", "tb" } do
  local f, message = load(code, "dumped", mode or nil)
  assert(f == nil and message:find(hint, 1, true), message)
  f, message = load(pieces(), "dumped", mode or nil)
  assert(f == nil and message:find(hint, 1, true), message)
  f, message = loadfile("compiled.lua", mode or nil)
  assert(f == nil and message:find(hint, 1, true), message)
end
assert(load("return 7")() == 7 and load("return x", "n", "t", { x = 8 })() == 8)
assert(load("return x", "n", nil, { x = 9 })() == 9)
assert(select(2, load("return 1", "n", "b")):find "attempt to load a text chunk")
assert(select(2, load("return 1 +", "=n")):find "n:1: unexpected symbol near <eof>")
assert(select(2, pcall(load)):find "bad argument #1 to 'load'", select(2, pcall(load)))
assert(not pcall(load("return x", "n", "t", nil)))
local out = assert(io.open("text.lua", "w"))
out:write "local first = ... return first or x, 'text'"
out:close()
assert(loadfile("text.lua", "t", { x = 5 })() == 5 and dofile "text.lua" == nil)
assert(select(2, dofile "text.lua") == "text")
local value, file = require "text"
local slash = package.config:sub(1, 1)
assert(value == "text" and file == "." .. slash .. "text.lua")
local missing = ("no file './none/such.lua'"):gsub("/", slash)
assert(select(2, pcall(require, "none.such")):find(missing, 1, true))
local co = coroutine.wrap(function() return dofile "yields.lua" end)
out = assert(io.open("yields.lua", "w"))
out:write "return coroutine.yield(1) + 1"
out:close()
assert(co() == 1 and co(2) == 3)
print "good"
LUA
check 'load, loadfile, dofile and require of text' 0 good '' load.lua
check 'a compiled script when asked for' 0 '' '' --bytecode compiled.lua
check 'compiled chunks when asked for' 0 'compiled*compiled' '' --bytecode \
  -e 'print(select(2, dofile "compiled.lua"), select(2, require "compiled") and
      select(2, load(string.dump(function() return 1, "compiled" end))()))'

# The folder of the standard library is a variable of the environment like others.
mkdir -p lib/nn
echo 'error "the folder was used"' >lib/init.lua
echo 'error "the folder was used"' >lib/nn/init.lua
MOONLET_STDLIB=$work/lib check 'MOONLET_STDLIB' 1 '' '*the folder was used*' -e 'require "moonlet".nn.Linear(1, 1)'
MOONLET_STDLIB=$work/lib check 'MOONLET_STDLIB ignored' 0 '' '' -E -e 'require "moonlet".nn.Linear(1, 1)'
LUA_PATH=$work/lib/?.lua check 'LUA_PATH ignored' 1 '' '*not found*' -E -e 'require "nn.init"'
COLUMNS=33 check 'COLUMNS ignored' 0 80 '' -E -e 'print((require "moonlet.system".terminal_size()))'

# Ctrl-C in a script, in a coroutine too: an error with the position, exit code 1.
test_interrupts() {
  for code in 'while true do end' 'coroutine.wrap(function() while true do end end)()'; do
    count=$((count + 1))
    rm -f out
    "$moonlet" -e "io.stdout:write('ready') io.stdout:flush() $code" >out 2>err &
    pid=$!
    tries=0
    while [ ! -s out ] && [ $tries -lt 250 ]; do sleep 0.02; tries=$((tries + 1)); done
    kill -INT $pid 2>/dev/null
    wait $pid
    got=$?
    if [ $got != 1 ] || ! grep -q 'interrupted!' err; then
      echo "FAILED: Ctrl-C in '$code': exit code $got" && cat err && failed=$((failed + 1))
    fi
  done
}
[ -n "${MOONLET_TEST_WINDOWS:-}" ] || test_interrupts

echo "$((count - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
