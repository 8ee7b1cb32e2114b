#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/utf8.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"
#include "text/bpe/gpt2_split.h"

namespace mt {

using Ids = std::vector<std::int32_t>;

TEST(Gpt2Golden, PiecesAndIdsOfHuggingFace) {
  const std::string folder = MT_TESTDATA "/gpt2_bpe/";
  const Gpt2Bpe tokenizer(folder + "vocab.json", folder + "merges.txt");
  EXPECT_EQ(tokenizer.eod(), tokenizer.vocab_size() - 1);
  std::ifstream cases(folder + "cases.txt");
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string hex, ends, ids;
    columns >> hex >> ends >> ids;
    const std::string text = from_hex(hex), valid = replace_invalid_utf8(text);
    std::vector<std::size_t> some(100), found;
    for (std::size_t at = 0; at < valid.size(); at = found.back())
      found.insert(found.end(), some.begin(),
                   some.begin() + static_cast<long>(gpt2_split(valid, at, some)));
    EXPECT_EQ(Ids(found.begin(), found.end()), from_list(ends)) << hex;
    EXPECT_EQ(encode(tokenizer, text), from_list(ids)) << hex;
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), valid) << hex;
    ++count;
  }
  EXPECT_GT(count, 100);
}

class RealVocabulary : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder_ + "vocab.json"))
      GTEST_SKIP() << "no GPT-2 vocabulary in " << folder_;
    tokenizer_ = std::make_unique<Gpt2Bpe>(folder_ + "vocab.json", folder_ + "merges.txt");
  }
  const std::string folder_ = MT_SHARED "/data/gpt2/";
  std::unique_ptr<Gpt2Bpe> tokenizer_;
};

TEST_F(RealVocabulary, KnownIds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_EQ(tokenizer_->eod(), 50256);
  EXPECT_EQ(encode(*tokenizer_, "Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(encode(*tokenizer_, "<|endoftext|>"), (Ids{27, 91, 437, 1659, 5239, 91, 29}));
  EXPECT_EQ(encode(*tokenizer_, "!"), (Ids{0}));
  EXPECT_EQ(tokenizer_->decode(Ids{15496, 995, 50256}), "Hello world<|endoftext|>");
}

TEST_F(RealVocabulary, EachTokenReturns) {  // and splits as itself, where it is one piece of text
  for (std::int32_t id = 0; id < tokenizer_->eod(); ++id) {
    const std::string bytes = tokenizer_->decode(Ids{id});
    ASSERT_EQ(tokenizer_->decode(encode(*tokenizer_, bytes)), replace_invalid_utf8(bytes)) << id;
  }
}

}  // namespace mt
