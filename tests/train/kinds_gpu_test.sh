#!/bin/bash
# Every kind of model trains on a GPU as on the CPU: losses and gradient norms of eight steps in fp32, and near them in bf16.
#
#   tests/train/kinds_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --quiet --json --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128
     --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --train-iters 8 --lr 1e-3 --adam-eps 1e-5
     --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0)
steps() {  # of a run: "loss norm" of each step
  "${run[@]}" "$@" | sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/p'
}
failed=0
near() {  # NAME LOSS NORM: how far the second run's steps are from the first's, and at most may be
  paste -d ' ' first second | awk -v name="$1" -v loss="$2" -v norm="$3" '
    function apart(a, b) { return (a > b ? a - b : b - a) / a }
    NF != 4 { bad = 1 }
    apart($1, $3) > losses { losses = apart($1, $3) }
    apart($2, $4) > norms { norms = apart($2, $4) }
    END {
      bad = bad || NR != 8 || !(losses <= loss && norms <= norm)
      print name ": losses " losses + 0 ", norms " norms + 0 (bad ? ", but may be " loss ", " norm " (" NR " steps)" : "")
      exit bad
    }' || failed=1
}
kind() {  # NAME OPTION…
  local name=$1
  shift
  steps --device cpu "$@" > first
  steps --device cuda "$@" > second
  near "$name" 1e-5 1e-4
  steps --device cuda --bf16 "$@" > second
  near "$name, bf16" 2e-2 1e-1
}

llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
       --untie-embeddings-and-output-weights --ffn-hidden-size 256)
again=(--recompute-granularity selective --recompute-modules moe_act)
groups=(--group-query-attention --num-query-groups 2)
latent=(--multi-latent-attention --q-lora-rank 48 --kv-lora-rank 32 --qk-head-dim 32 --qk-pos-emb-head-dim 16 --v-head-dim 32)
experts=(--num-experts 6 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2)
sigmoid=(--num-experts 8 --moe-router-topk 2 --moe-router-score-function sigmoid --moe-router-enable-expert-bias
         --moe-router-load-balancing-type none --moe-router-num-groups 4 --moe-router-group-topk 2
         --moe-shared-expert-intermediate-size 128)
mamba=(--model-type mamba --mamba-head-dim 32 --mamba-state-dim 16 --mamba-num-groups 2 --position-embedding-type none
       --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights)
delta=(--experimental-attention-variant gated_delta_net --linear-attention-freq 2 --attention-output-gate --qk-layernorm
       --apply-layernorm-1p --linear-num-key-heads 2 --linear-num-value-heads 4)

kind gpt
kind llama "${llama[@]}" "${groups[@]}"
kind windows "${llama[@]}" "${groups[@]}" --window-size 32,0 --window-attn-skip-freq 2
kind norms "${llama[@]}" --qk-layernorm --apply-layernorm-1p --final-logit-softcapping 30
kind sinks "${llama[@]}" "${groups[@]}" --softmax-type learnable
kind latents "${llama[@]}" "${latent[@]}"
kind 'further tokens' "${llama[@]}" --mtp-num-layers 2 --mtp-loss-scaling-factor 0.3
kind experts "${llama[@]}" "${experts[@]}"
kind 'experts, routers in fp32' "${llama[@]}" "${experts[@]}" --moe-router-dtype fp32 --moe-z-loss-coeff 1e-3
kind 'experts, routers in fp64' "${llama[@]}" "${experts[@]}" --moe-router-dtype fp64 --moe-z-loss-coeff 1e-3 "${again[@]}"
kind 'experts of GeLU' "${llama[@]/--swiglu/--no-bias-gelu-fusion}" "${experts[@]}" --moe-shared-expert-intermediate-size 64
kind 'experts of squared ReLU' "${llama[@]/--swiglu/--squared-relu}" "${experts[@]}" --moe-layer-freq 2 "${again[@]}"
kind 'experts with biases, routers in fp32' "${experts[@]}" --moe-router-dtype fp32
kind clamped "${llama[@]/--swiglu/--quick-geglu}" "${experts[@]}" --glu-linear-offset 1 --activation-func-clamp-value 0.5
kind 'latents, sigmoid experts' "${llama[@]}" "${latent[@]}" "${sigmoid[@]}" --moe-layer-freq '[0,1,1,1]'
kind 'latents, experts, further tokens' "${llama[@]}" "${latent[@]}" "${experts[@]}" --mtp-num-layers 1
kind 'experts of latents' "${llama[@]}" "${experts[@]}" --moe-latent-size 48 --moe-shared-expert-intermediate-size 64
kind 'root experts' "${llama[@]}" "${sigmoid[@]/sigmoid/sqrtsoftplus}"
kind 'root experts with a loss' "${llama[@]}" "${experts[@]}" --moe-router-score-function sqrtsoftplus --moe-z-loss-coeff 1e-3
kind 'experts by quantiles' "${llama[@]}" --num-experts 4 --moe-router-topk 2 --moe-router-load-balancing-type quantile_balancing \
     --moe-router-quantile-balancing-ema 0.5
kind 'clipped heads' "${llama[@]}" "${groups[@]}" --qk-clip --qk-clip-threshold 0.02
kind 'clipped latents' "${llama[@]}" "${latent[@]}" --qk-clip --qk-clip-threshold 0.02
kind mamba "${mamba[@]}"
kind hybrid "${mamba[@]}" --hybrid-override-pattern 'M*M-'
kind 'hybrid, sigmoid experts, further tokens' "${mamba[@]}" "${sigmoid[@]}" --squared-relu --hybrid-layer-pattern 'ME*E/*E'
kind 'gated delta rule' "${llama[@]}" "${groups[@]}" "${delta[@]}" --rotary-percent 0.25
kind 'gated delta rule of small heads, experts' "${llama[@]}" "${groups[@]}" "${delta[@]}" "${experts[@]}" --linear-key-head-dim 24 \
     --linear-value-head-dim 36 --linear-conv-kernel-dim 3 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1

# Routers of a GPU choose what the CPU's have chosen, and weigh it by their own scores.
for more in '' '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1'; do
  rm -f routes again
  # shellcheck disable=SC2086  # options
  {
    steps --device cpu "${llama[@]}" "${experts[@]}" $more --moe-route-trace routes > first
    steps --device cuda --bf16 "${llama[@]}" "${experts[@]}" $more --moe-route-replay routes --moe-route-trace again > second
  }
  near "routes${more:+, recomputed}, bf16" 2e-2 1e-1
  cmp routes again || failed=1
done
exit $failed
