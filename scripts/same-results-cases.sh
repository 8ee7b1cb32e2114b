# The cases of scripts/same-results, which reads this file: `all_cases` calls `quickly` or `fully` with the name of
# each, the function that runs it and its arguments.
# shellcheck shell=bash disable=SC2034,SC2154,SC2178,SC2317  # what same-results defines; what is used by its name
testdata=$scripts/../testdata
stories=$testdata/stories/stories.jsonl
inputs=$folder/inputs

# --- What OLD makes ------------------------------------------------------------------------------------

tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$testdata/gpt2_bpe/vocab.json"
  --merge-file "$testdata/gpt2_bpe/merges.txt")
gpt2=()
llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2)
sizes=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
  --micro-batch-size 2 --global-batch-size 16)
schedule=(--lr 1e-2 --lr-warmup-iters 4 --lr-decay-style cosine --eval-iters 1 --eval-interval 10 --log-interval 1)
data=(--data-path "$inputs/stories_text_document" --split '8,1,1')
blend=(--data-path 3 "$inputs/stories_text_document" 1 "$inputs/few_text_document" --split '8,1,1')
run=("${sizes[@]}" "${schedule[@]}" "${data[@]}" --threads 1)

make_inputs() {  # two token files; a trained model of each style
  head -n 20 "$stories" > few.jsonl
  mt-preprocess --quiet --input few.jsonl --output-prefix few --append-eod "${tokenizer[@]}"
  mt-preprocess --quiet --input "$stories" --output-prefix stories --append-eod "${tokenizer[@]}"
  local train=(mt-pretrain --quiet "${run[@]}" --hidden-dropout 0 --attention-dropout 0 --init-method-std 0.1
    --train-iters 60)
  "${train[@]}" "${gpt2[@]}" --save gpt2
  "${train[@]}" "${llama[@]}" --save llama
}

or_exit_code() {  # or_exit_code COMMAND...: a failure, with its message, is one of the results
  "$@" || echo "exit code $?"
}

# --- Training ------------------------------------------------------------------------------------------

trained() {  # trained STYLE [OPTION...]: 20 steps; the last 10 of them again from the checkpoint before
  local -n style=$1
  local options=("${run[@]}" "${style[@]}" --train-iters 20 --save-interval 10 "${@:2}")
  mt-pretrain "${options[@]}" --save ckpt
  mkdir resumed
  cp -r ckpt/iter_0000010 resumed
  echo 10 > resumed/latest_checkpointed_iteration.txt
  mt-pretrain "${options[@]}" --load resumed --save resumed
}
steps() {  # steps STYLE [OPTION...]: a few
  local -n style=$1
  mt-pretrain "${run[@]}" "${style[@]}" --train-iters 6 --save ckpt "${@:2}"
}

layout_one=()
layout_tp2pp2=(--ranks 4 --tp 2 --pp 2 --sequence-parallel)
layout_cp2dp2=(--ranks 4 --cp 2)
layout_dp4=(--ranks 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
layout_virtual=(--ranks 4 --pp 2 --num-layers-per-virtual-pipeline-stage 1)

training() {
  local style dtype layout
  for style in gpt2 llama; do
    for dtype in fp32 fp64; do
      for layout in one tp2pp2 cp2dp2 dp4 virtual; do
        local -n options=layout_$layout
        quickly "train/$style,$dtype,$layout" trained $style --dtype $dtype "${options[@]}"
      done
    done
  done
  quickly train/documents steps gpt2 --reset-position-ids --reset-attention-mask --eod-mask-loss \
    --calculate-per-token-loss
  fully train/no-dropout steps llama --hidden-dropout 0 --attention-dropout 0 --label-smoothing 0.1 --clip-grad 0
  fully train/norms steps llama --qk-layernorm --apply-layernorm-1p --init-method-xavier-uniform --window-size 7,0 \
    --window-attn-skip-freq 2
  fully train/rope steps llama --use-rope-scaling --rotary-percent 0.5 --rotary-base 500000 --rotary-interleaved
  fully train/squared-relu steps gpt2 --squared-relu --disable-bias-linear --add-qkv-bias --kv-channels 16
  quickly train/sharded steps llama --ranks 4 --data-parallel-sharding-strategy optim_grads_params
  fully train/sharded-gradients steps gpt2 --ranks 4 --data-parallel-sharding-strategy optim_grads
  fully train/zero-bubble steps gpt2 --ranks 4 --pp 4 --pipeline-schedule zero-bubble
  fully train/gpipe steps llama --ranks 4 --pp 2 --tp 2 --pipeline-schedule gpipe
  fully train/stages steps llama --ranks 3 --pp 3 --pipeline-model-parallel-layout 'Et|tt|tL' --global-batch-size 6
  fully train/a2a steps gpt2 --ranks 4 --cp 2 --tp 2 --cp-comm-type a2a
  fully train/all-gather steps llama --ranks 2 --cp 2 --cp-comm-type all_gather --recompute-activations
  fully train/recompute-full steps gpt2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 2
  fully train/recompute-parts steps llama --recompute-granularity selective --recompute-modules core_attn mlp layernorm
  fully train/muon steps gpt2 --optimizer muon --ranks 2 --pp 2
  fully train/dist-muon steps llama --optimizer dist_muon --ranks 2
  fully train/sgd steps gpt2 --optimizer sgd --weight-decay 0.1 --log-params-norm --log-num-zeros-in-grad
  fully train/moments steps llama --ranks 2 --use-distributed-optimizer --use-precision-aware-optimizer \
    --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16
  fully train/growing-batch growing_batch
  fully train/saves steps llama --save-interval 2 --keep-last 2 --async-save --log-progress --no-save-optim
  fully train/finetune steps gpt2 --load "$inputs/gpt2" --finetune --decoupled-lr 1e-3 --iterations-to-skip 3
  fully train/blend mt-pretrain "${sizes[@]}" "${schedule[@]}" "${blend[@]}" --train-iters 6 --ranks 2 \
    --dataloader-type cyclic --data-cache-path cache --save ckpt
  fully train/only-evaluated steps gpt2 --load "$inputs/gpt2" --skip-train
  fully train/converted steps gpt2 --load "$inputs/gpt2" --ckpt-convert-format torch --ckpt-convert-save other \
    --ranks 2 --tp 2
  quickly train/checked steps llama --ranks 4 --tp 2 --check-layout
  quickly train/selftest or_exit_code mt-pretrain --selftest --device cpu
}
growing_batch() {
  mt-pretrain "${run[@]/--lr-warmup-iters/--lr-warmup-samples}" --rampup-batch-size 4 4 24 --train-samples 120 \
    --save ckpt
}

# --- Conversion ----------------------------------------------------------------------------------------

layout() {  # layout TP PP [EP]: options
  echo "--ckpt-format torch --target-tensor-parallel-size $1 --target-pipeline-parallel-size $2" \
    "--target-expert-parallel-size ${3-1}"
}
declare -A formats=(
  [torch_dist]='' [main]=--no-common-pt [hf]='--saver hf' [shards]='--saver hf --shard-size 1' [bf16]=--bf16
  [torch]="$(layout 1 1)" [ranks]="$(layout 2 2)" [dcp]='--ckpt-format torch_dcp'
  [local]="$(layout 2 1) --saver-transformer-impl local"
  [stages]="$(layout 1 2) --target-encoder-pipeline-parallel-size 1"
  [grouped]="$(layout 2 2 2) --moe-grouped-gemm" [legacy]='--saver legacy --target-tensor-parallel-size 2'
  [gguf]='--saver gguf' [q8_0]='--saver gguf --dtype q8_0' [meta]='--saver meta --target-tensor-parallel-size 2'
)

# converted FROM [OPTION...]: into every format, or what refuses that; from there to Hugging Face's and to torch_dist.
converted() {
  local to
  for to in $(printf '%s\n' "${!formats[@]}" | sort); do
    # shellcheck disable=SC2086  # options
    {
      or_exit_code mt-convert --dry-run "${@:2}" ${formats[$to]} "$1" "$to"
      mt-convert --quiet "${@:2}" ${formats[$to]} "$1" "$to" || continue
    }
    listed "$to"
    or_exit_code mt-convert --quiet --saver hf "$to" "hf-of-$to"
    or_exit_code mt-convert --quiet "${@:2}" "$to" "torch_dist-of-$to"
  done
}
listed() {
  or_exit_code mt-convert ls "$1"
  or_exit_code mt-convert ls --settings --json "$1"
  or_exit_code mt-convert verify "$1"
}
golden() {  # golden FOLDER [OPTION...]
  listed "$1"
  converted "$@"
}
drawn() {  # drawn CONFIG: a model that is no more than its config.json
  mkdir mock
  echo "$1" > mock/config.json
  mt-convert --quiet --mock mock model
  listed model
  converted model
}

config_sizes='"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"intermediate_size":96,
  "max_position_embeddings":64,"vocab_size":380,"torch_dtype":"float32"'
configs=(
  '"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"n_positions":64'
  '"model_type":"llama","num_key_value_heads":2'
  '"model_type":"mistral","sliding_window":5,"num_key_value_heads":2'
  '"model_type":"mixtral","num_key_value_heads":2,"num_local_experts":4,"num_experts_per_tok":2'
  '"model_type":"qwen2","num_key_value_heads":2'
  '"model_type":"qwen3","num_key_value_heads":2,"head_dim":32'
  '"model_type":"nemotron","num_key_value_heads":2,"hidden_act":"relu2","partial_rotary_factor":0.5'
  '"model_type":"gemma","num_key_value_heads":2,"hidden_act":"gelu_pytorch_tanh"'
  '"model_type":"megatron-bert"'
  '"model_type":"mamba2","num_heads":4,"head_dim":32,"state_size":8,"n_groups":2'
  '"model_type":"t5","d_model":64,"d_kv":16,"d_ff":96,"num_layers":3,"num_decoder_layers":2,"num_heads":4'
)
conversion() {
  local config model add path
  for config in "${configs[@]}"; do
    model=$(cut -d'"' -f4 <<< "$config") add=fully
    if [[ $model == @(gpt2|llama|mixtral|t5|mamba2) ]]; then add=quickly; fi
    $add "convert/$model" drawn "{$config_sizes,$config}"
  done
  for path in "$testdata"/{ranks*,dp_*,fully_sharded*,legacy/gpt-?,models/llama*}; do
    model=${path#"$testdata"/} model=${model//\//-} add=fully
    if [[ $model == ranks-* ]]; then add=quickly; fi
    $add "convert/golden-$model" golden "$path"
    [[ $model == @(legacy|models)* ]] || $add "convert/golden-$model,optimizer" golden "$path" --with-optimizer
  done
  for model in gpt2 llama; do quickly "convert/trained-$model" golden "$inputs/$model" --with-optimizer; done
}

# --- Options, configurations, plans --------------------------------------------------------------------

option_tables() {  # of every program and its verbs: what help, man pages, mt-flags(7) and completions are made of
  local path program verb form
  for path in "$programs"/mt-*; do
    program=${path##*/}
    for verb in '' $("$program" --help=words | awk -F '\t' '$1 !~ /^-/ { print $1 }'); do
      for form in --help --help=json --help=man --help=words; do
        "$program" ${verb:+"$verb"} $form > "$program${verb:+ $verb} $form"
      done
    done
    for form in bash zsh fish; do "$program" --completion $form > "$program $form"; done
  done
}

configuration() {  # configuration PROGRAM OPTION...
  or_exit_code "$1" --print-config "${@:2}"
  or_exit_code "$1" --print-config=json "${@:2}"
}
configurations() {
  configuration mt-pretrain
  configuration mt-pretrain "${run[@]}" "${llama[@]}" --train-iters 20
  configuration mt-pretrain --num-layers 8 --bf16 --device cuda --gpus 8 --tp 2 --sequence-parallel \
    --use-distributed-optimizer
  configuration mt-pretrain --use-rotary-position-embeddings --rampup-batch-size 4 4 24 --split 9,1 --save a --load b
  configuration mt-pretrain --optimizer muon --lr-decay-style WSD --recompute-activations --pp 4 --seed 7
  configuration mt-pretrain --use-mcore-models --use-flash-attn --attention-softmax-in-fp32 --distributed-backend nccl
  configuration mt-convert --saver hf --bf16 a b
  configuration mt-generate --load a --top-p 0.9 --num-samples 3
  configuration mt-eval --load a --overlapping-eval 8 b
  configuration mt-preprocess --input a --output-prefix b "${tokenizer[@]}"
  mt-pretrain --print-config "${run[@]}" --train-iters 2 > run.yaml
  MT_SEED=5 configuration mt-pretrain --config run.yaml --seq-length 16
}

gpus=(--device cuda --bf16 --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 2048
  --max-position-embeddings 2048 --vocab-size 32000 --global-batch-size 32 --plan-machine h100)
plan() {  # plan OPTION...: as text, as JSON and, of stages, as an image
  mt-pretrain "$@" --plan
  mt-pretrain "$@" --plan --json
  if [[ $* == *--pp* ]]; then mt-pretrain "$@" --plan --plan-svg schedule.svg > rest; fi
}
plans() {
  quickly plan/cpu plan "${run[@]}" --train-iters 20 --plan-tflops 1 --plan-memory-bandwidth 10  # not measured
  quickly plan/tp2pp4 plan "${gpus[@]}" --ranks 16 --micro-batch-size 1 --tp 2 --sequence-parallel --pp 4 \
    --use-distributed-optimizer
  quickly plan/cp2dp4 plan "${gpus[@]}" "${llama[@]}" --ranks 8 --micro-batch-size 2 --cp 2 --overlap-grad-reduce
  quickly plan/virtual plan "${gpus[@]}" --ranks 8 --micro-batch-size 1 --pp 4 --num-layers-per-virtual-pipeline-stage 1
  quickly plan/sharded plan "${gpus[@]}" "${llama[@]}" --ranks 16 --micro-batch-size 1 --recompute-activations \
    --data-parallel-sharding-strategy optim_grads_params
  quickly plan/search mt-pretrain "${gpus[@]}" --plan-search 4 --plan-memory 8
  fully plan/search-json mt-pretrain "${gpus[@]}" --plan-search 8 --json
}

# --- Generation and evaluation ---------------------------------------------------------------------------

prompts=('Tom has' 'Sam has a pig called' '' 'Nick puts the cup on')
generate() {  # generate STYLE [OPTION...]
  mt-generate --load "$inputs/$1" --num-tokens 24 "${@:2}" -- "${prompts[@]}"
}
generate_lines() {  # generate_lines STYLE: prompts of many lengths, five at a time
  local k
  for k in {1..20}; do
    echo "{\"id\":$k,\"prompt\":\"${prompts[k % 4]}\",\"num_tokens\":$((k * 7 % 30)),\"seed\":$k}"
  done > lines
  mt-generate --load "$inputs/$1" --json --logprobs 3 --temperature 1.5 --inference-max-requests 5 < lines
}
evaluate() {  # evaluate STYLE [OPTION...]: of texts and of a token file
  mt-eval --load "$inputs/$1" "${@:2}" "$testdata/stories/lastword.jsonl" "$inputs/few_text_document"
}
inference() {
  local style
  for style in gpt2 llama; do
    quickly "generate/$style,greedy" generate $style --temperature 0
    quickly "generate/$style,sampled" generate $style --seed 7 --top-p 0.9 --num-samples 3
    quickly "generate/$style,lines" generate_lines $style
    quickly "generate/$style,fp64" generate $style --dtype fp64 --json --logprobs 2 --temperature 0
    fully "generate/$style,stops" generate $style --top-k 5 --stop . --ignore-eod --stop-tokens 3 4 --json
    quickly "evaluate/$style" evaluate $style --json
    quickly "evaluate/$style,overlapping" evaluate $style --overlapping-eval 8 --seq-length 24 --micro-batch-size 3
    fully "evaluate/$style,fp64" evaluate $style --dtype fp64 --json --overlapping-eval 5
  done
}

# --- Data ----------------------------------------------------------------------------------------------

tokenized() {  # tokenized OPTION...: a token file, checked and read
  mt-preprocess --quiet --input "$stories" --output-prefix out "$@"
  mt-preprocess verify out_text_document
  mt-preprocess stats out_text_document
  mt-preprocess checksum out_text_document
  mt-preprocess cat out_text_document --text
}
samples() {  # of BERT, T5 and ICT
  local dataset form bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$testdata/wordpiece/vocab.txt")
  sed 's/{"text": "\([^ ]*\)/{"title": "\1", "text": "\1/' "$stories" > in.jsonl
  mt-preprocess --quiet --input in.jsonl --output-prefix in --json-keys text --split-sentences --lang en "${bert[@]}"
  mt-preprocess --quiet --input in.jsonl --output-prefix in --json-keys title "${bert[@]}"
  for dataset in bert 't5 --decoder-seq-length 12 --vocab-extra-ids 100' 'ict --titles-data-path in_title_document'; do
    for form in '' --json; do
      # shellcheck disable=SC2086  # options
      mt-preprocess samples --split 1 --seq-length 40 --data-path in_text_sentence -n 5 --data-cache-path cache $form \
        --dataset $dataset
    done
  done
}
index() {
  mt-preprocess index "${blend[@]}" --seq-length 32 --data-cache-path cache --train-iters 20 --global-batch-size 8 \
    --eval-iters 1 "$@"
}
shown() {  # what three steps read
  local step
  for step in 1 2 17; do mt-pretrain show-batch $step "${run[@]}" --train-iters 20 "$@"; done
}
corpus() {  # vocabularies; texts cleaned and without what is similar; parts, and a whole of them
  local kind
  for kind in GPT2BPE GPTSentencePiece; do
    mt-preprocess vocab --quiet --input "$stories" --vocab-size 400 --tokenizer-type ${kind}Tokenizer --output-dir $kind
  done
  mt-preprocess clean --quiet --input "$stories" --repair --min-words 9 --output clean.jsonl
  mt-preprocess dedup --quiet --input "$stories" --similarity 0.5 --output different.jsonl
  mt-preprocess split "$inputs/stories_text_document" --split 70,20,10 --output-prefix part
  mt-preprocess merge part_train part_test --output-prefix merged
}
preprocessing() {
  local path
  quickly data/bpe tokenized --append-eod "${tokenizer[@]}"
  fully data/unigram tokenized --tokenizer-type GPTSentencePieceTokenizer \
    --tokenizer-model "$testdata/sentencepiece/unigram.model"
  fully data/wordpiece tokenized --tokenizer-type BertWordPieceCase --vocab-file "$testdata/wordpiece/vocab.txt"
  fully data/tiktoken tokenized --tokenizer-type TikTokenizer --tokenizer-model "$testdata/tiktoken/ranks.tiktoken" \
    --tiktoken-pattern v2 --tiktoken-num-special-tokens 4 --vocab-size 383
  for path in "$testdata"/huggingface/*.json; do
    fully "data/hugging-face-$(basename "$path" .json)" tokenized --tokenizer-type HuggingFaceTokenizer \
      --tokenizer-model "$path"
  done
  quickly data/samples samples
  quickly data/index index
  fully data/index-json index --json
  quickly data/corpus corpus
  quickly data/show-batch shown
  fully data/show-batch-json shown --json --ranks 2 --dataloader-type cyclic
}

# --- All of them, slow ones first ----------------------------------------------------------------------

all_cases() {
  training
  plans
  conversion
  quickly options option_tables
  quickly print-config configurations
  inference
  preprocessing
}
