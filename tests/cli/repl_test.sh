#!/bin/sh
# tests/cli/repl_test.sh: the prompt on a pseudo-terminal.  usage: repl_test.sh MOONLET PTY_DRIVER
moonlet=$(realpath "$1")
driver=$(realpath "$2")
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
prompt
send 20 + 22\r
expect 42
prompt
send _ * 2\r
expect 84
prompt
send = 'a', nil\r
expect a	nil
prompt
send x = 5\r
prompt
absent nil
send type(ml)\r
expect table
prompt
send \x04
exit 0
TEXT

dialogue 'statements over several lines' <<'TEXT'
prompt
send for i = 1, 2 do\r
prompt
send print(i * 111)\r
prompt
send end\r
expect 111
expect 222
prompt
send f(\x03
expect ^C
prompt
send if true then\r
prompt
send \x03
prompt
send 'still ' .. 'here'\r
expect still here
prompt
send \x04
exit 0
TEXT

dialogue 'commands are called by name and complete the names in their strings' <<'TEXT'
prompt
send help()\r
expect apropos(word)
prompt
send apropos 'linear'\r
expect nn.Linear
prompt
send help 'nn.Embed\t'\r
expect nn.Embedding(
prompt
send \x04
exit 0
TEXT

dialogue 'errors have a traceback and return to the prompt' <<'TEXT'
prompt
send local function f() error('bad luck') end f()\r
expect stdin:1: bad luck
expect stack traceback:
prompt
send x = = 1\r
expect unexpected symbol
prompt
send 1 + 1\r
expect 2
prompt
send os.exit(9)\r
exit 9
TEXT

dialogue 'Ctrl-C stops a loop' <<'TEXT'
prompt
send print('go' .. 'ing') while true do end\r
expect going
send \x03
expect interrupted!
prompt
send coroutine.wrap(function() print('in' .. 'side') while true do end end)()\r
expect inside
send \x03
expect interrupted!
prompt
send 6 * 7\r
expect 42
prompt
send \x04
exit 0
TEXT

dialogue 'Ctrl-C between commands is harmless' <<'TEXT'
prompt
press 150
send \x03
prompt
send 6 * 7\r
expect 42
prompt
kill 2
prompt
send 'still ' .. 'here'\r
expect still here
prompt
send \x04
exit 0
TEXT

dialogue 'Ctrl-C before the first prompt is harmless' <<'TEXT'
expect Moonlet
press 20
send \x03
prompt
send 6 * 7\r
expect 42
prompt
send \x04
exit 0
TEXT

dialogue 'Ctrl-C stops completion, and patterns' <<'TEXT'
prompt
send do setmetatable(_G, { __index = function(_, k) if k == 'slow' then print('go' .. 'ing') while true do end end end }) end\r
prompt
send slow.a\t
expect going
send \x03
send \x15print('find' .. 'ing'); (('a'):rep(5000)):find('.-.-.-b')\r
expect finding
send \x03
expect interrupted!
prompt
send 6 * 7\r
expect 42
prompt
send \x04
exit 0
TEXT

dialogue 'Ctrl-C stops what catches it, and what waits' <<'TEXT'
prompt
send while true do print('cau' .. 'ght', (pcall(function() print('go' .. 'ing') while true do end end))) end\r
expect going
send \x03
expect caught
send \x03
expect interrupted!
prompt
send print('wait' .. 'ing') io.read()\r
expect waiting
send \x03
expect interrupted!
prompt
send 6 * 7\r
expect 42
prompt
send \x04
exit 0
TEXT

dialogue 'Tab completes the methods of tensors and of storages' <<'TEXT'
prompt
send m = ml.Storage(3)\r
prompt
send #m:resi\t(6 * 7)\r
expect 42
prompt
send n = ml.zeros(3)\r
prompt
send n:resize_a\t(ml.ones(8, 7)):numel()\r
expect 56
prompt
send \x04
exit 0
TEXT

dialogue 'Tab completes globals, fields and methods' <<'TEXT'
prompt
send colou\x15coro\t.wra\t ~= nil\r
expect true
prompt
send t = { alpha = 11, alps = 12, beta = function() end }\r
prompt
send t.al\t
send \t
expect alpha  alps
send ha\r
expect 11
prompt
send t:be\t == nil or ('x'):re\x15('x').re\x15string.uppe\t('abc')\r
expect ABC
prompt
send \x04
exit 0
TEXT

dialogue 'history lasts' <<'TEXT'
prompt
send \e[A\e[A\r
expect alpha
prompt
send \x04
exit 0
TEXT
if [ "$(stat -c %a "$MOONLET_HISTORY")" != 600 ]; then
  echo 'FAILED: the history is readable by others' && failed=$((failed + 1))
fi

dialogue 'Tab completes fields, options over several lines, and files' <<'TEXT'
prompt
send x = ml.zeros(3, 4)\r
prompt
send x.sha\t\r
expect (3, 4)
prompt
send ml.randn({3}, {requ\t = true}).requires_grad\r
expect true
prompt
send y = ml.randn({3},\r
prompt
send { requ\t = true })\r
prompt
send y.requires_grad\r
expect true
prompt
send #io.open("/etc/host\tname"):read("a") > 0\r
expect true
prompt
send x:silu_b\t
absent backward
send \x15ml._m\t\x15x:vi\t\t
expect view_as_real
send \x15_VERS\t\r
expect Lua 5.4
prompt
send \x04
exit 0
TEXT

dialogue 'tables and the last result' <<'TEXT'
prompt
send { 1, { two = 'ä' } }\r
expect {1, {two = "ä"}}
prompt
send _[2].two\r
expect ä
prompt
send _ .. '!'\r
expect ä!
prompt
send setmetatable({ 5 }, { __tostring = function() error('no' .. ' text') end })\r
expect no text
prompt
send _[1] * 11\r
expect 55
prompt
send ml.nn.Linear(2, 3):state_dict()\r
expect name    shape   dtype
expect weight  (3, 2)  float32
prompt
send \x04
exit 0
TEXT

# Text that is not ASCII, whatever the locale says; bytes that are no UTF-8 too.
for locale in C POSIX C.UTF-8 no_SUCH.locale; do
  LC_ALL=$locale dialogue "other letters in $locale" <<'TEXT'
prompt
send 'ä' .. #'€'\r
expect ä3
prompt
send ('añb'):upper()\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02é\r
expect AñéB
prompt
send #'a\xffb' * 111\r
prompt
send 6 * 7\r
expect 42
prompt
send \x04
exit 0
TEXT
done

cd "$work" || exit 1
echo 'answer = 42 print(...)' >script.lua
dialogue 'a script, then the prompt' -i script.lua argument <<'TEXT'
expect argument
prompt
send answer\r
expect 42
prompt
send \x04
exit 0
TEXT

echo 'io.write("run") io.flush() while true do end' >loop.lua
dialogue 'Ctrl-C in a script, then no prompt' -i loop.lua <<'TEXT'
expect run
send \x03
expect interrupted!
exit 1
TEXT

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
