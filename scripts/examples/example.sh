# example.sh: what the examples beside it have in common.  Each sets these and sources this file:
#   kind             of model: gpt, bert or t5
#   hosts            of 8 GPUs each, that the real run takes
#   options          of the run at any size
#   real_options     of the real run alone: sizes, precision, layout
#   vocab_size       of the real tokenizer, for a plan without its files
#   tokenizer        names the options of the tokenizer's files, which a real run takes after PREFIX
#   tiny_options     of the toy
# Exit codes: 64 usage; else the code of the command that failed.
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=${examples%/scripts/examples}
PATH=$PATH:$repository/build/release/cmd

usage() {
  sed -n '2,/^$/{s/^# \{0,1\}//; p}' "$0"
  exit "$1"
}

# Token files of the stories in testdata, and the model that learns them, in a folder that is removed afterwards.
tiny() {
  local words=(--tokenizer-type GPT2BPETokenizer --vocab-file "$repository/testdata/gpt2_bpe/vocab.json"
    --merge-file "$repository/testdata/gpt2_bpe/merges.txt" --append-eod) prefix=stories_text_document
  if [[ $kind != gpt ]]; then
    words=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$repository/testdata/wordpiece/vocab.txt"
      --split-sentences --lang en)
    prefix=stories_text_sentence
  fi
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  mt-preprocess --quiet --input "$repository/testdata/stories/stories.jsonl" --output-prefix stories "${words[@]}"
  mt-pretrain --device cpu "${options[@]}" --micro-batch-size 4 --global-batch-size 8 --train-iters 500 \
    --lr 1e-3 --min-lr 1e-4 --hidden-dropout 0 --attention-dropout 0 --log-interval 10 --eval-iters 1 \
    "${tiny_options[@]}" --data-path "$prefix" --split 90,5,5 --save ckpt "$@"
}

case ${1:-} in
  --plan)
    shift
    exec mt-pretrain --plan --device cuda --ranks $((8 * hosts)) --save checkpoints "${options[@]}" "${real_options[@]}" \
      --vocab-size "$vocab_size" "$@"
    ;;
  --tiny) shift && tiny "$@" ;;
  -h | --help) usage 0 ;;
  *)
    (($# >= 2 + ${#tokenizer[@]})) || usage 64 >&2
    export CHECKPOINTS=$1
    real_options+=(--data-path "$2" --data-cache-path "$1/index" --tensorboard-dir "$1/tensorboard")
    shift 2
    for option in "${tokenizer[@]}"; do
      real_options+=("$option" "$1")
      shift
    done
    exec sbatch --nodes "$hosts" "$repository/scripts/slurm/pretrain.sbatch" "${options[@]}" "${real_options[@]}" "$@"
    ;;
esac
