#!/usr/bin/env bash
# quickstart.sh: from a fresh checkout to a language model that writes small stories.
#
#   scripts/quickstart.sh [--output-dir DIR] [--train-iters N]
#
# It installs what is missing, builds, and then goes once through the main job: make a corpus, train
# a vocabulary, turn text into token files, train a Llama on the CPU, evaluate it and let it write.
# Every command is printed before it runs, so that it can be copied.  All files go to DIR
# (./quickstart); a second run removes and remakes DIR if the first one made it.
# Exit codes: 64 usage; 73 DIR holds other files; else the code of the command that failed.
set -Eeuo pipefail  # -E: the trap that names the failing step holds in functions too

train_iters=1500  # decides how long training takes, and how often the last word is right
warmup_iters=50   # of them with a rising learning rate

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=quickstart
marker='# Made by scripts/quickstart.sh, which removes this folder when it runs again.'

stop() {  # stop CODE MESSAGE
  printf 'quickstart.sh: %s\n' "$2" >&2
  exit "$1"
}

while (($# > 0)); do
  case $1 in
    --output-dir | --train-iters)
      (($# > 1)) || stop 64 "$1 needs a value"
      if [[ $1 == --output-dir ]]; then folder=$2; else train_iters=$2; fi
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) stop 64 "unknown option '$1' (see --help)" ;;
  esac
  shift
done
[[ $train_iters =~ ^[1-9][0-9]{0,8}$ ]] && ((train_iters > warmup_iters)) ||
  stop 64 "--train-iters: '$train_iters', expected a number above $warmup_iters"
[[ -n $folder ]] || stop 64 "--output-dir is empty"

# Makes the work folder anew.  The marker is its .gitignore: git never sees what lies inside.
fresh_folder() {
  local ignore=$folder/.gitignore
  if [[ -L $folder || (-e $folder && ! -d $folder) ]]; then
    stop 73 "$folder is not a folder"
  elif [[ -f $ignore && $(head -n 1 "$ignore") == "$marker" ]]; then
    rm -rf -- "$folder"
  elif [[ -d $folder && -n $(ls -A -- "$folder") ]]; then
    stop 73 "$folder holds files of others; choose another folder with --output-dir"
  fi
  mkdir -p -- "$folder"
  printf '%s\n*\n' "$marker" >"$ignore"
}

# step COMMENT COMMAND: prints both, then runs COMMAND in this shell, so that `cd` lasts.
step() {
  current=$2
  printf '\n# %s\n$ %s\n' "$1" "$2"
  eval "$2"
}
trap 'printf "quickstart.sh: stopped at: %s\n" "$current" >&2' ERR

current='making the work folder'
fresh_folder
folder=$(cd "$folder" && pwd)

SECONDS=0
step 'Install the packages that are missing.' "cd $(printf %q "$repository") && scripts/setup"
if nvidia-smi -L >/dev/null 2>&1; then
  step 'Build the programs, with kernels for this machine'\''s GPU; on two cores it takes some ten minutes.' \
    "cmake --preset release && cmake --build --preset release --target programs"
else
  step 'Build the programs, without kernels for GPUs, as none is here; on two cores it takes some five minutes.' \
    "cmake --preset release -DMT_GPUS=none && cmake --build --preset release --target programs"
fi
built=$SECONDS

step 'The programs stand in build/release/cmd; the rest happens in the work folder.' \
  "export PATH=\"\$PWD/build/release/cmd:\$PWD/scripts:\$PATH\" && cd $(printf %q "$folder")"

step 'A corpus: 20,000 small stories whose last word follows from what was told.' \
  'make-stories --documents 20000 > stories.jsonl && head -n 2 stories.jsonl'

step 'Stories that are never in a corpus, to measure with.' \
  'make-stories --documents 500 --seed 2 --held-out > heldout.jsonl'

step 'A vocabulary of 512 tokens, learnt from the corpus.' \
  'mt-preprocess vocab --input stories.jsonl --vocab-size 512 --output-dir tok'

step 'Text to token files, stories_text_document.bin and .idx, with a manifest beside them.' \
  'mt-preprocess --input stories.jsonl --output-prefix stories \
    --tokenizer-type GPT2BPETokenizer --vocab-file tok/vocab.json --merge-file tok/merges.txt \
    --append-eod'

step 'A look inside: the first two documents, decoded by the tokenizer that the manifest names.' \
  'mt-preprocess cat stories_text_document --text --head 2'

step 'Train a Llama of four layers, a minute or less; the flags are those of Megatron-LM.' \
  "mt-pretrain --num-layers 4 --hidden-size 128 --num-attention-heads 4 \\
    --seq-length 64 --max-position-embeddings 64 --position-embedding-type rope \\
    --normalization RMSNorm --swiglu --disable-bias-linear --init-method-std 0.06 \\
    --micro-batch-size 12 --global-batch-size 12 --train-iters $train_iters \\
    --lr 5e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters $warmup_iters \\
    --adam-beta2 0.95 --hidden-dropout 0 --attention-dropout 0 \\
    --data-path stories_text_document --split 90,5,5 --save ckpt"

step 'How well does it predict stories that it has not seen?' \
  'mt-eval --load ckpt --task perplexity heldout.jsonl'

step 'Let it go on from two words.' \
  'mt-generate --load ckpt --num-tokens 40 --temperature 0.7 "Tom has"'

step 'Did it read? The likeliest end of a story; the name of the one who got the ring is right.' \
  'mt-generate --load ckpt --num-tokens 2 --temperature 0 \
    "Leo has the ring. He gives it to Kate. The day is long. Now the ring is with"'

trap - ERR
printf '\nquickstart.sh: done; building took %d s, the job %d s; all files are in %s\n' \
  "$built" "$((SECONDS - built))" "$folder"
