# tests/cli/script_checks.sh: what the tests of the example scripts share: a folder of their own, and
# runs that have to be quiet. Sourced with the arguments MOONLET SCRIPTS.
moonlet=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
scripts=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive  # the tests run beside others: threads that spin take their time
failed=0

fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n--- stdout\n%s\n--- stderr\n%s\n' "$1" "$(cat out)" "$(cat err)"
}

# run NAME ARGS...: the script ends well and writes nothing to stderr, where progress would be.
run() {
  name=$1
  shift
  "$moonlet" "$scripts/$name" "$@" >out 2>err || fail "$name $*: ends with an error"
  [ -s err ] && fail "$name $*: stderr is not empty"
}
