#!/bin/bash
# A rank on GPUs that is killed or stopped ends the run in time, whatever the others' GPUs wait for, and they say which
# it was and what they are in.  A run that takes no step more ends 20 s after TERM too, and at a second INT.
#
#   tests/train/faults_gpu_test.sh BIN    the folder with mt-pretrain; exit code 125 without two GPUs
set -eu -o pipefail
bin=$(realpath "$1")
gpus=$(nvidia-smi -L 2> /dev/null | wc -l) || true
((gpus >= 2)) || exit 125
ranks=$((gpus >= 4 ? 4 : 2))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run=("$bin/mt-pretrain" --quiet --json --gpus $ranks --distributed-timeout-minutes 1 --num-layers 4 --hidden-size 256
     --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256 --micro-batch-size 2
     --lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 --bf16)

# Of the last rank: STOP waits for the timeout, STOP+TERM stops it and then asks the run to end.
fault() {  # NAME SIGNALS SECONDS CODE LINE OPTION…: how long until the end, its code, and what rank 0 says
  local name=$1 signals=$2 most=$3 expected=$4 line=$5 children supervisor begin code=0
  shift 5
  mkdir "$name"
  (cd "$name" && exec env --default-signal=INT "${run[@]}" "$@") > "$name/steps" 2> "$name/messages" &
  supervisor=$!
  until (($(grep -c "$after" "$name/steps") >= 3)); do
    kill -0 $supervisor 2> /dev/null || { cat "$name/messages"; return 1; }
    sleep 0.1
  done
  read -ra children <<< "$(cat /proc/$supervisor/task/$supervisor/children)"
  begin=$EPOCHREALTIME
  kill -"${signals%%+*}" "${children[-1]}"
  [[ $signals != *+* ]] || for signal in ${signals#*+}; do sleep 0.3; kill -"$signal" $supervisor; done
  wait $supervisor || code=$?
  awk -v from="$begin" -v to="$EPOCHREALTIME" -v most="$most" -v code=$code -v expected="$expected" -v name="$name, $signals" '
    BEGIN { took = to - from; printf "%s: exit code %d after %.1f s\n", name, code, took; exit !(took <= most && code == expected) }' &&
    { [[ -z $line ]] || grep -q "^mt-pretrain: $line" "$name/messages"; } || { cat "$name/messages"; return 1; }
}

failed=0 jobs=() after='"event":"step"'
wait_all() {
  local job
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  jobs=()
}
beside() { fault "$@" --train-iters 1000000 --global-batch-size 16 & jobs+=($!); }

last=$((ranks - 1)) host='([^)]*)'
gone="rank $last $host has said nothing for [0-9.]* s: its process is stopped, or its host cannot be reached"
silent="$gone; rank [0-9] $host has waited for its GPU for [0-9.]* s since it has begun operation [0-9]* of its group, [a-z_]* of [0-9]* [a-z0-9]* among [0-9]"
# If the step in which all are told of the signal was queued already, the end is what the last rank does not come to.
asked="\(SIGTERM came [0-9]* s ago, and no step has ended since: $silent\|$gone\)"
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
beside killed KILL 20 137 "rank $last $host is gone: its connection was lost\$"
beside stopped STOP 90 76 "$silent"
beside interrupted 'STOP+INT INT' 2 130 ''
beside sums STOP+TERM 32 76 "$asked"
wait_all
beside copies STOP+TERM 32 76 "$asked" "${sharded[@]}"
beside weights STOP+TERM 32 76 "$asked" "${sharded[@]}" --data-parallel-sharding-strategy optim_grads_params
beside tensor STOP+TERM 32 76 "$asked" --tensor-model-parallel-size $ranks
beside overlap STOP+TERM 32 76 "$asked" --tensor-model-parallel-size $ranks --sequence-parallel --tp-comm-overlap
wait_all
beside messages STOP+TERM 32 76 "$asked" --pipeline-model-parallel-size $ranks
for how in p2p a2a all_gather; do
  beside context_$how STOP+TERM 32 76 "$asked" --context-parallel-size $ranks --cp-comm-type $how
done
wait_all
# Steps so long that none ends between a save and the signal.
after='"event":"save"'
fault saved STOP+TERM 34 75 "SIGTERM came [0-9]* s ago, and no step has ended since, saved; run the same command .*: $silent" \
  --save saved --save-interval 1 --train-iters 1000 --global-batch-size 8192 || failed=1
exit $failed
