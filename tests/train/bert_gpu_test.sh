#!/bin/bash
# A BERT on a GPU: its losses follow the CPU's, in fp32 and in bf16, and a run that stops and goes on saves the bits of
# one that does not.
#
#   tests/train/bert_gpu_test.sh BIN    the folder with mt-pretrain and mt-preprocess; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
data=$(realpath "$(dirname "$0")/../../testdata")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$bin/mt-preprocess" --quiet --input "$data/stories/stories.jsonl" --output-prefix stories --split-sentences --lang en \
  --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/wordpiece/vocab.txt"
run=("$bin/mt-pretrain" --model-type bert --quiet --num-layers 2 --hidden-size 128 --num-attention-heads 2 --seq-length 128
     --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 12 --split 90,5,5
     --data-path stories_text_sentence --eval-iters 1 --eval-interval 4)
losses() { sed -n 's/.*"event":"\(step\|eval\)".*"loss":\([^,}]*\),"sop_loss":\([^,}]*\).*/\1 \2 \3/p' "$1/run.jsonl"; }
near() {  # RELATIVE RUN: to the CPU's
  (($(losses "$2" | wc -l) == 17)) || { echo "$2: $(losses "$2")"; exit 1; }
  paste -d' ' <(losses cpu) <(losses "$2") | awk -v most="$1" -v run="$2" '
    function off(a, b) { return (a > b ? a - b : b - a) / a }
    { if (off($2, $5) > worst) worst = off($2, $5); if (off($3, $6) > worst) worst = off($3, $6) }
    END { print run ": " worst + 0 " from the CPU, at most " most; exit !(worst <= most) }'
}
"${run[@]}" --device cpu --save cpu
"${run[@]}" --device cuda --save fp32
near 1e-3 fp32
for options in '' '--ckpt-format torch' --no-cuda-graphs --bert-no-binary-head '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1'; do
  read -ra more <<< "$options"
  "${run[@]}" --device cuda --bf16 --save whole "${more[@]}"
  [[ $options == --bert-no-binary-head ]] || near 2e-2 whole
  until [[ -d parts/iter_0000012 ]]; do
    "${run[@]}" --device cuda --bf16 --save parts --load parts --exit-interval 5 "${more[@]}"
  done
  diff -r whole/iter_0000012 parts/iter_0000012
  echo "bf16 $options: goes on with the same bits"
  rm -r whole parts
done
