// How questions are judged by vectors of them and of passages.
#include "post/retrieval/dpr_samples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "text/bert/bert_tokenizer.h"

namespace mt {
namespace {

TEST(JudgedSamples, VectorsThatAreNoNumbersAreRefused) {
  const Scratch scratch;
  write_file_atomically(scratch.path("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n",
                        true);
  const BertTokenizer tokenizer(BertTokenizer::kLowerCaseType, scratch.path("vocab.txt"), 0);
  const DprPassage passage{.title = "a", .text = "b"};
  const DprQuestion question{.question = "a", .own = passage, .hard = {passage}, .others = {}};
  const JudgedSamples samples("dev.json", {question, question}, tokenizer,
                              {.seq_length = 8, .contexts = 2});
  const auto ranks = [&](std::vector<double> vectors) {
    return samples.ranks(vectors, 1, 2, std::vector<std::int64_t>{1});
  };
  // Of each question its vector, its own passage's and the other's.
  EXPECT_EQ(ranks({1, 5, 2, 1, 4, 3}).rank, 0.5);
  EXPECT_EQ(ranks({1, 5, 2, 1, 4, 3}).tops, std::vector<double>{50});
  for (std::size_t at = 0; at < 6; ++at)
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      std::vector<double> vectors = {1, 5, 2, 1, 4, 3};
      vectors[at] = bad;
      EXPECT_EQ(error_of([&] { ranks(vectors); }),
                "65 dev.json: the products of the model's vectors are not numbers");
    }
}

}  // namespace
}  // namespace mt
