#!/bin/sh
# tests/platforms/windows_console.sh SOURCE BUILD WINE: the prompt of the Windows executable in a
# console, which Wine draws on a pseudo-terminal, with Ctrl-C; and with input from a pipe.
# Wine's console does not hand on Ctrl-Z, which ends the input on Windows.
set -eu
source=$1 build=$2 wine=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CXX:-c++} -std=c++20 -O1 "$source/tests/cli/pty_driver.cpp" -o "$work/driver" -lutil
LC_ALL=C.UTF-8
export LC_ALL
failed=0 passed=0

# dialogue NAME ARGS...   (the dialogue itself on stdin)
dialogue() {
  name=$1
  shift
  if "$work/driver" --console "$wine" "$build/moonlet.exe" "$@"; then
    passed=$((passed + 1))
  else
    echo "FAILED: $name" && failed=$((failed + 1))
  fi
}

dialogue 'expressions, statements, errors and UTF-8' <<'TEXT'
expect Moonlet
expect Ctrl-Z with Enter leaves.
prompt
send 20 + 22\r
expect 42
prompt
send _ * 2\r
expect 84
prompt
send for i = 1, 2 do\r
prompt
send print(i * 111)\r
prompt
send end\r
expect 111
expect 222
prompt
send nope.x\r
expect attempt to index a nil value (global 'nope')
prompt
send 'ä€' .. #'ä€'\r
expect ä€5
prompt
send ml.arange(1, 3)\r
expect Tensor (3,) int64
prompt
send os.exit(7)\r
exit 7
TEXT

dialogue 'keys edit the line, and earlier ones come back' <<'TEXT'
prompt
send 40 + 3\x7f2\r
expect 42
prompt
send \e[A\r
expect 42
prompt
send \e[A\e[D\e[D\e[D\e[D\e[D\x7f\r
expect 2
prompt
send os.exit(0)\r
exit 0
TEXT

# Ctrl-C ends no read of Wine's console: Enter does, which must not come before the handler has run.
dialogue 'Ctrl-C at the prompt leaves a statement' <<'TEXT'
prompt
send for i = 1, 2 do\r
prompt
send \x03
pause 2
send \r
expect ^C
prompt
send 6 * 7\r
expect 42
prompt
send os.exit(0)\r
exit 0
TEXT

dialogue 'Ctrl-C ends loops in Lua and in kernels' <<'TEXT'
prompt
send io.write('run', 'ning\\n') while true do end\r
expect running
send \x03
expect interrupted!
prompt
send x = ml.randn(600, 600) io.write('multi', 'plying\\n') for i = 1, 1e9 do x:mm(x) end\r
expect multiplying
send \x03
expect interrupted!
prompt
send 6 * 7\r
expect 42
prompt
send os.exit(0)\r
exit 0
TEXT

cat >"$work/text.lua" <<'LUA'
print("größer als 1 €", #"€")
io.write("a line that goes on, ")
io.stderr:write("Fehler: ü\n")
print(("\27[32m%s\27[0m"):format "in colour")
error("ä is wrong", 0)
LUA
dialogue 'scripts write UTF-8 and colours' "Z:$work/text.lua" <<'TEXT'
expect größer als 1 €
expect a line that goes on, Fehler: ü
expect in colour
expect moonlet: ä is wrong
exit 1
TEXT

cat >"$work/caught.lua" <<'LUA'
print(pcall(function() io.write("wait", "ing\n") while true do end end))
io.write("and again\n")
while true do pcall(function() while true do end end) end
LUA
dialogue 'Ctrl-C in scripts: the first can be caught, the second not' "Z:$work/caught.lua" <<'TEXT'
expect waiting
send \x03
expect false
expect interrupted!
expect and again
send \x03
expect interrupted!
exit 1
TEXT

# Without a console.
printf '1 + 1\nx = 5\n=x\nfor i = 1, 2 do\nprint(i)\nend\nerror("oops")\n"last"\n' >"$work/input"
"$wine" "$build/moonlet.exe" -i <"$work/input" >"$work/out" 2>"$work/err"
case $(tr -d '\r' <"$work/out") in
  *2*5*1*2*last*) passed=$((passed + 1)) ;;
  *) echo 'FAILED: a prompt without a console' && failed=$((failed + 1)) && cat "$work/out" ;;
esac
case $(tr -d '\r' <"$work/err") in
  *'stdin:1: oops'*traceback*) passed=$((passed + 1)) ;;
  *) echo 'FAILED: errors without a console' && failed=$((failed + 1)) && cat "$work/err" ;;
esac
echo "$passed passed, $failed failed"
[ $failed = 0 ]
