# label_example.sh: what the examples of BERT's tasks beside it have in common.  Each sets these and sources this file:
#   task             race or mnli
#   train            the training data, and
#   valid            what the model is evaluated on, in the task's folder
#   options          of the run at any size
#   real_options     of the real run alone: sizes, precision
#   tiny_options     of the toy
# Exit codes: 64 usage; else the code of the command that failed.
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=${examples%/scripts/examples}
PATH=$PATH:$repository/build/release/cmd

usage() {
  sed -n '2,/^$/{s/^# \{0,1\}//; p}' "$0"
  exit "$1"
}

# Sets of scripts/make-labelled, and a small BERT that is pretrained on their sentences before it learns the task, in a
# folder that is removed afterwards.
tiny() {
  local words=(--tokenizer-type BertWordPieceLowerCase --vocab-file sets/vocab.txt)
  local model=(--device cpu --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32
    --max-position-embeddings 32 --hidden-dropout 0 --attention-dropout 0 --init-method-std 0.05 --lr 1e-3
    --eval-iters 1)
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  "$repository/scripts/make-labelled" sets --samples 4000
  mt-preprocess --quiet --input sets/sentences.jsonl --output-prefix words "${words[@]}" --split-sentences --lang en
  mt-pretrain --quiet --model-type bert "${model[@]}" "${words[@]}" --data-path words_text_sentence --split 90,5,5 \
    --micro-batch-size 32 --train-iters 300 --min-lr 1e-4 --save pretrained
  mt-finetune "$task" "${model[@]}" "${options[@]}" --vocab-file sets/vocab.txt --pretrained-checkpoint pretrained \
    --train-data "sets/${task^^}/$train" --valid-data "${valid[@]/#/sets/${task^^}/}" --log-interval 20 \
    "${tiny_options[@]}" --save ckpt "$@"
}

case ${1:-} in
  --plan)
    shift
    exec mt-finetune "$task" --plan --device cuda --ranks 8 --save checkpoints "${options[@]}" "${real_options[@]}" \
      --vocab-size 30524 "$@"
    ;;
  --tiny) shift && tiny "$@" ;;
  -h | --help) usage 0 ;;
  *)
    (($# >= 4)) || usage 64 >&2
    export CHECKPOINTS=$1 PROGRAM="mt-finetune $task"
    data=$3
    real_options+=(--pretrained-checkpoint "$2" --train-data "$data/$train" --valid-data "${valid[@]/#/$data/}"
      --vocab-file "$4" --tensorboard-dir "$1/tensorboard")
    shift 4
    exec sbatch --nodes 1 "$repository/scripts/slurm/pretrain.sbatch" "${options[@]}" "${real_options[@]}" "$@"
    ;;
esac
