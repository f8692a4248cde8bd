#!/bin/sh
# tests/cli/repl_test.sh: the prompt on a pseudo-terminal.  usage: repl_test.sh MOONLET PTY_DRIVER
moonlet=$1
driver=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LUA_INIT LUA_INIT_5_4
MOONLET_HISTORY=$work/state/history
export MOONLET_HISTORY
failed=0
passed=0

# dialogue NAME ARGS...   (the dialogue itself on stdin)
dialogue() {
  name=$1
  shift
  if "$driver" "$moonlet" "$@"; then
    passed=$((passed + 1))
  else
    echo "FAILED: $name" && failed=$((failed + 1))
  fi
}

dialogue 'expressions print themselves' <<'TEXT'
expect Moonlet
expect > 
send 20 + 22\r
expect 42
expect > 
send _ * 2\r
expect 84
expect > 
send = 'a', nil\r
expect a	nil
expect > 
send x = 5\r
expect > 
absent nil
send type(ml)\r
expect table
expect > 
send \x04
exit 0
TEXT

dialogue 'statements over several lines' <<'TEXT'
expect > 
send for i = 1, 2 do\r
expect >> 
send print(i * 111)\r
expect >> 
send end\r
expect 111
expect 222
expect > 
send f(\x03
expect ^C
expect > 
send if true then\r
expect >> 
send \x03
expect > 
send 'still ' .. 'here'\r
expect still here
send \x04
exit 0
TEXT

dialogue 'errors have a traceback and return to the prompt' <<'TEXT'
expect > 
send local function f() error('bad luck') end f()\r
expect stdin:1: bad luck
expect stack traceback:
expect > 
send x = = 1\r
expect unexpected symbol
expect > 
send 1 + 1\r
expect 2
expect > 
send os.exit(9)\r
exit 9
TEXT

dialogue 'Ctrl-C stops a loop' <<'TEXT'
expect > 
send print('go' .. 'ing') while true do end\r
expect going
send \x03
expect interrupted!
expect > 
send coroutine.wrap(function() print('in' .. 'side') while true do end end)()\r
expect inside
send \x03
expect interrupted!
expect > 
send 6 * 7\r
expect 42
send \x04
exit 0
TEXT

dialogue 'Tab completes globals, fields and methods' <<'TEXT'
expect > 
send colou\x15coro\t.wra\t ~= nil\r
expect true
expect > 
send t = { alpha = 11, alps = 12, beta = function() end }\r
expect > 
send t.al\t
send \t
expect alpha  alps
send ha\r
expect 11
expect > 
send t:be\t == nil or ('x'):re\x15('x').re\x15string.uppe\t('abc')\r
expect ABC
send \x04
exit 0
TEXT

dialogue 'history lasts' <<'TEXT'
expect > 
send \e[A\e[A\r
expect alpha
expect > 
send \x04
exit 0
TEXT
if [ "$(stat -c %a "$MOONLET_HISTORY")" != 600 ]; then
  echo 'FAILED: the history is readable by others' && failed=$((failed + 1))
fi

cd "$work" || exit 1
echo 'answer = 42 print(...)' >script.lua
dialogue 'a script, then the prompt' -i script.lua argument <<'TEXT'
expect argument
expect > 
send answer\r
expect 42
send \x04
exit 0
TEXT

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
