#!/usr/bin/env bash
# The commands in README.md and in the guides under man/ do what these say: every block of them is run.
#
#   tests/scripts/guides_test.sh REPOSITORY BIN    BIN: the folder with the programs
#
# The blocks of a file run one after another in a folder like that of the quickstart, with shorter trainings; `ckpt`
# is a GPT-2, `Llama` a Llama, run.yaml holds options.  What a block needs stands behind ```sh:
#   nothing    it is run
#   gpu        GPUs or several hosts: of each command of ours the options are read (--print-config)
#   setup      a machine to install things on: it is read by bash, as scripts/test.sh runs these
#   megatron   Megatron-LM: tests/cli/mt-pretrain/launch-line runs it
# Any other kind is an error.
set -euo pipefail
repository=$1 bin=$(realpath "$2")
for program in convert eval finetune generate preprocess pretrain; do
  [[ -x $bin/mt-$program ]] || exit 125
done
for program in curl jq; do
  command -v $program > /dev/null || { echo "guides_test: there is no $program" >&2; exit 125; }
done
for name in $(compgen -e MT_); do unset "$name"; done
export LC_ALL=C no_proxy=localhost
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/build/release
ln -s "$bin" "$scratch"/build/release/cmd
mkdir "$scratch"/quickstart
cd "$scratch"/quickstart
export PATH=$bin:$repository/scripts:$PATH

# As scripts/quickstart.sh makes them.
make-stories --documents 2000 > stories.jsonl
make-stories --documents 20 --seed 2 --held-out > heldout.jsonl
{
  mt-preprocess vocab --input stories.jsonl --vocab-size 512 --output-dir tok
  mt-preprocess --input stories.jsonl --output-prefix stories --tokenizer-type GPT2BPETokenizer \
    --vocab-file tok/vocab.json --merge-file tok/merges.txt --append-eod
  small=(--hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 12
         --train-iters 20 --lr 3e-3 --data-path stories_text_document --split 90,5,5)
  llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear)
  mt-pretrain --num-layers 4 "${small[@]}" "${llama[@]}" --save ckpt
  mt-pretrain --num-layers 1 "${small[@]}" "${llama[@]}" --untie-embeddings-and-output-weights --save Llama
  mt-pretrain --num-layers 4 "${small[@]}" --print-config > run.yaml
} > made 2>&1 || { cat made; exit 1; }

# blocks FILE: the blocks of shell commands in it, each as "KIND\n" and its lines, with a NUL behind it
blocks() {
  awk '/^```sh/ { inside = 1; print (NF > 1 ? $2 : "run"); next } /^```/ { if (inside) printf "%c", 0; inside = 0 } inside' "$1"
}

failed=0
for file in "$repository"/README.md "$repository"/man/*.md; do
  name=${file##*/}
  cp -r "$scratch"/quickstart "$scratch/$name"
  cd "$scratch/$name"
  : > commands
  blocks "$file" > blocks
  while IFS= read -r -d '' block; do
    kind=${block%%$'\n'*} block=${block#*$'\n'}
    case $kind in
      run) printf '%s\n' "$block" | sed 's/--train-iters [0-9]*/--train-iters 30/; s/^cd quickstart && //' >> commands ;;
      gpu)
        # Variables, and lines that begin with a program of ours, or end with one behind its launcher.
        printf '%s\n' "$block" | sed ':a; /\\$/ { N; s/\\\n *//; ba }; s/ *#.*//' |
          sed -n '/^[a-z]*=/p; s/.*\(mt-pretrain .*\)/\1 --print-config > options/p' >> commands
        ;;
      setup) bash -n <<< "$block" || failed=1 ;;
      megatron) ;;
      *) echo "$name: unknown kind of block '$kind'"; failed=1 ;;
    esac
  done < blocks
  # Two minutes: less than CTest gives the whole, so that what hangs is shown.
  if ! timeout 120 bash -e -x commands < /dev/null > output 2>&1; then
    echo "$name: a command failed:"
    tail -n 20 output
    failed=1
  fi
done
exit $failed
