#!/bin/sh
# tests/cli/text_scripts_test.sh: runs the example scripts about text, shortened, and checks that they
# learn, go on from checkpoints to the same numbers, and refuse what they cannot use.
# usage: text_scripts_test.sh MOONLET SCRIPTS
# shellcheck source=tests/cli/script_checks.sh
. "$(dirname "$0")/script_checks.sh"

# refuse PATTERN NAME ARGS...: the script ends with an error that has PATTERN.
refuse() {
  pattern=$1 name=$2
  shift 2
  "$moonlet" "$scripts/$name" "$@" >out 2>err && fail "$name $*: ends well"
  grep -q -e "$pattern" err || fail "$name $*: the error has no '$pattern'"
}

# value PATTERN: the last number behind PATTERN in the output.
value() { sed -n "s/.*$1\(-\{0,1\}[0-9.]*\).*/\1/p" out | tail -n 1; }

# at_most NAME A B: that A is a number of at most B.
at_most() {
  awk -v a="$2" -v b="$3" 'BEGIN { exit !(a ~ /^-?[0-9.]+$/ && a + 0 <= b + 0) }' ||
    fail "$1: $2 is not at most $3"
}

# same NAME A B: that two texts are the same, and not empty.
same() { [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"; }

# A text of sentences of one form: subject, verb, object, each drawn from a few.
awk 'BEGIN {
  srand(1)
  split("the cat,the dog,a bird,our fox", who, ",")
  split("sees,likes,follows", does, ",")
  split("the moon,a river,old trees,the sea", what, ",")
  for (i = 0; i < 500; i++)
    print who[int(rand() * 4) + 1] " " does[int(rand() * 3) + 1] " " what[int(rand() * 4) + 1] "."
}' >text.txt

# learns NAME EPOCHS BOUND OPTIONS...: a model of characters comes below BOUND on the part of the
# text held out, and a run that was cut in two gives the losses and the text of one that was not.
learns() {
  name=$1 epochs=$2 bound=$3
  shift 3
  run "$name" text.txt "$@" --epochs $epochs --checkpoint whole --figure loss.svg
  at_most "$name: loss" "$(value 'validation ')" "$bound"
  grep -q '<svg' loss.svg || fail "$name: no figure"
  cp out sample
  whole=$(sed -n "/^epoch *$epochs/,\$p" out)
  run "$name" text.txt "$@" --epochs 1 --checkpoint cut
  run "$name" text.txt "$@" --epochs $epochs --checkpoint cut --resume
  grep -q '^epoch *1' out && fail "$name --resume: begins anew"
  same "$name --resume" "$(sed -n "/^epoch *$epochs/,\$p" out)" "$whole"
  refuse "none of the categories" "$name" text.txt "$@" --epochs $epochs --checkpoint cut --resume \
    --prompt "#"
  refuse 'No such file' "$name" none.txt
  refuse 'missing argument' "$name"
  head -c 100 text.txt >short.txt
  refuse 'a window of' "$name" short.txt "$@"
  printf 'caf\351' >latin.txt
  refuse 'not in UTF-8' "$name" latin.txt
}

# writes NAME: at least a quarter of the whole lines of the sample are sentences of the form.
writes() {
  sed -n '/^ *━━/,$p' sample | sed '1,3d;$d' >lines
  form='^(the cat|the dog|a bird|our fox) (sees|likes|follows) (the moon|a river|old trees|the sea)\.$'
  good=$(grep -cE "$form" lines)
  at_most "$1: lines of the sample" 10 "$(wc -l <lines)"
  at_most "$1: a quarter of the lines" "$(($(wc -l <lines) / 4))" "$good"
}

learns char_lstm.lua 2 0.6 --hidden 48 --window 24 --batch-size 8 --lr 0.01 --temperature 0.3
writes char_lstm.lua
learns char_gpt.lua 7 0.45 --dim 48 --layers 2 --window 48 --batch-size 2 --lr 0.005 --top-k 3 \
  --temperature 0.3
writes char_gpt.lua
run char_gpt.lua text.txt --dim 32 --layers 1 --window 24 --batch-size 4 --bfloat16 --epochs 1 \
  --checkpoint half
at_most 'char_gpt.lua --bfloat16: loss' "$(value 'validation ')" 2.5

# Words that stand in the same positions come near one another.
run word2vec.lua text.txt --epochs 6 --dim 16 --window 1 --batch-size 64 --common 0 --lr 0.01 \
  --words sees,cat --out words --figure words.svg
at_most 'word2vec.lua: loss' "$(value 'epoch 6\/6  loss ')" 2.1
for word in likes follows; do
  sed -n 's/^sees  *\([^,]*, [^,]*\),.*/\1/p' out | grep -q $word || fail "word2vec.lua: $word is far"
done
grep -q '<svg' words.svg || fail 'word2vec.lua: no figure'
"$moonlet" -e 'local file = require("moonlet").load "words"
  assert(#file.words == 15 and tostring(file.vectors.shape) == "(15, 16)")' >out 2>err ||
  fail 'word2vec.lua: the file'
refuse "'whale', is none" word2vec.lua text.txt --words whale
refuse 'no two words are there 9999 times' word2vec.lua text.txt --min-count 9999
refuse 'No such file' word2vec.lua none.txt

[ $failed = 0 ] && echo 'the example scripts about text run'
[ $failed = 0 ]
