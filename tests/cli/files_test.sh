#!/bin/sh
# tests/cli/files_test.sh: signals and rivals while a file is saved: the file is whole and alone.
# usage: files_test.sh MOONLET NO_UNNAMED_FILES
moonlet=$(realpath "$1")
shim=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
count=0

cat >save.lua <<'LUA'
local ml = require "moonlet"
local x = ml.full({ 500000 }, tonumber(arg[1]))
io.stdout:write("ready") io.stdout:flush()
for _ = 1, tonumber(arg[2]) do ml.save("folder/file", { x = x, y = x }) end
LUA
cat >check.lua <<'LUA'
local t = require("moonlet").load("folder/file")
assert(t.x:eq(t.y):all():item() and t.x:min():item() == t.x:max():item())
LUA

# alone NAME: the folder holds one whole file and nothing else.
alone() {
  count=$((count + 1))
  if [ "$(ls folder)" != file ] || ! "$moonlet" check.lua; then
    echo "FAILED: $1: the folder holds $(ls folder)" && failed=$((failed + 1))
  fi
}

# signals NAME PRELOAD SIGNAL...: each comes at several moments of a save; its effect is its own.
signals() {
  name=$1 preload=$2
  shift 2
  for signal in "$@"; do
    for delay in 0.003 0.007 0.011 0.017 0.023; do
      rm -f out
      # Under nohup HUP would have no effect.
      env --default-signal=HUP ${preload:+LD_PRELOAD="$preload"} "$moonlet" save.lua 1 100000 >out 2>err &
      pid=$!
      tries=0
      while [ ! -s out ] && [ $tries -lt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
      sleep $delay
      kill -s "$signal" $pid
      wait $pid 2>/dev/null
      got=$?
      case $signal in INT) wanted=1 ;; HUP) wanted=129 ;; KILL) wanted=137 ;; TERM) wanted=143 ;; esac
      if [ $got != $wanted ]; then
        echo "FAILED: $name, $signal: exit code $got" && failed=$((failed + 1))
      fi
      # A file that exists is replaced by a link and a rename, and nothing can tidy up after a KILL
      # between the two: a second name of a whole file.
      if [ $signal = KILL ] && [ -e folder/file.tmp$pid-0 ]; then
        mv folder/file.tmp$pid-0 folder/file
      fi
      [ -e folder/file ] || "$moonlet" save.lua 1 1 >/dev/null
      alone "$name, $signal"
    done
  done
}

mkdir folder
"$moonlet" save.lua 2 1 >/dev/null
alone 'one save'
signals 'files without a name' '' TERM INT HUP KILL
[ "$shim" = /dev/null ] || signals 'files with a name' "$shim" TERM INT HUP

for i in 1 2 3 4; do "$moonlet" save.lua "$i" 10 >/dev/null & done
wait
alone 'four processes save to one path'

echo "$((count - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
