#!/bin/bash
# A run on two GPUs that stops and goes on saves the bits of one that does not, in each kind of layout, dropout on.
#
#   tests/train/resume_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without two GPUs
set -eu -o pipefail
bin=$(realpath "$1")
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --gpus 2 --bf16 --quiet --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 256
     --max-position-embeddings 256 --micro-batch-size 2 --global-batch-size 16 --train-iters 7 --lr 1e-3 --lr-warmup-iters 2
     --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 1 --eval-interval 2)

steps() { sed -n 's/.*"event":"\(step\|eval\)".*"iteration":\([0-9]*\),.*"loss":\([^,}]*\).*/\1 \2 \3/p' "$1/run.jsonl"; }
jobs=()
compare() {  # OPTION…
  mkdir "${#jobs[@]}"
  cd "${#jobs[@]}"
  "${run[@]}" "$@" --save whole
  until [[ -d parts/iter_0000007 ]]; do "${run[@]}" "$@" --save parts --load parts --exit-interval 4; done
  (($(steps whole | wc -l) == 12)) || { echo "$*: $(steps whole)"; exit 1; }
  if diff <(steps whole) <(steps parts) && diff -r whole/iter_0000007 parts/iter_0000007; then
    echo "$*: same"
  else
    echo "$*: differs"
    exit 1
  fi
}
same() {  # OPTION…: begins a comparison, which goes on beside the others
  compare "$@" &
  jobs+=($!)
}
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
same --overlap-grad-reduce
same "${sharded[@]}"
same "${sharded[@]}" --data-parallel-sharding-strategy optim_grads_params
same --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap
same --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1
same --context-parallel-size 2
if nvidia-smi --query-gpu=compute_cap --format=csv,noheader | awk 'NR == 1 { cap = $1 } END { exit !(cap > 8.8) }'; then  # they have products of eight bits
  same --fp8-format hybrid --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap
  same --fp8-format hybrid --fp8-recipe tensorwise "${sharded[@]}" --data-parallel-sharding-strategy optim_grads_params
fi
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
exit $failed
