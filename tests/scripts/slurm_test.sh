#!/bin/bash
# scripts/slurm/pretrain.sbatch with an srun and an scontrol of ours: what it calls, and what becomes of each exit
# code.
set -eu
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts/slurm" && pwd)/pretrain.sbatch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > srun << 'END'
#!/bin/bash
echo "srun $*" >> calls
kill -TERM $PPID
exit "$CODE"
END
cat > scontrol << 'END'
#!/bin/bash
echo "scontrol $*" >> calls
END
chmod +x srun scontrol
export PATH=$folder:$PATH SLURM_JOB_ID=17

# expect CODE RESTARTS EXIT CALLS [OPTION...]
expect() {
  local code=0
  rm -f calls
  CODE=$1 SLURM_RESTART_COUNT=$2 "$script" "${@:5}" || code=$?
  [[ $code == "$3" ]] || { echo "srun ended with $1: exit code $code, expected $3"; exit 1; }
  diff calls - <<< "$4"
}
run='srun --kill-on-bad-exit=0 --wait=120 mt-pretrain --save checkpoints --load checkpoints'
again='scontrol requeue 17'
expect 0 0 0 "$run --config run.yaml"
expect 75 30 0 "$run --config run.yaml"$'\n'"$again"
expect 76 0 0 "$run --lr 1e-3"$'\n'"$again" --lr 1e-3
expect 137 19 0 "$run --config run.yaml"$'\n'"$again"
expect 137 20 137 "$run --config run.yaml"
expect 65 0 65 "$run --config run.yaml"
CHECKPOINTS=/large expect 0 0 0 "srun --kill-on-bad-exit=0 --wait=120 mt-pretrain --save /large --load /large --config run.yaml"
