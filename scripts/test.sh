#!/usr/bin/env bash
# test.sh: everything that a change must pass, in the order in which it fails fastest.
#
#   scripts/test.sh [--quick] [--no-budget]
#
#   --quick       without the sanitizers
#   --no-budget   a stage may take as long as it takes: for a machine that does other work as well
#
# Sets up missing packages; checks the floors and, where clang-format is installed, the format;
# builds the release preset and runs its tests, the one that compares the man pages with the programs
# among them.  Then it builds the asan preset (address and undefined behaviour) and runs what works on
# memory, and the tsan preset (data races) with the tests in which threads of ours meet; in these
# several files are compiled as one.  Which tests these are is said beside them, by CTest's labels
# `threads`, `long` and `nightly` (CMakeLists.txt); what is not run here is run by scripts/nightly.sh.
# Prints the time of every stage.  Stops at the first stage that fails, with its exit code.  A stage
# that passes its budget, for two idle cores without ccache, does not stop the rest, but the run
# fails with exit code 1: what a change adds to it is seen in that change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quick=0 budgets=1
for option; do
  case $option in
    --quick) quick=1 ;;
    --no-budget) budgets=0 ;;
    *)
      printf 'usage: test.sh [--quick] [--no-budget]\n' >&2
      exit 64
      ;;
  esac
done

jobs=$(nproc)
times=() passed_budget=0
trap 'code=$?
  printf "\n"
  printf "%s\n" "${times[@]}"
  printf "test.sh: exit code %d after %d s\n" "$code" "$SECONDS"' EXIT

# stage NAME BUDGET COMMAND...: runs COMMAND and notes how long it took, and whether that is more than
# BUDGET seconds.
stage() {
  local name=$1 budget=$2 started=$SECONDS code=0 took remark=''
  shift 2
  printf '\n== %s\n' "$name"
  "$@" || code=$?
  took=$((SECONDS - started))
  ((code == 0)) || remark=": FAILED ($code)"
  over_budget "$took" "$budget" && remark+=": more than its budget of $budget s"
  times+=("$(printf '%5d s  %s%s' "$took" "$name" "$remark")")
  return "$code"
}

over_budget() { # over_budget SECONDS BUDGET
  ((budgets && $1 > $2)) && passed_budget=1
}

build() { # build PRESET [TARGET...]
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

run_tests() { # run_tests PRESET [CTEST OPTION...]
  local preset=$1
  shift
  # One more than there are processors: some tests wait most of their time.
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel $((jobs + 1)) "$@"
}

stage 'set-up' 120 scripts/setup
stage 'floors' 5 scripts/check-floors
if command -v clang-format >/dev/null; then stage 'format' 30 scripts/check-format; fi
stage 'configure release' 30 cmake --preset release
stage 'build release' 900 build release
stage 'tests release' 400 run_tests release --label-exclude '^nightly$'
total=1400

if ((quick == 0)); then
  stage 'configure asan' 30 cmake --preset asan
  stage 'build asan' 700 build asan
  stage 'tests asan' 400 run_tests asan --label-exclude '^(long|nightly)$'
  stage 'configure tsan' 30 cmake --preset tsan
  stage 'build tsan' 220 build tsan tests_threads
  stage 'tests tsan' 150 run_tests tsan --label-regex '^threads$'
  total=2400
fi
if over_budget "$SECONDS" $total; then times+=("        more than $total s in all"); fi
exit $passed_budget
