#!/bin/bash
# Two towers on a GPU: their losses follow the CPU's, in fp32 and in bf16, a run that stops and goes on saves the bits of one
# that does not, and two GPUs have a batch together.
#
#   tests/train/ict_gpu_test.sh BIN    the folder with mt-finetune and mt-preprocess; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
repository=$(realpath "$(dirname "$0")/../..")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$repository/scripts/make-topics" topics --documents 200
words=(--tokenizer-type BertWordPieceLowerCase --vocab-file topics/vocab.txt)
"$bin/mt-preprocess" --quiet --input topics/documents.jsonl --output-prefix blocks "${words[@]}" --split-sentences --lang en
"$bin/mt-preprocess" --quiet --input topics/documents.jsonl --output-prefix titles --json-keys title "${words[@]}"
run=("$bin/mt-finetune" ict --quiet --num-layers 2 --hidden-size 128 --num-attention-heads 2 --seq-length 48
     --max-position-embeddings 48 --global-batch-size 16 --lr 1e-3 --train-iters 12 --eval-iters 1 --eval-interval 4
     --split 90,10,0 --data-path blocks_text_sentence --titles-data-path titles_title_document
     --retriever-report-topk-accuracies 1 --retriever-score-scaling --biencoder-projection-dim 64)
losses() { sed -n 's/.*"event":"\(step\|eval\)".*"loss":\([^,}]*\).*/\1 \2/p' "$1/run.jsonl"; }
near() {  # RELATIVE RUN: to the CPU's
  (($(losses "$2" | wc -l) >= 15)) || { echo "$2: $(losses "$2")"; exit 1; }
  paste -d' ' <(losses cpu) <(losses "$2") | awk -v most="$1" -v run="$2" '
    function off(a, b) { return (a > b ? a - b : b - a) / a }
    off($2, $4) > worst { worst = off($2, $4) }
    END { print run ": " worst + 0 " from the CPU, at most " most; exit !(worst <= most) }'
}
"${run[@]}" --micro-batch-size 16 --device cpu --save cpu
"${run[@]}" --micro-batch-size 16 --device cuda --save fp32
near 1e-3 fp32
if (($(nvidia-smi -L | wc -l) > 1)); then
  "${run[@]}" --micro-batch-size 8 --ranks 2 --device cuda --use-distributed-optimizer --overlap-grad-reduce --save two
  near 1e-3 two
fi
for options in '' --no-cuda-graphs '--biencoder-shared-query-context-model --recompute-granularity full --recompute-method uniform --recompute-num-layers 1'; do
  read -ra more <<< "$options"
  "${run[@]}" --micro-batch-size 16 --device cuda --bf16 --save whole "${more[@]}"
  [[ $options == *shared* ]] || near 2e-2 whole
  until [[ -d parts/iter_0000012 ]]; do
    "${run[@]}" --micro-batch-size 16 --device cuda --bf16 --save parts --load parts --exit-interval 5 "${more[@]}"
  done
  diff -r whole/iter_0000012 parts/iter_0000012
  echo "bf16 $options: goes on with the same bits"
  rm -r whole parts
done
