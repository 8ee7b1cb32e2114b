// train_bpe DIRECTORY VOCAB_SIZE FILE...: trains a byte-level BPE, each file one text, for the
// scripts that make goldens and compare with other trainers.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "text/training/bpe_trainer.h"

static std::int32_t number(std::string_view digits) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end())
    mt::fail(mt::Exit::usage, "VOCAB_SIZE: ", digits, ", expected a number");
  return value;
}

int main(int argc, char** argv) {
  try {
    if (argc < 4) mt::fail(mt::Exit::usage, "usage: train_bpe DIRECTORY VOCAB_SIZE FILE...");
    mt::BpeTrainer trainer;
    for (int i = 3; i < argc; ++i) trainer.add(mt::read_file(argv[i]));
    mt::BpeFiles(argv[1], true).commit(trainer.train(number(argv[2])));
    return 0;
  } catch (const mt::Error& error) {
    std::fprintf(stderr, "train_bpe: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
