#!/usr/bin/env bash
# scripts/quickstart.sh removes a work folder that it made, and no other.  The set-up, the compiler
# and the programs are stand-ins here: only the script itself is at work.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{repository/scripts,bin}
cp "$1"/scripts/{quickstart.sh,make-stories} "$scratch/repository/scripts"
for program in cmake mt-preprocess mt-pretrain mt-eval mt-generate; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' "$program" "$scratch" >"$scratch/bin/$program"
done
printf '#!/bin/sh\n' >"$scratch/repository/scripts/setup"
chmod +x "$scratch"/bin/* "$scratch/repository/scripts/setup"
cd "$scratch"

failures=0
# expect WHAT CODE ARGUMENT...: the exit code of quickstart.sh with these arguments
expect() {
  local what=$1 wanted=$2 code=0
  shift 2
  PATH=$scratch/bin:$PATH repository/scripts/quickstart.sh "$@" >out 2>err || code=$?
  [[ $code == "$wanted" ]] && return
  printf 'quickstart_folder_test: %s: exit code %d, expected %d\n' "$what" "$code" "$wanted" >&2
  cat err >&2
  failures=1
}
fail() {
  printf 'quickstart_folder_test: %s\n' "$1" >&2
  failures=1
}

expect 'no more iterations than the warm-up' 64 --train-iters 50
expect 'first run' 0 --train-iters 70
[[ $(wc -l <quickstart/stories.jsonl) == 20000 ]] || fail 'no corpus in ./quickstart'
grep -q '^mt-pretrain .*--train-iters 70 .*--save ckpt$' calls || fail 'mt-pretrain was not called'
grep -q '^mt-generate .*--temperature 0.7 Tom has$' calls || fail 'mt-generate was not called'
touch quickstart/old
expect 'second run' 0
[[ ! -e quickstart/old ]] || fail 'the second run kept a file of the first'

mkdir theirs empty
touch theirs/thesis
expect 'folder with files of others' 73 --output-dir theirs
[[ -e theirs/thesis && ! -e theirs/.gitignore ]] || fail 'the folder of others was touched'
expect 'empty folder' 0 --output-dir empty
ln -s quickstart link
expect 'link' 73 --output-dir link
[[ -e quickstart/stories.jsonl ]] || fail 'removed through a link'
touch file
expect 'file' 73 --output-dir file
expect 'no number' 64 --train-iters many
expect 'unknown option' 64 --fast
expect 'no value' 64 --output-dir
printf '#!/bin/sh\nexit 65\n' >bin/mt-eval
expect 'a program fails' 65
grep -q '^quickstart.sh: stopped at: mt-eval' err || fail 'the failing command is not named'
exit $failures
