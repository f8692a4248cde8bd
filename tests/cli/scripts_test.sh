#!/bin/sh
# tests/cli/scripts_test.sh: runs the example scripts, shortened, and checks that they learn, write
# what they say and are quiet.  usage: scripts_test.sh MOONLET SCRIPTS
# shellcheck source=tests/cli/script_checks.sh
. "$(dirname "$0")/script_checks.sh"

# value PATTERN: the number behind PATTERN in the output.
value() { sed -n "s/.*$1\([0-9.]*\).*/\1/p" out; }

# at_least NAME A B: that A is a number of at least B.
at_least() {
  awk -v a="$2" -v b="$3" 'BEGIN { exit !(a ~ /^[0-9.]+$/ && b ~ /^[0-9.]+$/ && a + 0 >= b + 0) }' ||
    fail "$1: $2 is not at least $3"
}

for example in train_tabular finetune mnist_resnet vae diffusion gan vit; do
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

for example in cartpole pinn gp_regression ensemble; do
  run $example.lua --help
  grep -q "^Usage: $example.lua \[options\]" out || fail "$example.lua --help: no usage"
  "$moonlet" "$scripts/$example.lua" --figur x.svg >out 2>err && fail "$example.lua: unknown option"
  grep -q -e --figure err || fail "$example.lua: an unknown option gets no suggestion"
done

# Pushes at random keep the pole up for about 22 steps.
run cartpole.lua --episodes 120 --figure steps.svg
at_least 'cartpole.lua: policy gradient' "$(value 'of 120 episodes: ')" 120
at_least 'cartpole.lua: its best actions' "$(value 'new episodes: ')" 200
grep -q '<svg' steps.svg || fail 'cartpole.lua: no figure'
run cartpole.lua --method dqn --episodes 100
at_least 'cartpole.lua: Q-learning' "$(value 'of 100 episodes: ')" 60

# A network that is 0 is wrong by 1 at the start and by 0.8 later.
run pinn.lua --steps 1500 --figure solution.svg
at_least 'pinn.lua: error' 0.3 "$(value 'error of the solution: ')"
grep -q '<svg' solution.svg || fail 'pinn.lua: no figure'
run pinn.lua --find --steps 1500
at_least 'pinn.lua: error with measurements' 0.15 "$(value 'error of the solution: ')"
at_least 'pinn.lua: stiffness' "$(value 'Stiffness: ')" 14.5
at_least 'pinn.lua: stiffness' 17.5 "$(value 'Stiffness: ')"

for kernel in rbf matern; do
  run gp_regression.lua --kernel $kernel --steps 10 --figure process.svg
  at_least "gp_regression.lua: likelihood, $kernel" "$(value 'fitted: ')" 0.5
  at_least "gp_regression.lua: noise, $kernel" "$(value 'noise ')" 0.07
  at_least "gp_regression.lua: noise, $kernel" 0.14 "$(value 'noise ')"
  at_least "gp_regression.lua: band, $kernel" "$(value 'band at ')" 85
  at_least "gp_regression.lua: the gap, $kernel" "$(value 'Widest band: ')" "$(value 'in the gap, ')"
  grep -q '<svg' process.svg || fail 'gp_regression.lua: no figure'
done

run ensemble.lua --networks 8 --figure band.svg
at_least 'ensemble.lua: error' 0.2 "$(value 'there are points: ')"
at_least 'ensemble.lua: what it does not know' "$(value 'points, ')" "$(value 'deviation: ')"
grep -q 'of point 80 of 80' out || fail 'ensemble.lua: the wrong point does not pull most'
grep -q '<svg' band.svg || fail 'ensemble.lua: no figure'

"$moonlet" "$scripts/mnist_resnet.lua" --data nowhere >out 2>err && fail 'mnist_resnet.lua: no data'
grep -q "put train-images-idx3-ubyte, train-labels-idx1-ubyte into" err ||
  fail 'mnist_resnet.lua: does not say which files it wants'
if [ -n "$MOONLET_DATA" ]; then
  run mnist_resnet.lua --data "$MOONLET_DATA/mnist" --small --images 1500 --epochs 2 --width 8 \
    --batch-size 32 --figure misread.svg --out net.safetensors
  at_least 'mnist_resnet.lua: accuracy' "$(value 'Test accuracy: ')" 60
  grep -q '<svg' misread.svg || fail 'mnist_resnet.lua: no figure'
  [ -s net.safetensors ] || fail 'mnist_resnet.lua: no weights'
else
  echo 'skipped: mnist_resnet.lua: MOONLET_DATA is not set'
fi

run vae.lua --epochs 15 --figure new.svg
at_least 'vae.lua: after the first epoch' "$(value 'test image: ')" 200
at_least 'vae.lua: bound' 150 "$(value 'epoch, ')"
grep -q '<svg' new.svg || fail 'vae.lua: no figure'

run diffusion.lua --epochs 40 --steps 40 --hidden 128 --figure new.svg
at_least 'diffusion.lua: error' 0.5 "$(value 'Error of the noise: ')"
at_least 'diffusion.lua: digits as asked for' "$(value 'asked for: ')" 60
grep -q '<svg' new.svg || fail 'diffusion.lua: no figure'

for flag in --no-wasserstein --wasserstein; do
  run gan.lua $flag --epochs 15 --hidden 128 --lr 0.001 --figure new.svg
  at_least "gan.lua $flag: digits as asked for" "$(value 'Digits as asked for: ')" 40
  grep -q '<svg' new.svg || fail "gan.lua $flag: no figure"
done

run vit.lua --epochs 8 --layers 2 --dim 32 --lr 0.005 --figure matrix.svg
at_least 'vit.lua: accuracy' "$(value 'Test accuracy: ')" 60
grep -q '<svg' matrix.svg || fail 'vit.lua: no confusion matrix'

[ $failed = 0 ] && echo 'the example scripts run'
[ $failed = 0 ]
