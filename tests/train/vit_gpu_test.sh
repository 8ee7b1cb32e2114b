#!/bin/bash
# A Vision Transformer on a GPU, one that tells classes and one that paints: its losses follow the CPU's, in fp32 and in bf16, and a run that stops and goes on saves
# the bits of one that does not.
#
#   tests/train/vit_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
repository=$(realpath "$(dirname "$0")/../..")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$repository/scripts/make-shapes" --images 64 train
"$repository/scripts/make-shapes" --images 32 --seed 2 valid
all=("$bin/mt-pretrain" --model-type vit --quiet --num-layers 2 --hidden-size 128 --num-attention-heads 2 --img-h 32
     --img-w 48 --patch-dim 8 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 12
     --data-path train valid --eval-iters 1 --eval-interval 4)
losses() { sed -n 's/.*"event":"\(step\|eval\)".*"loss":\([^,}]*\).*/\1 \2/p' "$1/run.jsonl"; }
near() {  # RELATIVE RUN: to the CPU's
  (($(losses "$2" | wc -l) >= 15)) || { echo "$2: $(losses "$2")"; exit 1; }
  paste -d' ' <(losses cpu) <(losses "$2") | awk -v most="$1" -v run="$2" '
    function off(a, b) { return (a > b ? a - b : b - a) / a }
    off($2, $4) > worst { worst = off($2, $4) }
    END { print run ": " worst + 0 " from the CPU, at most " most; exit !(worst <= most) }'
}
for type in classify inpaint; do
  run=("${all[@]}" --vision-pretraining-type "$type")
  [[ $type == inpaint ]] || run+=(--num-classes 4)
  "${run[@]}" --device cpu --save cpu
  "${run[@]}" --device cuda --save fp32
  near 1e-3 fp32
  for options in '' --no-cuda-graphs '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1'; do
    read -ra more <<< "$options"
    "${run[@]}" --device cuda --bf16 --save whole "${more[@]}"
    near 2e-2 whole
    until [[ -d parts/iter_0000012 ]]; do
      "${run[@]}" --device cuda --bf16 --save parts --load parts --exit-interval 5 "${more[@]}"
    done
    diff -r whole/iter_0000012 parts/iter_0000012
    echo "$type, bf16 $options: goes on with the same bits"
    rm -r whole parts
  done
  rm -r cpu fp32
done
