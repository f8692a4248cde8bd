# scripts/platforms/lua_tests.sh: runs Lua tests, one file after another, by the executable of another
# platform; the platforms' own *_tests.sh read it. They set `source` and `build`, the folders, and
# `left_out`, lines of a name and of the reason why its file is not run, and define run_test NAME.
# shellcheck shell=sh disable=SC2154

families=$(sed -n "/^op_families = \[/,/\]/p" "$source/meson.build" | grep -o "'[a-z]*'" | tr -d "'" |
  tr '\n' ',')
[ -f "$build/op_cases.lua" ] ||
  lua5.4 "$source/tensor/ops/gen/generate.lua" "$build" "${families%,}" emit_cases=op_cases.lua

# The names of all files, and of that of the ops by families.
all_tests() {
  (cd "$source/tests/lua" && ls ./*/*_test.lua) | sed 's/^\.\///; s/_test\.lua$//' |
    grep -v '^cuda/\|^ops/op$'
  echo "$families" | tr ',' '\n' | sed '/./s/^/ops\/op:/'
}

# What is left out must be there.
for name in $(printf '%s' "$left_out" | sed 's/ .*//'); do
  [ -f "$source/tests/lua/${name}_test.lua" ] || { echo "no tests to leave out: $name" >&2 && exit 1; }
done

# run_tests FOLDER NAME...: with the output of each in a file of FOLDER. False when one has failed.
run_tests() {
  logs=$1
  shift
  mkdir -p "$logs"
  passed=0 failed=
  for name in "$@"; do
    reason=$(printf '%s' "$left_out" | sed -n "s|^$name  *||p")
    if [ -n "$reason" ]; then
      echo "left out  $name: $reason"
      continue
    fi
    log=$logs/$(echo "$name" | tr '/:' '__').log
    outcome=passed
    run_test "$name" >"$log" 2>&1 </dev/null || outcome=FAILED
    # Warnings may come after it.
    end=$(tr -d '\r' <"$log" | grep -a '^[0-9]* passed, ' | tail -1)
    [ -n "$end" ] || end=$(tail -1 "$log" | tr -d '\r')
    case $outcome,$end in
      'passed,0 passed, 0 failed'*)
        printf '%s\n' "left out  $name: $end, $(sed -n 's/^SKIP [^:]*: //p' "$log" | head -1)"
        ;;
      passed*)
        passed=$((passed + 1))
        printf '%s\n' "passed    $name: $end"
        ;;
      *)
        failed="$failed $name"
        printf '%s\n' "FAILED    $name: $end ($log)"
        ;;
    esac
  done
  echo "$passed passed; failed:${failed:- none}"
  [ -z "$failed" ]
}
