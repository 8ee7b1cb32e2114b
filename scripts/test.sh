#!/usr/bin/env bash
# test.sh: everything that a change must pass, in the order in which it fails fastest.
#
#   scripts/test.sh [--quick] [--no-budget]
#
#   --quick       without the sanitizers, the tests labelled `long` and the compilation of kernels for GPUs
#   --no-budget   a stage may take as long as it takes: for a machine that does other work as well
#
# Sets up missing packages; checks the floors and, where clang-format is installed, the format;
# builds the release preset and runs its tests, the one that compares the man pages with the programs
# among them.  Then, by another compiler, it builds the asan preset (address and undefined behaviour) and
# runs what works on memory, and the tsan preset (data races) with the tests in which threads of ours meet.  Which tests
# these are is said beside them, by CTest's labels `threads`, `long` and `nightly` (CMakeLists.txt);
# what is not run here is run by scripts/nightly.sh.
# Prints the time of every stage.  Stops at the first stage that fails, with its exit code.  A stage
# that passes its budget does not stop the rest, but the run fails with exit code 1: what a change
# adds to it is seen in that change.  Budgets are for two idle cores without ccache, with a quarter to
# spare, of tests with sanitizers with a half; a machine that is slower, or does other work as well, has
# as much more time as it needs for a fixed piece of work, which is done before and after each stage of
# a minute or more.
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
times=() passed_budget=0 pace=100
trap 'code=$?
  printf "\n"
  printf "%s\n" "${times[@]}"
  printf "test.sh: exit code %d after %d s\n" "$code" "$SECONDS"' EXIT

# Sets `pace` to how many per cent of the time of the budgets' machine, 4.2 s, this one takes now to
# compile a file of the standard library's on every processor, and to 100 if it is quicker.
measure_pace() {
  local started=${EPOCHREALTIME/./} i
  for ((i = 0; i < jobs; ++i)); do
    c++ -std=c++20 -O2 -x c++ -c -o /dev/null - <<<'#include <regex>
bool probe(const char* s) { return std::regex_search(s, std::regex("(a|b)*c")); }' &
  done
  wait
  pace=$(((${EPOCHREALTIME/./} - started) / 42000))
  ((pace > 100)) || pace=100
}

# stage NAME BUDGET COMMAND...: runs COMMAND and notes how long it took, and whether that is more than
# BUDGET seconds at the mean of the machine's paces before and after.
stage() {
  local name=$1 budget=$2 started=$SECONDS code=0 took before=$pace remark=''
  shift 2
  printf '\n== %s\n' "$name"
  "$@" || code=$?
  took=$((SECONDS - started))
  ((code == 0)) || remark=": FAILED ($code)"
  ((took < 60)) || measure_pace
  budget=$((budget * (before + pace) / 200))
  if ((budgets && took > budget)); then
    remark+=": more than its budget of $budget s"
    passed_budget=1
  fi
  times+=("$(printf '%5d s  %s%s' "$took" "$name" "$remark")")
  return "$code"
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

packages=()
if ((quick == 0)); then packages=(clang-19 libclang-rt-19-dev); fi
stage 'set-up' 120 scripts/setup "${packages[@]}"
measure_pace
stage 'floors' 5 scripts/check-floors
if command -v clang-format >/dev/null; then stage 'format' 30 scripts/check-format; fi
# Where no GPU is to run them, kernels are compiled to be checked alone, or by --quick not at all, unless the folder
# has been configured for GPUs.
gpus=() leave_out='^nightly$' kernels=check
if ((quick)); then leave_out='^(long|nightly)$' kernels=none; fi
if ! nvidia-smi -L >/dev/null 2>&1 &&
  { [[ ! -e build/release/CMakeCache.txt ]] || grep -qx 'MT_GPUS:[A-Z]*=\(none\|check\)' build/release/CMakeCache.txt; }; then
  gpus=("-DMT_GPUS=$kernels")
fi
stage 'configure release' 30 cmake --preset release "${gpus[@]}"
stage 'build release' 840 build release
stage 'tests release' 540 run_tests release --label-exclude "$leave_out"

if ((quick == 0)); then
  stage 'configure asan' 30 cmake --preset asan
  stage 'build asan' 700 build asan
  stage 'tests asan' 600 run_tests asan --label-exclude '^(long|nightly)$'
  stage 'configure tsan' 30 cmake --preset tsan
  stage 'build tsan' 300 build tsan tests_threads
  stage 'tests tsan' 150 run_tests tsan --label-regex '^threads$'
fi
exit $passed_budget
