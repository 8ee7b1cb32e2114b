#!/bin/bash
# On a GPU a step begins before the host knows what came of the one before.  What a run says and saves is what it is
# where every step is waited for; one that is not finite or is interrupted ends with the step that it names.
#
#   tests/train/steps_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --device cuda --json --num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 128
     --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --mock-data --tokenizer-type NullTokenizer
     --vocab-size 1000)
fail() { echo "steps_gpu_test: $*"; exit 1; }
count() { grep -c "$1" steps || true; }
# Of both outputs, without times and the options; and what was saved.
told() { sed -E '/"event":"start"/d; s/"(tokens_per_second|step_seconds|seconds)":[-+0-9.e]+//g' "$1/steps"; }
said() { sed -E 's/^ \[[^]]*\]//; s/elapsed time per iteration \(ms\): [0-9.]+//; /memory|seconds|tokens\/s/d' "$1/messages"; }
train() {  # FOLDER OPTION…: 12 steps; a check of large gradients waits for each
  local to=$1
  shift
  mkdir -p "$to"
  (cd "$to" && "${run[@]}" --lr 1e-3 --lr-warmup-iters 3 --train-iters 12 --save saved --save-interval 5 --eval-interval 4 \
    --eval-iters 1 --log-interval 1 --log-num-zeros-in-grad "$@" > steps 2> messages)
}
same() {  # OPTION…
  train early "$@"
  train waiting "$@" --check-for-large-grads
  diff <(told early) <(told waiting) || fail "$*: other events"
  diff <(said early) <(said waiting) || fail "$*: other lines"
  for file in early/saved/iter_0000012/*.distcp; do cmp "$file" "waiting/${file#early/}"; done
  cp early/steps .
  rm -r early waiting
  (($(count '"event":"step"') == 12 && $(count '"event":"eval"') == 5 && $(count '"event":"save"') == 3)) || fail "$(cat steps)"
  echo "$*: the same lines and bits, $(count '"skipped":true') steps skipped"
}
goes_on() {  # OPTION…
  train whole "$@"
  until [[ -d part/saved/iter_0000012 ]]; do train part "$@" --load saved --exit-interval 5; done
  for file in whole/saved/iter_0000012/*.distcp; do cmp "$file" "part/${file#whole/}"; done
  rm -r whole part
  echo "$*: goes on with the same bits"
}
gathers_codes() {  # OPTION…: to the bits of a run that gathers weights
  train values --bf16 --use-distributed-optimizer "$@"
  train codes --bf16 --use-distributed-optimizer --fp8-param-gather "$@"
  diff <(told values | sed 's/"memory":{[^}]*}//') <(told codes | sed 's/"memory":{[^}]*}//') || fail "$*: other events"
  for file in values/saved/iter_0000012/*.distcp; do cmp "$file" "codes/${file#values/}"; done
  rm -r values codes
  echo "$*: the same bits of codes that are gathered"
}
same --bf16
same --bf16 --calculate-per-token-loss
scaled=(--use-distributed-optimizer --use-precision-aware-optimizer --main-params-dtype fp16 --exp-avg-dtype fp16 --exp-avg-sq-dtype fp8)
same --bf16 "${scaled[@]}"
goes_on --bf16 "${scaled[@]}"
goes_on --fp16 --initial-loss-scale 1024 "${scaled[@]}"
if nvidia-smi --query-gpu=compute_cap --format=csv,noheader | awk 'NR == 1 { cap = $1 } END { exit !(cap > 8.8) }'; then  # it has products of eight bits
  same --bf16 --fp8-format hybrid
  same --bf16 --fp8-format e4m3 --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 0
  gathers_codes --fp8-format hybrid
  gathers_codes --fp8-format hybrid --fp8-recipe tensorwise --no-cuda-graphs
  gathers_codes --fp8-format e4m3 --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 0
  gathers_codes --fp8-format e4m3 --fp8-recipe blockwise
  goes_on --bf16 --fp8-format hybrid --fp8-amax-history-len 4 --fp8-amax-compute-algo max
fi
same --fp16 --hysteresis 1 --initial-loss-scale 33554432
(($(count '"skipped":true') > 0 && $(count '"skipped":true') < 12)) || fail "$(cat steps)"

"${run[@]}" --quiet --bf16 --lr 1e-3 --train-iters 1000 --eval-iters 0 |
  while read -r line; do echo "$EPOCHREALTIME $line"; done | sed -n 's/ .*"step_seconds":\([^,}]*\).*/ \1/p' > times
awk 'NR == 20 { start = $1 } NR > 20 { sum += $2; last = $2; n++ }
  END { took = $1 - start; exit !(n == 980 && sum > 0.9 * took && sum < 1.1 * took && last > sum / n / 3) }' times || fail "$(tail times)"
echo "980 steps add up to the time that they take"

for which in first second; do  # of two runs that are to take hours
  XDG_CACHE_HOME=$folder/cache "${run[@]}" --bf16 --lr 1e-3 --lr-decay-style constant --train-iters 40000000 --exit-interval 20 \
    --eval-iters 0 > steps 2> $which
  sed -E -i '/"event":"step"/!d; s/"(tokens_per_second|step_seconds)":[-+0-9.e]+//g' steps
  mv steps $which.steps
done
grep -q "searched for again" first || fail "$(cat first)"
grep -q "searched for again" second && fail "$(cat second)"
diff first.steps second.steps || fail "other losses"
(($(wc -l < first.steps) == 20)) || fail "$(cat first.steps)"
echo "a long run searches for its products again, once, and has the same bits"

"${run[@]}" --quiet --bf16 --lr 1e30 --clip-grad 0 --lr-decay-style constant --train-iters 50 --eval-iters 0 > steps 2> messages && fail "went on"
step=$(sed -n 's/^mt-pretrain: iteration \([0-9]*\).*; nothing was updated$/\1/p' messages)
((step > 1 && $(count '"event":"step"') == step - 1)) || fail "$(cat messages steps)"
echo "ends with iteration $step, which is not finite"

"${run[@]}" --quiet --fp16 --lr 1e-3 --lr-warmup-iters 9 --train-iters 40 --eval-iters 0 > steps
skipped=$(count '"skipped":true')
((skipped > 2 && skipped < 30)) || fail "$skipped steps skipped"
lr() { sed -n 's/.*"lr":\([-+0-9.e]*\).*/\1/p' <<< "$1"; }
while read -r line && read -r next <&3; do
  if [[ $line = *'"skipped":true'* ]]; then [ "$(lr "$line")" = "$(lr "$next")" ] || fail "$line $next"; fi
done < <(grep step_seconds steps) 3< <(grep step_seconds steps | sed 1d)
echo "$skipped steps skipped, and their learning rates used again"

"${run[@]}" --quiet --bf16 --lr 1e-3 --lr-decay-style constant --train-iters 1000000 --eval-iters 0 > steps 2> messages &
until (($(count '"event":"step"') > 20)); do kill -0 $!; sleep 0.1; done
kill -TERM $!
wait $! && fail "went on"
last=$(sed -n 's/^mt-pretrain: stopped by SIGTERM after iteration \([0-9]*\);.*/\1/p' messages)
if [ "$last" != "$(count '"event":"step"')" ] || ! grep -q '"event":"end","reason":"SIGTERM","iteration":'"$last," steps; then
  fail "$(cat messages; tail -2 steps)"
fi
echo "stopped after iteration $last"

# The step that is under way, and the next, which has begun.
"$bin/mt-pretrain" --device cuda --json --quiet --bf16 --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 \
  --max-position-embeddings 1024 --micro-batch-size 16 --global-batch-size 64 --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 \
  --lr 1e-4 --lr-decay-style constant --train-iters 1000000 --eval-iters 0 > steps 2> messages &
until (($(count '"event":"step"') >= 5)); do kill -0 $!; sleep 0.01; done
kill -TERM $!
ended=$(count '"event":"step"')
wait $! && fail "went on"
last=$(sed -n 's/^mt-pretrain: stopped by SIGTERM after iteration \([0-9]*\);.*/\1/p' messages)
((last <= ended + 2)) || fail "$ended steps had ended, and $last were computed"
echo "$((last - ended)) steps more than the $ended that had ended"
