#!/bin/bash
# Layouts over 2, 3 and 4 GPUs train as one GPU does, dropout on and no more columns of the vocabulary than with one: losses and gradient norms of five steps,
# in fp32, and in bf16 of sequences so long that attention's kernels share out their work in other ways.
#
#   tests/train/layouts_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without two GPUs
set -eu -o pipefail
bin=$1
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
run=("$bin/mt-pretrain" --device cuda --quiet --json --num-layers 4 --hidden-size 256 --num-attention-heads 8
     --seq-length 264 --max-position-embeddings 264 --micro-batch-size 2 --global-batch-size 24 --train-iters 5
     --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 0
     --adam-eps 1e-5)  # with less, where gradients are little but rounding's noise Adam steps by it, and 1e-9 grows: 1e-8 to 1e-5, 1e-6 to 1.04e-6

steps() {  # of a run: "loss norm" of each step
  "${run[@]}" "$@" | sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/p'
}
one=$(steps) within=(1e-7 1e-6)  # of losses and norms
(($(wc -l <<< "$one") == 5))

failed=0
same() {  # RANKS OPTIONS...: as one GPU
  local ranks=$1
  shift
  ((ranks <= gpus)) || return 0
  paste -d ' ' <(echo "$one") <(steps --gpus "$ranks" "$@") | awk -v name="$ranks GPUs $*" -v loss="${within[0]}" -v norm="${within[1]}" '
    function apart(a, b) { return a > b ? (a - b) / a : (b - a) / b }
    NF != 4 { bad = 1 }
    apart($1, $3) > loss || apart($2, $4) > norm { bad = 1; print name ": step " NR ": " $0 }
    END { if (bad || NR != 5) { print name ": " NR " steps"; exit 1 } print name ": same" }' || failed=1
}

sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
for ranks in 2 3 4; do
  same $ranks
  same $ranks --overlap-grad-reduce
  same $ranks --profile --profile-step-start 2 --profile-step-end 3  # of rank 0 alone
  same $ranks --use-distributed-optimizer
  same $ranks "${sharded[@]}"
  same $ranks "${sharded[@]}" --data-parallel-sharding-strategy optim_grads
  same $ranks "${sharded[@]}" --data-parallel-sharding-strategy optim_grads_params
  for how in p2p all_gather; do
    same $ranks --context-parallel-size $ranks --cp-comm-type $how
    same $ranks --context-parallel-size $ranks --cp-comm-type $how --no-cuda-graphs
  done
  ((ranks != 3)) || continue  # of four layers, and of eight heads
  same $ranks --tensor-model-parallel-size $ranks
  same $ranks --tensor-model-parallel-size $ranks --sequence-parallel
  same $ranks --tensor-model-parallel-size $ranks --sequence-parallel --no-cuda-graphs
  same $ranks --tensor-model-parallel-size $ranks --sequence-parallel --tp-comm-overlap
  same $ranks --pipeline-model-parallel-size $ranks
  same $ranks --pipeline-model-parallel-size $ranks --no-cuda-graphs
  same $ranks --pipeline-model-parallel-size $ranks --pipeline-schedule gpipe
  same $ranks --pipeline-model-parallel-size $ranks --pipeline-schedule zero-bubble
  same $ranks --context-parallel-size $ranks --cp-comm-type a2a
  same $ranks --context-parallel-size $ranks --cp-comm-type a2a --no-cuda-graphs
  same $ranks --context-parallel-size $ranks --cp-comm-type a2a --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
done
same 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1
same 4 --tensor-model-parallel-size 2 --sequence-parallel "${sharded[@]}"
same 4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel
same 4 --pipeline-model-parallel-size 2 "${sharded[@]}"
same 4 --context-parallel-size 2 --cp-comm-type a2a --tensor-model-parallel-size 2 --sequence-parallel
same 4 --context-parallel-size 2 --cp-comm-type a2a "${sharded[@]}"
same 4 --context-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel
same 4 --context-parallel-size 2 --pipeline-model-parallel-size 2
same 4 --context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2

# The mixers of a hybrid exchange tokens for heads; of two groups alone, four ranks have one twice each.
run+=(--hybrid-layer-pattern 'MM*-' --mamba-head-dim 32 --mamba-state-dim 16 --mamba-num-groups 2
      --position-embedding-type none --normalization RMSNorm --disable-bias-linear)
one=$(steps) within=(1e-6 1e-5)
for ranks in 2 4; do
  same $ranks --context-parallel-size $ranks
  same $ranks --context-parallel-size $ranks --cp-comm-type a2a
  same $ranks --context-parallel-size $ranks --cp-comm-type a2a --no-cuda-graphs
done
same 4 --context-parallel-size 2 --cp-comm-type a2a --tensor-model-parallel-size 2 --sequence-parallel
same 4 --context-parallel-size 2 --pipeline-model-parallel-size 2

run=("$bin/mt-pretrain" --device cuda --quiet --json --num-layers 2 --hidden-size 1024 --num-attention-heads 8 --bf16
     --seq-length 6144 --max-position-embeddings 6144 --micro-batch-size 1 --global-batch-size 1 --train-iters 5
     --lr 1e-6 --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 0)  # larger steps make rounding grow
one=$(steps) within=(1e-4 2e-3)
for ranks in 2 3 4; do
  for how in p2p all_gather; do
    same $ranks --context-parallel-size $ranks --cp-comm-type $how
    same $ranks --context-parallel-size $ranks --cp-comm-type $how --no-cuda-graphs
  done
  ((ranks == 3)) || same $ranks --context-parallel-size $ranks --cp-comm-type a2a
done

# Codes of weights are gathered to the bits of a run that gathers weights.
if nvidia-smi --query-gpu=compute_cap --format=csv,noheader | awk 'NR == 1 { cap = $1 } END { exit !(cap > 8.8) }'; then  # they have products of eight bits
  run=("$bin/mt-pretrain" --device cuda --quiet --json --num-layers 2 --hidden-size 256 --num-attention-heads 4 --bf16 --fp8-format e4m3
       --seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 24 --train-iters 5
       --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 0 --use-distributed-optimizer)
  codes() {  # RANKS OPTIONS...
    local values
    (($1 <= gpus)) || return 0
    values=$(steps --gpus "$@")
    if (($(wc -l <<< "$values") == 5)) && [[ $(steps --gpus "$@" --fp8-param-gather) == "$values" ]]; then
      echo "$1 GPUs ${*:2}: the same bits"
    else
      echo "$1 GPUs ${*:2}: other bits" && failed=1
    fi
  }
  for ranks in 2 3 4; do
    for recipe in delayed tensorwise blockwise; do
      codes $ranks --fp8-recipe $recipe
      codes $ranks --fp8-recipe $recipe --overlap-grad-reduce --overlap-param-gather
    done
  done
  codes 4 --fp8-recipe tensorwise --tensor-model-parallel-size 2 --sequence-parallel
fi

# Of ranks that share experts, graphs change no bit, nor do shared experts beside the others; and what routers choose is written as
# one GPU writes it.
run=("$bin/mt-pretrain" --device cuda --quiet --json --num-layers 4 --hidden-size 256 --num-attention-heads 8 --bf16
     --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope
     --num-experts 8 --moe-ffn-hidden-size 128 --moe-shared-expert-intermediate-size 192 --moe-aux-loss-coeff 1e-2
     --seq-length 256 --max-position-embeddings 256 --micro-batch-size 2 --global-batch-size 24 --train-iters 5
     --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 0)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
steps --moe-route-trace "$folder/routes" > /dev/null
shared() {  # RANKS OPTIONS...
  local ranks=$1 how more
  shift
  ((ranks <= gpus)) || return 0
  for how in allgather alltoall; do
    one=$(steps --gpus "$ranks" "$@" --moe-token-dispatcher-type $how)
    for more in --no-cuda-graphs --moe-shared-expert-overlap '--moe-shared-expert-overlap --no-cuda-graphs'; do
      [[ $how == alltoall || $more == --no-cuda-graphs ]] || continue
      # shellcheck disable=SC2086  # options
      if [[ $(steps --gpus "$ranks" "$@" --moe-token-dispatcher-type $how $more) != "$one" ]]; then
        echo "$ranks GPUs $* $how $more: other bits"
        failed=1
      fi
    done
  done
  rm -f "$folder/again"
  steps --gpus "$ranks" "$@" --moe-route-replay "$folder/routes" --moe-route-trace "$folder/again" > /dev/null
  cmp "$folder/routes" "$folder/again" || failed=1
}
for ranks in 2 4; do
  shared $ranks --expert-model-parallel-size $ranks
  shared $ranks --tensor-model-parallel-size $ranks --sequence-parallel
  shared $ranks --pipeline-model-parallel-size $ranks
done
shared 4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel
shared 4 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2

# Messages of pipelines that are larger than what NCCL keeps of them, so that they leave only as they are taken.
run=("$bin/mt-pretrain" --device cuda --quiet --json --num-layers 12 --hidden-size 2048 --num-attention-heads 16 --bf16
     --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 24 --train-iters 5
     --lr 1e-6 --mock-data --tokenizer-type NullTokenizer --vocab-size 2000 --eval-iters 0)
one=$(steps)
for ranks in 2 3 4; do
  same $ranks --pipeline-model-parallel-size $ranks
  same $ranks --pipeline-model-parallel-size $ranks --pipeline-schedule zero-bubble
  for layers in 1 2; do
    ((12 % (ranks * layers) != 0)) ||
      same $ranks --pipeline-model-parallel-size $ranks --num-layers-per-virtual-pipeline-stage $layers
  done
done
exit $failed
