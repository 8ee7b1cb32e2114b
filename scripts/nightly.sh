#!/usr/bin/env bash
# nightly.sh: what takes too long to run for every change.
#
#   scripts/nightly.sh [--data DIR] [--megatron DIR] [--releases DIR] [--python PROGRAM]
#
# Runs scripts/test.sh, then every script below that the tree holds.  All are run; afterwards the
# times are printed, and the exit code is 1 if one of them failed, else 0.
#   --data DIR        public files that are not part of the project: gpt2/vocab.json,
#                     gpt2/merges.txt and texts; without it nothing is compared with peers
#   --megatron DIR    a checkout of NVIDIA/Megatron-LM at core_v0.12.1, with --data; without it what
#                     is in no package of it, such as BERT's tokenizer, is not compared
#   --releases DIR    megatron-core of other releases (scripts/megatron_releases.py), with --data;
#                     without it mt-convert is compared with 0.12.1 alone
#   --python PROGRAM  a Python with the packages that the comparing scripts name at their heads
#                     (python3)
# scripts/setup is asked for what they need: clang-19, llvm-19, clang-tidy, strace and debootstrap.  The package is
# installed in a root of its own by root alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data='' megatron='' releases='' python=python3
while (($# > 0)); do
  case $1 in
    --data | --megatron | --releases | --python)
      (($# > 1)) || {
        printf 'nightly.sh: %s needs a value\n' "$1" >&2
        exit 64
      }
      declare "${1#--}=$2"
      shift
      ;;
    *)
      printf 'usage: nightly.sh [--data DIR] [--megatron DIR] [--releases DIR] [--python PROGRAM]\n' >&2
      exit 64
      ;;
  esac
  shift
done

results=() failed=0

# long SCRIPT COMMAND...: runs COMMAND if the tree holds SCRIPT.
long() {
  local script=$1 started=$SECONDS code=0
  shift
  [[ -e $script ]] || return 0
  printf '\n== %s\n' "$*"
  "$@" || code=$?
  if ((code != 0)); then failed=1; fi
  results+=("$(printf '%6d s  exit code %3d  %s' $((SECONDS - started)) "$code" "$*")")
}

# Builds PRESET in FOLDER, each file by itself and with no precompiled headers, so that it includes what
# it uses.
each_alone() { # each_alone PRESET FOLDER
  cmake --preset "$1" -B "$2" -DMT_PCH=OFF -DMT_UNITY=OFF && cmake --build "$2" --parallel "$(nproc)"
}

every_check() {
  cmake --preset asan -B build/every-check -DMT_EVERY_CHECK=ON &&
    cmake --build build/every-check --parallel "$(nproc)" --target all tests_long &&
    ctest --test-dir build/every-check --output-on-failure --no-tests=error --parallel "$(nproc)"
}

# Kernels for every GPU that a release has code for.
for_all_gpus() {
  cmake --preset release -B build/all -DMT_GPUS=all &&
    cmake --build build/all --target mt_kernels_cuda --parallel "$(nproc)"
}

# A Debian with nothing else takes the package, and README's first hour and the guides run there.
in_clean_debian() {
  local root code=0
  root=$(mktemp -d)
  debootstrap --variant=minbase bookworm "$root" >/dev/null &&
    tests/scripts/package_test.sh . build/release "$root" || code=$?
  rm -rf --one-file-system "$root"
  return "$code"
}

# A small BERT, pretrained here, learns more than 90 % of a task of its example.
learns() { # learns EXAMPLE
  "$1" --tiny 2>&1 | awk '{ print } / >> .* overall: / { right = $(NF - 1) } END { exit right <= 90 }'
}

scripts/setup clang-19 libclang-rt-19-dev llvm-19 clang-tidy strace debootstrap
long scripts/test.sh scripts/test.sh
# What test.sh leaves out: all layouts, and under the address sanitizer the tests that take long and
# some checks of pointers.
long scripts/test.sh ctest --test-dir build/release --label-regex '^nightly$' \
  --output-on-failure --no-tests=error --parallel "$(nproc)"
long scripts/test.sh every_check
long scripts/test.sh each_alone release build/plain
if command -v nvcc >/dev/null; then long kernels/gpus.cmake for_all_gpus; fi
long scripts/check-tidy scripts/check-tidy
long scripts/fail-calls scripts/fail-calls
long scripts/convert-chain scripts/convert-chain
long scripts/hostile-files.py python3 scripts/hostile-files.py build/release/cmd
long scripts/damaged-images.py python3 scripts/damaged-images.py build/release/cmd
long scripts/replay-save.py python3 scripts/replay-save.py
long tests/ckpt env MT_KILLS=10000 MT_FLIPS=1000 \
  build/release/tests/ckpt/ckpt_test --file=ckpt/megatron_checkpoint_test.cpp
for file in engine_stress side_adapters; do
  long tests/infer/$file env MT_PROMPTS=500 \
    build/release/tests/infer/infer_test --file=infer/${file}_test.cpp
done
if ((EUID == 0)); then long tests/scripts/package_test.sh in_clean_debian; fi
long scripts/check-conventions scripts/check-conventions build/release
long scripts/fuzz scripts/fuzz 600
for example in scripts/examples/train_* scripts/examples/{sft,lora,dpo,ict,retro}_*; do long "$example" "$example" --tiny; done
for example in scripts/examples/*_bert; do long "$example" learns "$example"; done
for example in scripts/examples/grpo_{llama3_8b,qwen3_30b}; do long "$example" "$example" --tiny; done
# Exit code 70 where what is said of a token while it is drawn is not to the bit what is said while it is learnt.
for kind in llama mixtral; do
  long build/release/cmd/mt-finetune build/release/cmd/mt-finetune grpo --load testdata/trl/$kind --device cpu --dtype fp32 \
    --prompts testdata/trl/preferences.jsonl --reward regex:e --num-generations 8 --global-batch-size 1000 --seq-length 128 \
    --num-iterations 2 --train-iters 1 --batch-invariant --progress none
done
for seed in 1 2 3; do long scripts/examples/grpo_sums scripts/examples/grpo_sums --at-least 95 --seed "$seed"; done
long scripts/check-generated scripts/check-generated build/release/cmd
long scripts/examples/llava_shapes scripts/examples/llava_shapes
long scripts/examples/dino_shapes scripts/examples/dino_shapes
long scripts/soak-serve.py python3 scripts/soak-serve.py
long scripts/soak-serve.py python3 scripts/soak-serve.py --seconds 7200 --streams 1000
if "$python" -c 'import openai' 2> /dev/null; then long scripts/try-clients.py "$python" scripts/try-clients.py; fi
long scripts/kill-loop scripts/kill-loop --kills 1000
long scripts/kill-loop scripts/kill-loop --kills 1000 --ranks 2
for options in '' '--num-iterations 2 --steps-per-generation 2' '--max-lag 2 --importance-correction truncate'; do
  long scripts/kill-loop scripts/kill-loop --kills 200 --grpo "$options"
done
long scripts/kill-loop scripts/kill-loop --kills 200 --ranks 2 --grpo '--max-lag 1 --rl-generation-ranks 1'
long scripts/kill-stages scripts/kill-stages
long scripts/retro-facts.py python3 scripts/retro-facts.py build/release/cmd
for what in tokenizers exports gguf models "cases ../shared/cases"; do
  # shellcheck disable=SC2086  # an option and its value
  long scripts/compare-folders.py "$python" scripts/compare-folders.py --build build/release --$what
done
if "$python" -c 'import torch, transformers' 2> /dev/null; then
  long scripts/compare-settings.py "$python" scripts/compare-settings.py build/release/cmd
fi
if [[ -n $data ]]; then
  long scripts/compare-tokenizer.py "$python" scripts/compare-tokenizer.py \
    build/release/tests/text "$data" --random 1000000 ${megatron:+--megatron "$megatron"}
  long scripts/compare-punkt.py "$python" scripts/compare-punkt.py build/release/cmd/mt-preprocess "$data"
  long scripts/compare-templates.py "$python" scripts/compare-templates.py \
    build/release/tests/text/render_chat --package trl --random 2000
  long scripts/compare-masks.py "$python" scripts/compare-masks.py build/release/cmd/mt-finetune
  for trl in trl preferences peft distill grpo pairs; do
    long scripts/compare-$trl.py "$python" scripts/compare-$trl.py --program build/release/cmd/mt-finetune
  done
  long scripts/compare-adapters.py "$python" scripts/compare-adapters.py
  long scripts/compare-megatron.py "$python" scripts/compare-megatron.py build/release/cmd
  long scripts/compare-retro.py "$python" scripts/compare-retro.py build/release/cmd
  long scripts/compare-retro-training.py "$python" scripts/compare-retro-training.py build/release/cmd
  long scripts/compare-retro-project.py "$python" scripts/compare-retro-project.py build/release/cmd
  long scripts/compare-search.py "$python" scripts/compare-search.py build/release/cmd
  long scripts/compare-encoders.py "$python" scripts/compare-encoders.py build/release/cmd \
    --learn "$data/wikitext-2/test.txt"
  if "$python" -c 'import sentence_transformers' 2> /dev/null; then
    long scripts/compare-sentences.py "$python" scripts/compare-sentences.py build/release/cmd
  fi
  long scripts/compare-llava.py "$python" scripts/compare-llava.py build/release/cmd
  long scripts/compare-energon.py "$python" scripts/compare-energon.py build/release/cmd
  long scripts/compare-experts.py "$python" scripts/compare-experts.py build/release/cmd
  long scripts/compare-towers.py "$python" scripts/compare-towers.py build/release/cmd
  long scripts/compare-retrieval.py "$python" scripts/compare-retrieval.py build/release/cmd
  long scripts/make-label-goldens.py "$python" scripts/make-label-goldens.py build/release/cmd
  long scripts/compare-convert.py "$python" scripts/compare-convert.py build/release/cmd
  long scripts/compare-convert-families.py "$python" scripts/compare-convert-families.py build/release/cmd
  long scripts/compare-quantized.py "$python" scripts/compare-quantized.py --program build/release/cmd/mt-convert
  long scripts/compare-quantize.py "$python" scripts/compare-quantize.py --program build/release/cmd/mt-convert
  if "$python" -c 'import modelopt' 2> /dev/null; then
    long scripts/compare-quantize.py "$python" scripts/compare-quantize.py --modelopt \
      --program build/release/cmd/mt-convert
  fi
  long scripts/compare-quantization-loss.py "$python" scripts/compare-quantization-loss.py \
    build/release/cmd "$data/wikitext-2"
  long scripts/compare-gguf-types.py "$python" scripts/compare-gguf-types.py build/release/cmd
  if "$python" -c 'import xllamacpp' 2> /dev/null; then
    long scripts/compare-importance.py "$python" scripts/compare-importance.py build/release/cmd
    long scripts/compare-llama-cpp.py "$python" scripts/compare-llama-cpp.py build/release/cmd
  fi
  long scripts/compare-ranks.py "$python" scripts/compare-ranks.py build/release/cmd \
    ${releases:+--releases "$releases"}
fi
if [[ -n $data && -n $megatron ]]; then
  long scripts/compare-preprocess.py "$python" scripts/compare-preprocess.py "$megatron" \
    build/release/cmd/mt-preprocess "$data"
  long scripts/compare-ict.py "$python" scripts/compare-ict.py "$megatron" \
    build/release/cmd/mt-preprocess
  long scripts/compare-legacy.py "$python" scripts/compare-legacy.py "$megatron" build/release/cmd
fi

printf '\n'
printf '%s\n' "${results[@]}"
exit $failed
