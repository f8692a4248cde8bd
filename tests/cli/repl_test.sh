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

# What keys send under xterm, tmux, screen, rxvt and consoles: all of one key do the same.
for home in '\e[1~' '\e[7~' '\eOH' '\e[H' '\e[1;2H' '\e[7$'; do
  dialogue "Home as $home" <<TEXT
prompt
send 1 + 1${home}300 + 33 * \r
expect 334
prompt
send \x04
exit 0
TEXT
done
for end in '\e[4~' '\e[8~' '\eOF' '\e[F' '\e[1;5F' '\e[8^'; do
  dialogue "End as $end" <<TEXT
prompt
send 1 + 1\x01${end}1\r
expect 12
prompt
send \x04
exit 0
TEXT
done
for left in '\e[1;5D' '\e[1;3D' '\e[5D' '\eOd' '\e[1;9D' '\e\e[D' '\eb' '\eO5D'; do
  dialogue "a word to the left as $left" <<TEXT
prompt
send 1 + 44${left}2\r
expect 245
prompt
send \x04
exit 0
TEXT
done
for right in '\e[1;5C' '\e[1;3C' '\e[5C' '\eOc' '\e\e[C' '\ef'; do
  dialogue "a word to the right as $right" <<TEXT
prompt
send 44 + 1\x01${right}2\r
expect 443
prompt
send \x04
exit 0
TEXT
done
dialogue 'Delete, words, the keypad' <<'TEXT'
prompt
send 123 + 1\x01\e[3~\r
expect 24
prompt
send 123 -70 * 10\x01\e[3;5~\r
expect -700
prompt
send \eOq\eOrp\x08\eOk\eOw\eOM
expect 19
prompt
send \x04
exit 0
TEXT

for key in '\e[5~' '\e[6~' '\e[200;5~' '\e[1;7Z' '\e[[A' '\e[15~' '\eOP' '\e[24;2~' '\e[Z' '\e[?1;2c' \
  '\e[97;5u' '\e[27;5;13~' '\e]11;rgb:0/0/0\e\\' '\eP1+r\e\\' '\e[I' '\e[99~' '\e[2$' '\e[3^' '\e[1;5S' '\e\e[5~'; do
  dialogue "$key puts nothing into the line" <<TEXT
prompt
send ${key}6 * 7${key}\r
expect 42
absent attempt
prompt
send \x04
exit 0
TEXT
done

dialogue 'a search in the history ends with a key' <<'TEXT'
prompt
send 'nee' .. 'dle'\r
expect needle
prompt
send \x12nee\e[1~#\e[4~\r
expect 6
prompt
send \x04
exit 0
TEXT

dialogue 'a block is one entry of the history, edited as one' <<'TEXT'
prompt
send for i = 1, 2 do\r
expect >> 
send print(i * 111)\r
expect >> 
send end\r
expect 222
prompt
send \e[A\e[D\e[D\e[D\e[A\e[4~\x1b[A\x01\r
expect 111
expect 222
prompt
send \x04
exit 0
TEXT
dialogue 'and is in the next prompt' <<'TEXT'
prompt
send \e[A\x08\x08\x08 print('done ' .. i * 10) end\r
expect done 10
expect done 20
prompt
send \x04
exit 0
TEXT

dialogue 'what is pasted is text' <<'TEXT'
prompt
send \e[200~local t = {\x0a\talpha = 11,\x0a}\x0ax = t.\talpha\x0a\e[201~
prompt
send x = '\e[200~a\tb\e[201~'\r
prompt
send #x\r
expect 3
prompt
send \e[200~y = 1\x0d\x0aerror('no' .. 'good')\x0d\x0ay = 2\x0d\x0a\e[201~
expect nogood
expect left out
prompt
send y * 111\r
expect 111
prompt
send \e[200~6 * 6\x0a\x0a7 * 7\e[201~\r
expect 36
prompt
expect 49
prompt
send \x04
exit 0
TEXT

dialogue 'locals last' <<'TEXT'
prompt
send local a, limit <const> = 41, 7\r
prompt
send a + 1\r
expect 42
prompt
send local function add() a = a + 1 return a end\r
prompt
send add() * 100\r
expect 4200
prompt
send a = 3\r
prompt
send add() * 111\r
expect 444
prompt
send local a = 'other'\r
prompt
send a .. add()\r
expect other5
prompt
send limit = 8\r
expect attempt to assign to const variable 'limit'
prompt
send limit * 11\r
expect 77
prompt
send _G.a\r
expect nil
prompt
send local f <close> = setmetatable({}, { __close = function() print('clo' .. 'sed') end })\r
prompt
send local g <close> = 5\r
expect variable 'g' got a non-closable value
prompt
send local point = { north = 12 }\r
prompt
send point.no\t\r
expect 12
prompt
send poi\t.north * 2\r
expect 24
prompt
send type(f)\r
expect table
prompt
send \x04
expect closed
exit 0
TEXT

dialogue 'help, quit and exit alone' <<'TEXT'
prompt
send help\r
expect apropos(word)
prompt
send help()\r
expect apropos(word)
prompt
send exit\r
exit 0
TEXT
dialogue 'quit with locals to close' <<'TEXT'
prompt
send local f <close> = setmetatable({}, { __close = function() print('clo' .. 'sed') end })\r
prompt
send quit()\r
expect closed
exit 0
TEXT
dialogue 'quit is the name of what a script defines' <<'TEXT'
prompt
send quit = 'min' .. 'e'\r
prompt
send quit\r
expect mine
prompt
send quit = nil\r
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

echo 'function help() return 1 end' >own.lua
dialogue 'commands do not replace what a script defined' -i own.lua <<'TEXT'
prompt
send help() * 1234\r
expect 1234
prompt
send \x04
exit 0
TEXT

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
