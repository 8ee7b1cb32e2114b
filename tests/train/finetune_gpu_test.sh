#!/bin/bash
# What mt-finetune trains beside texts alone, on a GPU: a LLaVA with images, with the losses of the CPU and the bits of a run that does
# not stop, whose words are the CPU's, too; and a model that learns from its own texts, from stored ones as the CPU does, and from drawn
# ones as from those that it kept, also with a value head, and of texts that go on with each step's weights as the CPU's do.
#
#   tests/train/finetune_gpu_test.sh BIN    the folder with mt-finetune; exit code 125 without a GPU
set -eu -o pipefail
bin=$(realpath "$1")
testdata=$(realpath "$(dirname "$0")/../../testdata")
nvidia-smi -L > /dev/null 2>&1 || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
steps() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*"grad_norm":\([^,}]*\).*/\1 \2/p' "$1"; }
near() {  # NAME STEPS LOSS NORM [NORMS [LEAST]]: how far the steps of second are from those of first, and at most may be; of so many the norms; losses below LEAST are taken as if they were as large
  paste -d ' ' <(steps first) <(steps second) | awk -v name="$1" -v steps="$2" -v loss="$3" -v norm="$4" -v with_norm="${5:-$2}" -v least="${6:-1e-9}" '
    function size(a) { return a < 0 ? -a : a }
    function apart(a, b, least) { return size(a - b) / (size(a) > least ? size(a) : least) }
    NF != 4 { bad = 1 }
    apart($1, $3, least) > losses { losses = apart($1, $3, least) }
    NR <= with_norm && apart($2, $4, 1e-9) > norms { norms = apart($2, $4, 1e-9) }
    END {
      bad = bad || NR != steps || !(losses <= loss && norms <= norm)
      print name ": losses " losses + 0 ", norms " norms + 0 (bad ? ", but may be " loss ", " norm " (" NR " steps)" : "")
      exit bad
    }' || failed=1
}

mkdir data
cp "$testdata"/images/{rgb8.png,palette8.png,rgba8.png,444.jpg} data
cat > data/lines.jsonl <<'END'
{"messages":[{"role":"user","content":"<image>A?"},{"role":"assistant","content":"cat"}],"images":["rgb8.png"]}
{"messages":[{"role":"user","content":[{"type":"image"},{"type":"text","text":"or"},{"type":"image"}]},{"role":"assistant","content":"dog."}],"images":["palette8.png","rgba8.png"]}
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"yes"}]}
{"messages":[{"role":"user","content":"B<image>"},{"role":"assistant","content":"no"}],"images":["444.jpg"]}
END
for tower in llava llava-siglip; do
  model=$testdata/models/$tower
  sft() {
    "$bin/mt-finetune" sft --load "${from:-$model}" --train-data data/lines.jsonl --valid-split 0 --seq-length 56 --no-shuffle --packing none \
      --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --min-lr 1e-3 --lr-decay-style constant --lr-warmup-fraction 0 \
      --adam-eps 1e-5 --train-iters 4 --eval-iters 0 --log-interval 1 --quiet --json "$@"
  }
  for options in '' --freeze-LM '--freeze-LM --freeze-ViT'; do
    read -ra more <<< "$options"
    sft --device cpu --dtype fp32 "${more[@]}" > first
    sft --device cuda --dtype fp32 "${more[@]}" > second
    near "$tower $options" 4 1e-5 1e-4
    sft --device cuda --bf16 "${more[@]}" > second
    near "$tower $options, bf16" 4 3e-2 5e-2 1  # what rounding changes grows from step to step
  done
  sft --device cuda --bf16 --save "$tower-once" > first
  sft --device cuda --bf16 --save "$tower-twice" --exit-interval 2 > /dev/null
  from=$tower-twice sft --device cuda --bf16 --save "$tower-twice" > /dev/null
  "$bin/mt-convert" diff "$tower-once" "$tower-twice" && echo "$tower: goes on with the same bits" || failed=1
  for device in cpu cuda; do
    "$bin/mt-generate" --load "$model" --device "$device" --dtype fp32 --temperature 0 --num-tokens 12 --json "USER: <image>A?
ASSISTANT:" --image data/444.jpg | grep -o '"token_ids":[^]]*' > "$device"
  done
  diff cpu cuda && echo "$tower: the same words" || failed=1
done

grpo() {
  "$bin/mt-finetune" grpo --load "${loaded:-$testdata/trl/llama}" --num-generations 4 --global-batch-size 8 --micro-batch-size 4 --seq-length 32 \
    --train-iters 4 --lr 1e-3 --lr-decay-style constant --adam-eps 1e-5 --log-interval 1 --progress none --quiet --json "$@"
}
echo '{"prompt":"Mia has"}' > prompts.jsonl
for dtype in fp32 bf16; do
  grpo --device cuda --dtype "$dtype" --prompts prompts.jsonl --reward "cmd:jq -c '{id, reward: (1 / (1 + (.response | length)))}'" \
    --max-completion-length 12 --save "drawn-$dtype" --save-rollouts "kept-$dtype" > first
  grpo --device cuda --dtype "$dtype" --rollouts "kept-$dtype"/*.jsonl --save "stored-$dtype" > second
  "$bin/mt-convert" diff "drawn-$dtype" "stored-$dtype" && echo "grpo, $dtype: learns from kept texts as from drawn ones" || failed=1
done
grpo --device cpu --dtype fp32 --rollouts kept-fp32/*.jsonl > first
grpo --device cuda --dtype fp32 --rollouts kept-fp32/*.jsonl > second
near grpo 4 1e-4 1e-4
# Texts that share samples, with ratios of whole texts.
packed=(--packing bfd --importance-sampling-level sequence)
grpo --device cpu --dtype fp32 --rollouts kept-fp32/*.jsonl "${packed[@]}" > first
grpo --device cuda --dtype fp32 --rollouts kept-fp32/*.jsonl "${packed[@]}" > second
near 'grpo, packed' 4 1e-4 1e-4
# With a value head, twice from the same texts; and texts in flight, which go on with each step's weights.
reward=(--reward "cmd:jq -c '{id, reward: (1 / (1 + (.response | length)))}'" --max-completion-length 12)
valued=(--advantage gae --value-loss-weight 0.5 --num-iterations 2)
for dtype in fp32 bf16; do
  grpo --device cuda --dtype "$dtype" --prompts prompts.jsonl "${reward[@]}" "${valued[@]}" --save "values-$dtype" --save-rollouts "valued-$dtype" \
    > first
  grpo --device cuda --dtype "$dtype" --rollouts "valued-$dtype"/*.jsonl "${valued[@]}" --save "replayed-$dtype" > second
  "$bin/mt-convert" diff "values-$dtype" "replayed-$dtype" && echo "grpo, values, $dtype: the same from kept texts" || failed=1
  grpo --device cuda --dtype "$dtype" --prompts prompts.jsonl "${reward[@]}" --max-lag 2 --in-flight-weight-updates --save "flown-$dtype" \
    --save-rollouts "flight-$dtype" > first
  grpo --device cuda --dtype "$dtype" --rollouts "flight-$dtype"/*.jsonl --save "landed-$dtype" > second
  "$bin/mt-convert" diff "flown-$dtype" "landed-$dtype" && echo "grpo, in flight, $dtype: the same from kept texts" || failed=1
  jq -e -s '[.[].versions[]] | unique == [0, 1, 2]' "flight-$dtype/step-0000003.jsonl" > /dev/null || { echo "versions of texts in flight"; failed=1; }
done
grpo --device cpu --dtype fp32 --rollouts valued-fp32/*.jsonl "${valued[@]}" > first
grpo --device cuda --dtype fp32 --rollouts valued-fp32/*.jsonl "${valued[@]}" > second
near 'grpo, values' 4 1e-4 1e-4 4 1  # the loss of advantages whose mean is 0 is what rounding leaves of it
# A model of experts learns texts with the experts that it drew them with, which stored ones bring.
for dtype in fp32 bf16; do
  routed() { loaded=$testdata/trl/mixtral grpo --dtype "$dtype" --moe-enable-routing-replay "$@"; }
  routed --device cuda --prompts prompts.jsonl "${reward[@]}" --max-lag 2 --save "routed-$dtype" --save-rollouts "routes-$dtype" > first
  routed --device cuda --rollouts "routes-$dtype"/*.jsonl --save "rerouted-$dtype" > second
  "$bin/mt-convert" diff "routed-$dtype" "rerouted-$dtype" && echo "grpo, experts, $dtype: the same from kept texts" || failed=1
  width=$(jq '.num_hidden_layers * .num_experts_per_tok' "$testdata/trl/mixtral/config.json")
  jq -e -s --argjson width "$width" 'map((.experts | length) as $n | $n % $width == 0 and
    $n / $width >= (.prompt_ids + .completion_ids | length) - 1 and (.experts | min) >= 0) | all' "routes-$dtype"/*.jsonl > /dev/null ||
    { echo "experts of texts"; failed=1; }
done
loaded=$testdata/trl/mixtral grpo --device cpu --dtype fp32 --moe-enable-routing-replay --rollouts routes-fp32/*.jsonl > first
loaded=$testdata/trl/mixtral grpo --device cuda --dtype fp32 --moe-enable-routing-replay --rollouts routes-fp32/*.jsonl > second
near 'grpo, experts' 4 1e-4 1e-4 4 1  # as of values: losses of one pass are what rounding leaves
# The weights of a step are those that its tokens are drawn by: the CPU draws the same.
grpo --device cpu --dtype fp32 --prompts prompts.jsonl "${reward[@]}" --max-lag 2 --in-flight-weight-updates --save-rollouts flight-cpu > first
grpo --device cuda --dtype fp32 --prompts prompts.jsonl "${reward[@]}" --max-lag 2 --in-flight-weight-updates > second
near 'grpo, in flight' 4 1e-4 1e-4
for file in flight-cpu/*.jsonl; do
  cmp <(jq -c '[.completion_ids, .versions]' "$file") <(jq -c '[.completion_ids, .versions]' "flight-fp32/$(basename "$file")") || failed=1
  said='(.log_probs // .old_log_probs)[]'
  paste <(jq "$said" "$file") <(jq "$said" "flight-fp32/$(basename "$file")") |
    awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) { print "log_probs " $1 ", " $2; exit 1 } }' || failed=1
done
exit $failed
