# For the cases of programs that need a trained model: `. "$(dirname "$0")/../../tiny.sh"` gives
#   tokenizer       options of the tokenizer of 380 tokens in testdata
#   tiny_data       makes corpus.jsonl, 200 times the same few letters, and token files tiny_text_document
#   tiny            options of a model that learns it in a second, all but --save and --train-iters
#   tiny_checkpoint makes ckpt, trained so far that each letter follows from the one before
#   stories_data, stories_checkpoint   the same of the stories in testdata: stories_text_document, ckpt
#   man_examples    runs what stands under EXAMPLES in a program's man page
#   bert_folder     makes bert, a tiny BERT as transformers saves it with its tokenizer
#   right_layout    mt-pretrain --check-layout with options: says what is right, or all of it where that is not so
#   text_sum        the checksum of what a model generates, or that it generates nothing
#   numbers         a filter: every number of JSON becomes N
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$TESTDATA/gpt2_bpe/vocab.json"
           --merge-file "$TESTDATA/gpt2_bpe/merges.txt")
tiny=(--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32
      --micro-batch-size 4 --global-batch-size 8 --lr 0.01 --hidden-dropout 0 --attention-dropout 0
      --data-path tiny_text_document --split 90,5,5 --eval-iters 1 --threads 1)

tiny_data() {
  for i in {1..200}; do echo '{"text":"ABCDEFGHIJABCDEFGHIJABCDEFGHIJABCDEFGHIJ"}'; done > corpus.jsonl
  mt-preprocess --quiet --input corpus.jsonl --output-prefix tiny --append-eod "${tokenizer[@]}"
}

tiny_checkpoint() {
  tiny_data
  mt-pretrain --quiet "${tiny[@]}" --train-iters 60 --save ckpt
}

bert_folder() {
  cp -R "$TESTDATA/models/megatron-bert" bert
  cp "$TESTDATA/huggingface/bert-lower.json" bert/tokenizer.json
  echo '{"cls_token":"[CLS]","sep_token":"[SEP]","mask_token":"[MASK]","pad_token":"[PAD]","unk_token":"[UNK]"}' \
    > bert/tokenizer_config.json
}

right_layout() {
  if mt-pretrain "$@" --check-layout > layout.txt 2>&1; then
    sed -En 's/.*(at most 1e-05 is right)$/\1/p' layout.txt
  else
    cat layout.txt
  fi
}

text_sum() {  # MODEL OPTIONS TEXT
  if mt-generate --load "$1" --device cpu --temperature 0 "${@:2}" > text.txt; then cksum < text.txt; else echo "failed: $1"; fi
}

numbers() { sed -E 's/([:[,])-?[0-9][-+.0-9e]*/\1N/g'; }

stories_data() {
  mt-preprocess --quiet --input "$TESTDATA/stories/stories.jsonl" --output-prefix stories --append-eod "${tokenizer[@]}"
}

stories_checkpoint() {
  stories_data
  mt-pretrain --quiet "${tiny[@]/tiny_text_document/stories_text_document}" --train-iters 60 --save ckpt
}

man_examples() {  # PROGRAM: its man page's examples, one after another, in this folder
  sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/{/^\.EX/,/^\.EE/{/^\.E[XE]/d; p}}' "$TESTDATA/../man/$1.1" |
    sed 's/\\-/-/g; s/\\e/\\/g; s/\\(dq/"/g' > examples
  bash -e -o pipefail examples || echo "exit code $?"
}
