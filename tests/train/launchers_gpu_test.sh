#!/bin/bash
# Ranks on GPUs, started in each way, train to the same bits, and a rank that is killed costs only time.
#
#   tests/train/launchers_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without two GPUs
set -eu -o pipefail
bin=$1
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
ranks=$((gpus < 4 ? 2 : 4))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --quiet --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128
     --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --train-iters 200 --lr 1e-3
     --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 --bf16
     --tensor-model-parallel-size 2)
port=$((20000 + $$ % 10000))
first=$(seq -s, 0 $((ranks / 2 - 1))) second=$(seq -s, $((ranks / 2)) $((ranks - 1)))

same() {  # FOLDER: of its run, the bytes of the one with --gpus
  for file in gpus/iter_0000200/*.distcp; do cmp "$file" "$1/iter_0000200/${file##*/}"; done
  echo "$1: same"
}
started_by() {  # FOLDER RANK SIZE LOCAL_RANK LOCAL_SIZE: the variables that one launcher has for these
  local folder=$1 rank process processes=()
  port=$((port + 1))
  for ((rank = ranks - 1; rank >= 0; --rank)); do
    env "$2=$rank" "$3=$ranks" "$4=$rank" "$5=$ranks" MASTER_ADDR=localhost MASTER_PORT=$port \
      "${run[@]}" --save "$folder" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process"; done
  same "$folder"
}

"${run[@]}" --gpus $ranks --save gpus

hosts=("${run[@]}" --gpus $((ranks / 2)) --nnodes 2 --master localhost:$port --save hosts)
CUDA_VISIBLE_DEVICES=$second "${hosts[@]}" --node-rank 1 &
CUDA_VISIBLE_DEVICES=$first "${hosts[@]}" --node-rank 0
wait $!
same hosts

started_by torchrun RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
started_by mpirun OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE

"${run[@]}" --gpus $ranks --save killed --save-interval 20 --max-restarts 3 2> messages &
supervisor=$!
until [[ -e killed/latest_checkpointed_iteration.txt ]] || ! kill -0 $supervisor; do sleep 0.02; done
read -ra children <<< "$(cat /proc/$supervisor/task/$supervisor/children)"
kill -9 "${children[ranks - 1]}"
lost=$SECONDS
until grep -q 'restart 1 of 3' messages || ! kill -0 $supervisor; do sleep 0.1; done
((SECONDS - lost <= 20)) || { echo "started again after $((SECONDS - lost)) s"; exit 1; }
wait $supervisor
same killed
