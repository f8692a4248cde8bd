#!/bin/sh
# tests/cli/signals_test.sh: Ctrl-C in scripts that catch it, wait or compute, and scripts that run
# out of memory.  usage: signals_test.sh MOONLET
moonlet=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset LUA_INIT LUA_INIT_5_4 LUA_PATH MOONLET_STDLIB
failed=0
passed=0

fail() {
  echo "FAILED: $1" && cat out err
  failed=$((failed + 1))
}

# interrupt NAME TIMES CODE: runs CODE, which says "ready" when it may be interrupted, and sends
# SIGINT, again and again up to TIMES, half a second apart. It must end with "interrupted!", or with
# code 130 when a second one found the first without effect.
interrupt() {
  rm -f out
  timeout -s KILL 120 "$moonlet" -e "local function ready() io.stdout:write('ready') io.stdout:flush() end
    $3" <fifo >out 2>err &
  runner=$!
  tries=0
  while [ ! -s out ] && [ $tries -lt 1500 ]; do sleep 0.02; tries=$((tries + 1)); done
  pid=$(ps -o pid= --ppid $runner | tr -d ' ')
  sent=0
  while [ $sent -lt "$2" ] && kill -INT "$pid" 2>/dev/null; do sleep 0.5; sent=$((sent + 1)); done
  wait $runner
  got=$?
  if [ $got = 130 ] && [ "$2" -gt 1 ]; then
    passed=$((passed + 1))
  elif [ $got = 1 ] && grep -q 'interrupted!' err && ! grep -q 'not stopped' out; then
    passed=$((passed + 1))
  else
    fail "$1: exit code $got"
  fi
}

mkfifo fifo
sleep 1200 >fifo &
holder=$!
trap 'kill $holder 2>/dev/null; rm -rf "$work"' EXIT

interrupt 'a script that catches everything' 2 \
  'local function loop() while true do end end ready() while true do pcall(loop) end'
interrupt 'coroutines that catch everything' 2 \
  'local function loop() while true do pcall(function() while true do end end) end end
   ready() while true do coroutine.resume(coroutine.create(loop)) end'
interrupt 'io.read' 1 'ready() local line = io.read() print("not stopped", line) io.read()'
interrupt 'io.read that is tried again' 2 'ready() while true do pcall(io.read) end'

# The op would take far longer than the signal, which the script sends itself; what stands behind
# it must not be reached.
computing='local ml = require "moonlet" local x = ml.zeros(1):expand(1 << 36)
  os.execute("(sleep 0.3; kill -INT " .. require("moonlet.system").pid() .. ") &") ready()'
interrupt 'a long product' 0 \
  "$computing local a = ml.zeros(1, 1 << 15):expand(1 << 15, 1 << 15) a:matmul(a) print 'not stopped'"
interrupt 'a long product that is caught once' 0 \
  "$computing local a = ml.zeros(1, 1 << 15):expand(1 << 15, 1 << 15)
   local good, message = pcall(a.matmul, a, a) assert(not good) error(message, 0)"

# lean NAME THREADS KIB CODE: CODE must print "good" within that much address space.
lean() {
  (ulimit -v "$3" && OMP_NUM_THREADS=$2 timeout -s KILL 120 "$moonlet" -e "
    local ml = require 'moonlet' $4 print 'good'") >out 2>err
  got=$?
  if [ $got = 0 ] && [ "$(tail -n 1 out)" = good ]; then
    passed=$((passed + 1))
  else
    fail "$1 in $3 KiB with $2 threads: exit code $got"
  fi
}

# What is over the limit fails; small things work afterwards, whichever library they need.
greedy='local function greedy() local held = {} while true do held[#held + 1] = ml.ones(1000, 10000) end end
  local good, message = pcall(greedy)
  assert(not good and message:find("out of memory: could not allocate 40000000 bytes on cpu", 1, true), message)'
after='local x = ml.randn(300, 300)
  assert((x + x):sum():item() == (x * 2):sum():item())
  for _, f in ipairs {
    function() return x:matmul(x) end,
    function() return x:double():matmul(x:double()) end,
    function() return ml.nn.Conv2d(3, 8, 3)(ml.randn(8, 3, 32, 32)) end,
    function() return x:sort() end,
  } do
    local good, message = pcall(f)
    assert(good or message:find "out of memory" or message:find "not enough memory", message)
  end'
sanitized=$(ldd "$moonlet" | grep -c libasan)
if [ "$sanitized" = 0 ]; then
  # An empty interpreter's own need, which depends on the libraries' buffers, is the base.
  for threads in 2 8 24; do
    base=$(OMP_NUM_THREADS=$threads "$moonlet" -e '
      local ml = require "moonlet" ml.ones(4)
      print(io.open("/proc/self/status"):read("a"):match("VmPeak:%s*(%d+)"))')
    for room in 60000 100000 200000 400000; do
      lean 'a script that runs out of memory' $threads $((base + room)) "$greedy $after"
      lean 'a script that did a small product before' $threads $((base + room)) \
        "pcall(ml.matmul, ml.ones(24, 24), ml.ones(24, 24)) $greedy $after"
    done
    lean 'what was held is given back' $threads $((base + 400000)) "$greedy
      collectgarbage() local y = ml.ones(1000, 40000) $after"
  done
fi

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
