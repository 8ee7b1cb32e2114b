#!/usr/bin/env bash
# scripts/same-results finds that a build is as itself, and each of the ways in which another one is not.
# shellcheck disable=SC2016,SC2054  # scripts in quotes; commas in names
set -uo pipefail
repository=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit

# expect CODE LINES [ARG...]: same-results ends with CODE and prints these lines, in any order
expect() {
  local said code=0
  said=$("$repository/scripts/same-results" "${@:3}" 2>&1) || code=$?
  said=$(sort <<< "$said")
  # shellcheck disable=SC2053  # a pattern
  [[ $code == "$1" && $said == $2 ]] || { echo "same-results ${*:3}: exit code $code"; echo "$said"; exit 1; }
}

cases=(convert/gpt2 data/bpe evaluate/gpt2 generate/gpt2,greedy options train/gpt2,fp32,tp2pp2)
same=$(printf 'same %s\n' "${cases[@]}")
expect 0 "$same" "$build" "$build" "${cases[@]}"

# instead PROGRAM SCRIPT: new/PROGRAM is SCRIPT, in which $real is the build's
mkdir new
instead() {
  printf '#!/usr/bin/env bash\nreal=%q\n%s\n' "$build/cmd/$1" "$2" > "new/$1"
  chmod +x "new/$1"
}
instead mt-convert '"$real" "$@" && { [[ ${@: -1} != torch_dist-of-torch ]] ||
  printf "\1" | dd of="${@: -1}"/release/__0_0.distcp bs=1 seek=40 conv=notrunc status=none; }'
instead mt-preprocess '[[ $2 != out* ]] || touch more; exec "$real" "$@"'
instead mt-eval '[[ $1 != --load ]] || { echo mt-eval: no >&2; exit 3; }; exec "$real" "$@"'
instead mt-finetune 'exec "$real" "$@"'
instead mt-generate '"$real" "$@" | sed s/Tom/Tim/'
instead mt-pretrain 'if [[ $* == *--help* ]]; then "$real" "$@" | sed s/--seq-length/--sequence/
  else exec "$real" "$@" --seed 5; fi'
expect 1 "DIFFERS convert/gpt2: torch_dist-of-torch/release/__0_0.distcp char 41, line *
DIFFERS data/bpe: Only in new: more
DIFFERS evaluate/gpt2: exit code 3, not 0: mt-eval: no
DIFFERS generate/gpt2,greedy: stdout line 1: Tom has* <> Tim has*
DIFFERS options: mt-pretrain --help line *: *--seq-length* <> *--sequence*
DIFFERS train/gpt2,fp32,tp2pp2: stderr line *: *lm loss: * <> *lm loss: *" --keep kept "$build" new "${cases[@]}"
[[ -s kept/evaluate/gpt2/old/stdout && ! -s kept/evaluate/gpt2/new/stdout ]] || { echo 'nothing is kept'; exit 1; }

expect 1 'FAILED evaluate/gpt2: exit code 3: mt-eval: no' new "$build" evaluate/gpt2
expect 64 'same-results: no case is called none' "$build" "$build" none
expect 64 'same-results: usage: *' "$build"
expect 66 "same-results: there are no programs in 'nowhere'" nowhere "$build"
