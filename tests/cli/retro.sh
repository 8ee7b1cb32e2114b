# For the cases of mt-retro-index: `. "$(dirname "$0")/../../retro.sh"` gives
#   retro_project   makes wiki, a project of the stories in testdata and a corpus of few letters
#   build_db        mt-retro-index build-db of it, with more options; in place of its shell if exec_db is exec
#   retro_data      makes it, with neighbours, for a training of ten steps
#   retro_stages    makes it, and bert, a BERT of its words, for the stages that find neighbours
#   retro_config    changes its config.json by a filter of jq
. "$(dirname "${BASH_SOURCE[0]}")/tiny.sh"

retro_project() {
  stories_data
  tiny_data
  mkdir -p wiki/data
  ln stories_text_document.* tiny_text_document.* wiki/data
  cp "$TESTDATA/wordpiece/vocab.txt" wiki/bert.txt
}

build_db() {
  ${exec_db-} mt-retro-index build-db --retro-project-dir wiki --retro-gpt-data-path 0.75 stories_text_document 0.25 tiny_text_document \
    --retro-gpt-split 90,10,0 --retro-bert-tokenizer-type BertWordPieceLowerCase --retro-bert-vocab-file bert.txt \
    --retro-index-ntrain 20 --retro-doc-block-size 50 "$@"
}

# Samples of four chunks.
build_run_db() {
  build_db --quiet --retro-gpt-chunk-length 8 --retro-gpt-seq-length 32 --retro-gpt-train-samples 40 \
    --retro-gpt-global-batch-size 4 --retro-gpt-eval-interval 10 --retro-gpt-eval-iters 1 --retro-gpt-seed 7 "$@"
}

retro_stages() {
  retro_project
  bert_folder
  jq -r '.model.vocab | to_entries | sort_by(.value)[].key' bert/tokenizer.json > wiki/bert.txt
  build_run_db --retro-index-ntrain 400 --retro-block-size 64
}

# With the neighbours in testdata.
retro_data() {
  retro_project
  build_run_db
  mkdir -p wiki/query/train wiki/query/valid
  cp "$TESTDATA/retro/train.hdf5" wiki/query/train/0000-0160.hdf5
  cp "$TESTDATA/retro/valid.hdf5" wiki/query/valid/000-032.hdf5
  retro_config '.retro_neighbor_dirs = {"train": "train", "valid": "valid", "test": null}'
}

retro_config() { jq "$1" wiki/config.json > edited && mv edited wiki/config.json; }
