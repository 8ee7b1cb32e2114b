#!/usr/bin/env bash
# scripts/check-floors passes a sound tree and names FILE:LINE of each kind of fault.
set -euo pipefail
check=$1/scripts/check-floors
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

failures=0
fail() {
  printf 'check_floors_test: %s\n' "$1" >&2
  failures=1
}

sound_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/{libcommon/{base,tensor,ops,nn},kernels,cmd}
  printf '#include <vector>\n' >"$tree/libcommon/base/error.h"
  printf '#include "base/error.h"\n' >"$tree/libcommon/tensor/tensor.h"
  printf '#include "base/error.h"\n#include "kernels/add.h"\n' >"$tree/kernels/add_cpu.cpp"
  printf '#include "tensor/tensor.h"\n#include "kernels/add.h"\n' >"$tree/libcommon/ops/add.cpp"
  printf '// one\n  #  include "ops/add.h"\n#include "base/error.h"\n' >"$tree/libcommon/nn/norm.cpp"
  printf '#include "nn/norm.h"\n#include "base/error.h"\n' >"$tree/cmd/mt-one.cpp"
  printf 'mt_library(base SOURCES error.cpp)\n' >"$tree/libcommon/base/CMakeLists.txt"
  printf 'mt_library(tensor SOURCES a.cpp USES base)\n' >"$tree/libcommon/tensor/CMakeLists.txt"
  printf 'mt_library(kernels SOURCES a.cpp USES base LINKS x)\n' >"$tree/kernels/CMakeLists.txt"
  printf 'mt_library(ops SOURCES a.cpp\n  USES kernels tensor  # base comes along\n)\n' \
    >"$tree/libcommon/ops/CMakeLists.txt"
  printf 'mt_library(nn SOURCES norm.cpp USES ops)\n' >"$tree/libcommon/nn/CMakeLists.txt"
  printf 'mt_program(mt-one USES nn)\n' >"$tree/cmd/CMakeLists.txt"
}

# expect WHAT CODE LINE FILE CONTENT: with CONTENT in FILE the script exits with CODE and prints
# just LINE.
expect() {
  local code=0 output
  sound_tree
  if [[ -n ${4:-} ]]; then
    mkdir -p "$(dirname "$tree/$4")"
    printf '%b' "$5" >"$tree/$4"
  fi
  output=$("$check" "$tree" 2>&1) || code=$?
  [[ $code == "$2" && $output == "$3" ]] || fail "$1: exit code $code, output: $output"
}

expect 'sound' 0 ''
expect 'up' 1 'libcommon/base/error.h:2: base (floor 0) includes ops (floor 2)' \
  libcommon/base/error.h '\n#include "ops/add.h"\n'
expect 'sideways' 1 'kernels/add_cpu.cpp:1: kernels (floor 1) includes tensor (floor 1)' \
  kernels/add_cpu.cpp '#include "tensor/tensor.h"\n'
expect 'in a .cu' 1 'kernels/add_cuda.cu:1: kernels (floor 1) includes nn (floor 3)' \
  kernels/add_cuda.cu '#include "nn/norm.h"\n'
expect 'library includes a program' 1 'libcommon/nn/x.h:1: nn (floor 3) includes cmd (floor 8)' \
  libcommon/nn/x.h '#include "cmd/x.h"\n'
expect 'no folder' 1 'libcommon/nn/x.h:1: "norm.h" does not begin with a folder that has a floor' \
  libcommon/nn/x.h '#include "norm.h"\n'
expect 'by the way of ..' 1 \
  'libcommon/base/x.h:1: "../nn/norm.h" does not begin with a folder that has a floor' \
  libcommon/base/x.h '#include "../nn/norm.h"\n'
expect 'angle brackets' 1 'libcommon/base/x.h:1: <nn/norm.h> is ours: use quotes' \
  libcommon/base/x.h '#include <nn/norm.h>\n'
expect 'unknown folder' 1 'libcommon/misc/x.h:1: folder misc has no floor' \
  libcommon/misc/x.h 'int x;\n'
expect 'USES up' 1 'libcommon/ops/CMakeLists.txt:2: ops (floor 2) uses nn (floor 3)' \
  libcommon/ops/CMakeLists.txt 'mt_library(ops SOURCES a.cpp USES kernels tensor\n  nn)\n'
expect 'USES unknown' 1 'libcommon/ops/CMakeLists.txt:1: USES misc: no such folder' \
  libcommon/ops/CMakeLists.txt 'mt_library(ops SOURCES a.cpp USES kernels tensor misc)\n'
expect 'USES too little' 1 \
  'libcommon/ops/add.cpp:1: includes tensor, which USES of ops do not reach' \
  libcommon/ops/CMakeLists.txt 'mt_library(ops SOURCES a.cpp USES kernels)\n'
expect 'USES of a program too little' 1 \
  'cmd/mt-one.cpp:1: includes nn, which USES of mt-one do not reach' \
  cmd/CMakeLists.txt 'mt_program(mt-one USES ops)\n'

rm -rf "${tree:?}"/*
code=0
"$check" "$tree" >/dev/null 2>&1 || code=$?
[[ $code == 66 ]] || fail "an empty tree: exit code $code, expected 66"
exit $failures
