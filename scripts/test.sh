#!/usr/bin/env bash
# test.sh: everything that a change must pass, in the order in which it fails fastest.
#
#   scripts/test.sh [--quick]          --quick: without the sanitizers
#
# Sets up missing packages; checks the floors and, where clang-format is installed, the format;
# builds the release preset and runs all tests, the one that compares the man pages with the programs
# among them.  Then it builds the asan preset (address and undefined behaviour) and runs all tests but
# those that carry the CTest label `long`, and the tsan preset (data races) with the tests
# of comm and of the schedule executor.
# Prints the time of every stage.  Stops at the first stage that fails, with its exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Names of the tests in which threads of ours meet, as a regular expression for ctest.
threaded='^(comm|train_executor)'

quick=0
case ${1:-} in
  '') ;;
  --quick) quick=1 ;;
  *)
    printf 'usage: test.sh [--quick]\n' >&2
    exit 64
    ;;
esac

jobs=$(nproc)
times=()
trap 'code=$?
  printf "\n"
  printf "%s\n" "${times[@]}"
  printf "test.sh: exit code %d after %d s\n" "$code" "$SECONDS"' EXIT

# stage NAME COMMAND...: runs COMMAND and notes how long it took.
stage() {
  local name=$1 started=$SECONDS code=0
  shift
  printf '\n== %s\n' "$name"
  "$@" || code=$?
  times+=("$(printf '%5d s  %s%s' $((SECONDS - started)) "$name" \
    "$( ((code == 0)) || printf ': FAILED (%d)' "$code")")")
  return "$code"
}

build() {  # build PRESET [TARGET...]
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

run_tests() {  # run_tests PRESET [CTEST OPTION...]
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" "$@"
}

# The programs of the tests in build/tsan that `threaded` selects: test NAME is program NAME_test.
threaded_targets() {
  ctest --test-dir build/tsan -N -R "$threaded" |
    sed -n 's/^ *Test *#[0-9]*: *\([A-Za-z0-9_]*\).*/\1_test/p'
}

stage 'set-up' scripts/setup
stage 'floors' scripts/check-floors
if command -v clang-format >/dev/null; then stage 'format' scripts/check-format; fi
stage 'configure release' cmake --preset release
stage 'build release' build release
stage 'tests release' run_tests release

if ((quick == 0)); then
  stage 'configure asan' cmake --preset asan
  stage 'build asan' build asan
  stage 'tests asan' run_tests asan --label-exclude '^long$'
  stage 'configure tsan' cmake --preset tsan
  mapfile -t targets < <(threaded_targets)
  stage 'build tsan' build tsan "${targets[@]}"
  stage 'tests tsan' run_tests tsan --tests-regex "$threaded"
fi
