#!/bin/sh
# tests/cli/scripts_test.sh: runs the example scripts, shortened, and checks that they learn, write
# what they say and are quiet.  usage: scripts_test.sh MOONLET SCRIPTS
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

# value PATTERN: the number behind PATTERN in the output.
value() { sed -n "s/.*$1\([0-9.]*\).*/\1/p" out; }

# at_least NAME A B: that A is a number of at least B.
at_least() {
  awk -v a="$2" -v b="$3" 'BEGIN { exit !(a ~ /^[0-9.]+$/ && b ~ /^[0-9.]+$/ && a + 0 >= b + 0) }' ||
    fail "$1: $2 is not at least $3"
}

for example in train_tabular finetune; do
  run $example.lua --help
  grep -q "^Usage: $example.lua \[options\]" out || fail "$example.lua --help: no usage"
  "$moonlet" "$scripts/$example.lua" --epoch 3 >out 2>err && fail "$example.lua: takes an unknown option"
  grep -q -e --epochs err || fail "$example.lua: an unknown option gets no suggestion"
done

run train_tabular.lua --epochs 15 --out customers.safetensors
guess=$(value 'most frequent answer: ')
at_least 'train_tabular.lua: accuracy' "$(value 'Test accuracy: ')" "$(awk "BEGIN { print $guess + 8 }")"
at_least 'train_tabular.lua: a customer like those who left' "$(value 'customer leaves: ')" 70
[ -s customers.safetensors ] || fail 'train_tabular.lua: no model'

run finetune.lua --epochs 5 --images 30 --out net.safetensors --confusion matrix.svg
before=$(value 'from PyTorch: ')
at_least 'finetune.lua: five digits of ten' "$before" 45
at_least 'finetune.lua: the last layer' "$(value 'Last layer trained: ')" 80
at_least 'finetune.lua: all weights' "$(value 'All weights trained: ')" 80
at_least 'finetune.lua: what the weights could not know' 55 "$before"
grep -q '<svg' matrix.svg || fail 'finetune.lua: no confusion matrix'
run finetune.lua --epochs 1 --images 1 --out net.safetensors --seed 2
"$moonlet" "$scripts/finetune.lua" --weights customers.safetensors >out 2>err &&
  fail 'finetune.lua: takes the weights of another network'
grep -q 'load_state_dict: the state does not fit Net' err || fail 'finetune.lua: another network'

[ $failed = 0 ] && echo 'the example scripts run'
[ $failed = 0 ]
