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
echo "srun $1 $2" >> calls
highest=0 rank=0
for code in $CODES; do
  CODE=$code SLURM_PROCID=$((rank++)) "${@:3}"
  code=$?
  ((highest > code)) || highest=$code
done
kill -TERM $PPID
exit $highest
END
cat > mt-pretrain << 'END'
#!/bin/bash
((SLURM_PROCID > 0)) || echo "mt-pretrain $*" >> calls
kill -USR1 $PPID
exit "$CODE"
END
cat > scontrol << 'END'
#!/bin/bash
echo "scontrol $*" >> calls
END
chmod +x srun scontrol mt-pretrain
export PATH=$folder:$PATH SLURM_JOB_ID=17

# expect CODES RESTARTS EXIT CALLS [OPTION...]: CODES are those of the ranks
expect() {
  local code=0
  rm -f calls
  CODES=$1 SLURM_RESTART_COUNT=$2 "$script" "${@:5}" || code=$?
  [[ $code == "$3" ]] || { echo "ranks ended with $1: exit code $code, expected $3"; exit 1; }
  diff calls - <<< "$4"
  [[ ! $(ls -A "${CHECKPOINTS:-checkpoints}") ]] || { echo "left $(ls -A "${CHECKPOINTS:-checkpoints}")"; exit 1; }
}
srun='srun --kill-on-bad-exit=0 --wait=120'
run=$srun$'\n''mt-pretrain --save checkpoints --load checkpoints'
again='scontrol requeue 17'
expect '0 0' 0 0 "$run --config run.yaml"
expect '75 75' 30 0 "$run --config run.yaml"$'\n'"$again"
expect '76 76' 0 0 "$run --lr 1e-3"$'\n'"$again" --lr 1e-3
expect '137 76' 19 0 "$run --config run.yaml"$'\n'"$again"
expect '137 76' 20 137 "$run --config run.yaml"
expect 65 0 65 "$run --config run.yaml"
# A failure that comes again, of which the others were told, and one that hung and was killed.
expect '76 65 76' 0 65 "$run --config run.yaml"
expect '76 71 137' 0 71 "$run --config run.yaml"
CHECKPOINTS=large expect '0 0' 0 0 "$srun"$'\n'"mt-pretrain --save large --load large --config run.yaml"
