#!/usr/bin/env bash
# Tests scripts/bundle.sh: what it makes is small, loads no library but its own and the C library's,
# and prepares data and trains after it was moved, with an empty environment.
#
#   bundle_test.sh REPOSITORY BUILD
set -euo pipefail

root=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  printf 'bundle_test: %s\n' "$1" >&2
  exit 1
}

"$root/scripts/bundle.sh" --build "$build" --output "$scratch/made" 2>"$scratch/log" ||
  { cat "$scratch/log"; fail 'it was not made'; }
mv "$scratch/made" "$scratch/dist"
dist=$scratch/dist
((60 >= $(du -sm --apparent-size "$dist" | cut -f 1))) || fail "larger than 60 MiB: $(du -sm "$dist")"
for file in share/doc/mt/{LICENSE,README.md} share/man/man1/mt-pretrain.1 share/man/man7/mt-flags.7; do
  [[ -s $dist/$file ]] || fail "$file is missing"
done

for program in "$build"/cmd/mt-*; do
  name=${program##*/}
  [[ -x $dist/bin/$name ]] || fail "$name is missing"
  env -i "$dist/bin/$name" --version | head -n 1 | grep -qxE "$name [0-9.]+( commit [0-9a-f]+)?" || fail "$name --version"
  others=$(env -i ldd "$dist/bin/$name" |
    grep -Ev "=> $dist/bin/../lib/|^[[:space:]]*(linux-vdso|/lib64/ld-linux|(libc|libm|libdl|librt|libpthread)\.so)" || true)
  [[ -z $others ]] || fail "$name loads from outside: $others"
done

cd "$scratch"
mt() { env -i MT_DEVICE=cpu "$dist/bin/$@"; }
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$root/testdata/gpt2_bpe/vocab.json"
  --merge-file "$root/testdata/gpt2_bpe/merges.txt")
for _ in {1..100}; do printf '{"text":"Dr. Who. A. B? Das ist z. B. gut. Ja."}\n'; done >in.jsonl
mt mt-preprocess --quiet --input in.jsonl --output-prefix tiny --append-eod "${tokenizer[@]}"
# Of ICU's data: the rules of sentences, German ones too, and normal forms.
for lang in en de; do
  mt mt-preprocess --quiet --input in.jsonl --output-prefix $lang --split-sentences --lang $lang "${tokenizer[@]}"
  "$build/cmd/mt-preprocess" --quiet --input in.jsonl --output-prefix here_$lang --split-sentences \
    --lang $lang "${tokenizer[@]}"
  cmp $lang\_text_sentence.bin here_$lang\_text_sentence.bin && cmp $lang\_text_sentence.idx here_$lang\_text_sentence.idx ||
    fail "--lang $lang splits otherwise"
done
model=(--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32
  --micro-batch-size 4 --train-iters 4 --lr 0.01 --data-path tiny_text_document --split 90,5,5 --eval-iters 1)
mt mt-pretrain --quiet --json "${model[@]}" --save ckpt >steps
grep -q '"iteration":4,.*"loss":' steps || fail 'mt-pretrain did not train'
mt mt-eval --quiet --load ckpt --task perplexity <(printf 'Ja.\n') >/dev/null || fail mt-eval
mt mt-generate --quiet --load ckpt --num-tokens 3 Ja >/dev/null || fail mt-generate
