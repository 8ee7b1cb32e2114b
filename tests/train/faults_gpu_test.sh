#!/bin/bash
# A rank on GPUs that is killed or stopped ends the run in time, and the others say which it was.
#
#   tests/train/faults_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without two GPUs
set -eu -o pipefail
bin=$1
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --quiet --json --gpus 2 --distributed-timeout-minutes 1 --num-layers 2 --hidden-size 256
     --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8
     --train-iters 1000000 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 --bf16)

fault() {  # SIGNAL SECONDS CODE LINE: to rank 1; how long until the end, its code, and what rank 0 says
  local children supervisor begin code=0
  "${run[@]}" > steps 2> messages &
  supervisor=$!
  until grep -q '"event":"step"' steps; do kill -0 $supervisor; sleep 0.1; done
  read -ra children <<< "$(cat /proc/$supervisor/task/$supervisor/children)"
  kill -"$1" "${children[1]}"
  begin=$SECONDS
  wait $supervisor || code=$?
  echo "$1: exit code $code after $((SECONDS - begin)) s"
  ((SECONDS - begin <= $2 && code == $3)) && grep -q "^mt-pretrain: $4" messages || { cat messages; exit 1; }
}
fault KILL 20 137 'rank 1 ([^)]*) is gone: its connection was lost$'
fault STOP 90 76 'rank 1 ([^)]*) has said nothing for [0-9.]* s: its process is stopped'
