#include "infer/infill.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/infer/letters.h"
#include "text/hf/hf_tokenizer.h"

namespace mt {
namespace {

// Letters whose last three are StarCoder's tokens, behind a beginning that all texts have.
class Coder : public Letters {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.push_back(28);
    for (std::size_t at = 0; at < text.size();) {
      const auto is = [&](std::string_view name) { return text.substr(at).starts_with(name); };
      const std::string_view names[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
      std::size_t k = 0;
      while (k < 3 && !is(names[k])) ++k;
      ids.push_back(k < 3 ? static_cast<std::int32_t>(23 + k) : text[at] - 'a');
      at += k < 3 ? names[k].size() : 1;
    }
  }
};

// Every name is one and the same token.
class Unknown : public Letters {
  void encode(std::string_view, std::vector<std::int32_t>& ids) const override { ids.push_back(0); }
};

TEST(Infill, StandsBetweenTheTokensOfItsKind) {
  EXPECT_EQ(infill(Coder(), "ab", "c")->ids, (std::vector<std::int32_t>{28, 23, 0, 1, 24, 2, 25}));
  EXPECT_EQ(infill(Coder(), "", "")->ids, (std::vector<std::int32_t>{28, 23, 24, 25}));
  EXPECT_FALSE(infill(Coder(), "ab", "c")->end);
}

// A SentencePiece model's tokens with those of a class, and the ids that sentencepiece 0.2.3 makes
// of the texts, those behind without the space that a text has in front.
HfTokenizer of_pieces(const char* config) {
  return HfTokenizer({{"tokenizer.model", read_file(MT_TESTDATA "/sentencepiece/llama.model")},
                      {"tokenizer_config.json", config}});
}

TEST(Infill, IsCodeLlamas) {
  const HfTokenizer tokenizer = of_pieces(R"({"tokenizer_class": "CodeLlamaTokenizer"})");
  const auto ids = [&](std::string_view before, std::string_view behind) {
    const auto made = infill(tokenizer, before, behind);
    EXPECT_EQ(made.value().end, 403);
    return made->ids;
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids("the cat is", " on a house"),
            (Ids{1, 400, 262, 306, 358, 264, 402, 275, 362, 277, 354, 315, 365, 312, 401}));
  EXPECT_EQ(ids("the cat is", "on a house"),
            (Ids{1, 400, 262, 306, 358, 264, 402, 360, 362, 277, 354, 315, 365, 312, 401}));
  EXPECT_EQ(ids(" the", "\n  a cat"), (Ids{1, 400, 354, 262, 402, 13, 354, 277, 306, 358, 401}));
  EXPECT_EQ(ids("", "cat"), (Ids{1, 400, 402, 371, 356, 358, 401}));
  EXPECT_EQ(ids("the cat", ""), (Ids{1, 400, 262, 306, 358, 402, 401}));
}

TEST(Infill, IsMistrals) {
  const HfTokenizer tokenizer = of_pieces(
      R"({"tokenizer_class": "LlamaTokenizer", "additional_special_tokens": ["[SUFFIX]", "[PREFIX]"]})");
  const auto made = infill(tokenizer, "def f(", "return a + b");
  EXPECT_FALSE(made.value().end);
  EXPECT_EQ(made->ids, (std::vector<std::int32_t>{1, 400, 366, 355, 358, 365, 366, 362, 277, 354,
                                                  46, 268, 401, 326, 355, 380, 331, 43}));
}

TEST(Infill, NeedsThem) {
  EXPECT_FALSE(infill(Letters(), "ab", "c"));
  EXPECT_FALSE(infill(Unknown(), "ab", "c"));
}

}  // namespace
}  // namespace mt
