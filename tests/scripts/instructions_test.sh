#!/usr/bin/env bash
# instructions_test.sh SOURCE TIME_ENCODE MT_PREPROCESS: how many instructions tokenizers, and one of
# them with all that mt-preprocess does around it, spend on a byte of text, counted by valgrind, so
# that a loss of speed shows on any machine, however busy.  The limits are a quarter above what was
# counted when they were set.  Exit 125: skipped, there is no valgrind, or it cannot run the programs
# (ones with sanitizers).
set -euo pipefail
source=$1 program=$2
skip() {
  printf 'instructions_test: skipped, %s\n' "$1" >&2
  exit 125
}
command -v valgrind >/dev/null || skip 'there is no valgrind'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

little_endian() {  # four bytes
  printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' \
    $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"
}
text_file() {  # text_file NAME: stdin as the one string of a file for time_encode
  cat >"$scratch/text"
  { little_endian "$(stat -c %s "$scratch/text")" && cat "$scratch/text"; } >"$scratch/$1"
}
"$source/scripts/make-stories" --documents 1500 | sed 's/^{"text": "//; s/"}$//' | text_file stories
tr -cd 'a-z' <"$scratch/stories" | text_file letters
tr '\0-\377' 'a' <"$scratch/letters" | text_file one-letter
tr -cd 'a-z' <"$scratch/stories" | sed 's/[aeiou]/&\xCC\x81/g; s/t/\xE6\xB0\xB4/g
  s/n/\xD0\xB6/g; s/h/\xF0\x9F\x98\x80/g' | text_file mixed
text_file nothing </dev/null
"$source/scripts/make-stories" --documents 1500 >"$scratch/stories.jsonl"
: >"$scratch/nothing.jsonl"

count() {  # count TEXT: instructions of a run
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "${options[@]}" "$scratch/$1" \
    2>"$scratch/log" >/dev/null || { cat "$scratch/log" >&2 && skip 'valgrind cannot run the program'; }
  sed -n 's/.*Collected : //p' "$scratch/log"
}
tokenizer() {  # tokenizer OPTION...: what expect() runs
  options=("$@")
  start=$(count nothing)
}
failures=0
# expect WHAT LIMIT TEXT: at most LIMIT instructions for each byte of the text
expect() {
  local all bytes tenths
  all=$(count "$3") bytes=$(stat -c %s "$scratch/$3")
  tenths=$(((all - start) * 10 / bytes))
  printf '%s: %d.%d instructions a byte, at most %d\n' "$1" $((tenths / 10)) $((tenths % 10)) "$2"
  ((tenths <= 10 * $2)) || failures=1
}

tokenizer --tokenizer-type GPT2BPETokenizer --vocab-file "$source/testdata/gpt2_bpe/vocab.json" \
  --merge-file "$source/testdata/gpt2_bpe/merges.txt"
expect 'GPT-2, words' 42 stories
expect 'GPT-2, no spaces' 165 letters
expect 'GPT-2, one letter' 152 one-letter
program=$3 options+=(--quiet --force -j 1 --output-prefix "$scratch/out" --input)
start=$(count nothing.jsonl)
expect 'JSON lines to token files, GPT-2' 55 stories.jsonl
program=$2
for limits in bpe:116:325 unigram:89:229; do
  IFS=: read -r kind words letters <<<"$limits"
  tokenizer --tokenizer-type GPTSentencePieceTokenizer \
    --tokenizer-model "$source/testdata/sentencepiece/$kind.model"
  expect "SentencePiece, $kind" "$words" stories
  expect "SentencePiece, $kind, no spaces" "$letters" letters
  [[ $kind != bpe ]] || expect 'SentencePiece, bpe, one letter' 315 one-letter
done
for limit in bert-lower:192 deepseek:182 qwen2:277 t5:344; do
  IFS=: read -r kind mixed <<<"$limit"
  tokenizer --tokenizer-type HuggingFaceTokenizer \
    --tokenizer-model "$source/testdata/huggingface/$kind.json"
  expect "tokenizer.json, $kind, mixed scripts" "$mixed" mixed
done
exit "$failures"
