#!/usr/bin/env bash
# kernels/gpus.cmake: what becomes of MT_GPUS, and that what is wrong with it is said in one line.
set -euo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
printf '#!/bin/sh\nprintf "$CAPABILITIES"\n' >"$folder/bin/nvidia-smi"
chmod +x "$folder/bin/nvidia-smi"
export PATH=$folder/bin:$PATH CAPABILITIES=

# expect LIST WHAT: WHAT is printed, or the line with MT_GPUS of the error.
failed=0
expect() {
  local got
  got=$(cmake "-DMT_GPUS=$1" -P "$root/kernels/gpus.cmake" 2>&1 |
    sed -n 's/^-- //p; s/^ *\(MT_GPUS: \)/\1/p') || true
  [[ $got == "$2" ]] || {
    printf 'gpus_test: MT_GPUS=%s: got "%s", expected "%s"\n' "$1" "$got" "$2" >&2
    failed=1
  }
}

expect '75;80;86;89;90a;100;120' '75-real;80-real;86-real;89-real;90a-real;100-real;120-real'
expect all '75-real;80-real;86-real;89-real;90a-real;100-real;120-real;100-virtual'
expect '90;90a;90-real;80-virtual;80;80' '90a-real;80-virtual;80-real'
expect none ''
expect check 90a-real
expect foo 'MT_GPUS: foo: expected capabilities such as 80 or 90a, or all'
expect '80,86' 'MT_GPUS: 80,86: expected capabilities such as 80 or 90a, or all'
expect '80;90a-virtual' 'MT_GPUS: 90a-virtual: expected capabilities such as 80 or 90a, or all'
expect 70 'MT_GPUS: 70: kernels are for Turing, 75, and later GPUs'
expect 8.0 'MT_GPUS: 8.0: expected capabilities such as 80 or 90a, or all'

# Of the GPUs here; without any, Hopper.
CAPABILITIES='8.6\n8.6\n9.0\n12.0\n' expect '' '86-real;90a-real;120-real'
CAPABILITIES='No devices were found\n' expect '' 90a-real
CAPABILITIES='6.1\n' expect '' 90a-real

# A build for none, also where nvcc is.
cmake -S "$root" -B "$folder/none" -G Ninja -DMT_GPUS=none >"$folder/log" 2>&1 || { cat "$folder/log"; failed=1; }
! grep 'Kernels are compiled' "$folder/log" || failed=1
exit $failed
