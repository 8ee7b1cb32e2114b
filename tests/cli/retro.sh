# For the cases of mt-retro-index: `. "$(dirname "$0")/../../retro.sh"` gives
#   retro_project   makes wiki, a project of the stories in testdata and a corpus of few letters
#   build_db        mt-retro-index build-db of it, with more options; in place of its shell if exec_db is exec
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
