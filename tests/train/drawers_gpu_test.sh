#!/bin/bash
# Ranks on GPUs that draw texts while others learn: these learn what one GPU does alone that draws as far ahead, to the byte, also from
# experts, beside a reference, of a run that a signal ends and that goes on, and of ranks that share matrices; who waits for long is no
# fault, and who is killed or stopped is named in time.
#
#   tests/train/drawers_gpu_test.sh BIN    the folder with mt-finetune; exit code 125 without two GPUs
set -eu -o pipefail
bin=$(realpath "$1")
testdata=$(realpath "$(dirname "$0")/../../testdata")
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
echo '{"prompt":"Mia has"}' > prompts.jsonl
grpo() {
  exec "$bin/mt-finetune" grpo --load "${loaded:-$testdata/trl/llama}" --prompts "$folder/prompts.jsonl" --num-generations 4 \
    --global-batch-size 8 --micro-batch-size 4 --seq-length 32 --max-completion-length 12 --max-lag 2 --importance-correction truncate --lr 1e-3 \
    --lr-decay-style constant --adam-eps 1e-5 --log-interval 1 --quiet --json "$@"
}
worth=(--reward "cmd:jq -c '{id, reward: (1 / (1 + (.response | length)))}'")
same() {  # NAME A B: the weights and the texts of two runs
  local file
  "$bin/mt-convert" diff "$2" "$3" && for file in "$2"/rollouts/*.jsonl; do cmp "$file" "$3/rollouts/${file##*/}"; done &&
    echo "$1: the same weights and texts" || failed=1
}

for dtype in fp32 bf16; do
  run=(--dtype "$dtype" --train-iters 5 "${worth[@]}" --beta 0.1)
  (grpo --device cuda "${run[@]}" --save "both-$dtype") > first
  (grpo --gpus 2 --rl-generation-ranks 1 "${run[@]}" --save "apart-$dtype") > second
  same "$dtype" "both-$dtype" "apart-$dtype"
  for ((i = 0; i < 5; ++i)); do
    (grpo --gpus 2 --rl-generation-ranks 1 "${run[@]}" --save "parts-$dtype" --load "$([[ $i == 0 ]] && echo "$testdata/trl/llama" ||
      echo "parts-$dtype")" --reference "$testdata/trl/llama" --exit-interval 1) > second
  done
  same "$dtype, in parts" "both-$dtype" "parts-$dtype"
  run=(--dtype "$dtype" --train-iters 4 "${worth[@]}" --moe-enable-routing-replay)
  (loaded=$testdata/trl/mixtral grpo --device cuda "${run[@]}" --save "mixed-$dtype") > first
  (loaded=$testdata/trl/mixtral grpo --gpus 2 --rl-generation-ranks 1 "${run[@]}" --save "routed-$dtype") > second
  same "experts, $dtype" "mixed-$dtype" "routed-$dtype"
done
if ((gpus >= 4)); then
  run=(--dtype fp32 --train-iters 4 "${worth[@]}")
  (grpo --gpus 2 "${run[@]}" --save two) > first
  (grpo --gpus 4 --rl-generation-ranks 2 "${run[@]}" --save four) > second
  same 'two and two' two four
  run+=(--tensor-model-parallel-size 2)
  (grpo --gpus 2 --rl-inference-tensor-model-parallel-size 1 "${run[@]}" --save matrices) > first
  (grpo --gpus 4 --rl-generation-ranks 2 "${run[@]}" --save handed) > second
  same 'two that share matrices' matrices handed
fi

# SIGNAL comes to that rank, or to all: how long until the end, its code, and what is said.
fault() {  # NAME SIGNAL RANK SECONDS CODE LINE OPTION…
  local name=$1 signal=$2 rank=$3 most=$4 expected=$5 line=$6 children supervisor begin code=0
  shift 6
  (grpo --gpus 2 --rl-generation-ranks 1 --distributed-timeout-minutes 1 --dtype fp32 --train-iters 1000000 "${worth[@]}" "$@" \
    > "$name.steps" 2> "$name.messages") &
  supervisor=$!
  until (($(grep -c '"event":"step"' "$name.steps") >= 3)); do
    kill -0 $supervisor 2> /dev/null || { cat "$name.messages"; return 1; }
    sleep 0.1
  done
  read -ra children <<< "$(cat /proc/$supervisor/task/$supervisor/children)"
  begin=$EPOCHREALTIME
  if [[ $rank == all ]]; then kill -"$signal" $supervisor; else kill -"$signal" "${children[rank]}"; fi
  wait $supervisor || code=$?
  awk -v from="$begin" -v to="$EPOCHREALTIME" -v most="$most" -v code=$code -v expected="$expected" -v name="$name" '
    BEGIN { took = to - from; printf "%s: exit code %d after %.1f s\n", name, code, took; exit !(took <= most && code == expected) }' &&
    grep -q "$line" "$name.messages" || { cat "$name.messages"; return 1; }
}
# The first answer of all takes longer than ranks wait for others, once to who judges and once to who draws.
slow() {  # NAME OPTION…
  local name=$1
  shift
  (grpo --gpus 2 --rl-generation-ranks 1 --distributed-timeout-minutes 1 --dtype fp32 --train-iters 3 "$@") > "$name.steps" 2> "$name.messages" &&
    (($(grep -c '"event":"step"' "$name.steps") == 3)) && echo "$name: nobody is missed" || { cat "$name.messages"; return 1; }
}
once() { echo "cmd:if mkdir $folder/$1 2> /dev/null; then sleep 75; fi; jq -c '{id, done: true, reward: 1} | $2'"; }
jobs=()
slow judge --reward-timeout 120 --reward "$(once judged 'del(.done)')" & jobs+=($!)
slow environment --environment-timeout 120 --environment "$(once asked .)" & jobs+=($!)
host='([^)]*)'
fault killed KILL 1 20 137 "rank 1 $host is gone: its connection was lost" & jobs+=($!)
fault orphaned KILL 0 20 137 "rank 0 was killed by SIGKILL" & jobs+=($!)
fault stopped STOP 1 90 76 "rank 1 $host has said nothing for [0-9.]* s: its process is stopped, or its host cannot be reached" & jobs+=($!)
fault asked TERM all 20 75 'stopped by SIGTERM after iteration [0-9]*' --save asked & jobs+=($!)
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
done=$(cat asked/latest_checkpointed_iteration.txt)
(loaded=asked grpo --gpus 2 --rl-generation-ranks 1 --dtype fp32 --train-iters 1000000 "${worth[@]}" --save asked \
  --exit-interval $((done + 3))) > second
(($(grep -c '"event":"step"' second) == 3)) && echo 'a run that was asked to end goes on' || failed=1
exit $failed
