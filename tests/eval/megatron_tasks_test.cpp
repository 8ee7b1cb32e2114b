#include "eval/tasks/megatron_tasks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

// What tasks/zeroshot_gpt/detokenizer.py makes of a paragraph.
TEST(MegatronTasks, Detokenizes) {
  EXPECT_EQ(megatron_detokenized(" = A = \n the 3 @,@ 000 @-@ ton ship 's \" big \" ( old ) "
                                 "boats ; no ! \n = = B = = \n",
                                 "x/wiki.test.tokens"),
            " = A =\nthe 3,000-ton ship's \"big\" (old) boats; no!\n== B ==\n");
  EXPECT_EQ(megatron_detokenized("it does n't \n cost $ 1", "ptb.txt"), "it doesn't\ncost $1");
  EXPECT_EQ(megatron_detokenized(" x , y ", "lambada.jsonl"), " x , y ");
  EXPECT_THROW(megatron_detokenized("x", "book.txt"), Error);
}

class Words : public Tokenizer {  // a token for each byte
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.insert(ids.end(), text.begin(), text.end());
  }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
  std::unique_ptr<StreamDecoder> stream_decoder() const override { return nullptr; }
  std::int32_t vocab_size() const override { return 128; }
  std::int32_t eod() const override { return 0; }
  std::string_view type() const override { return "Words"; }
  const std::string& identity() const override { return identity_; }

 private:
  std::string identity_ = "words";
};

struct Asked {
  std::vector<std::string> windows;
  std::vector<std::size_t> scored;
};

// A model to which every token costs half a nat, and of which "b" is the likeliest.
EvalModel model_of(const Tokenizer& tokenizer, Asked& asked) {
  return {.tokenizer = tokenizer,
          .vocab_size = 128,
          .max_length = 8,
          .score = [&asked](auto ids, auto nll, auto likeliest) {
            for (std::size_t i = 0; i < ids.size(); ++i) {
              asked.windows.emplace_back(ids[i].begin(), ids[i].end());
              asked.scored.push_back(nll[i].size());
              std::ranges::fill(nll[i], 0.5);
              if (likeliest.empty()) continue;
              for (std::size_t j = 0; j < nll[i].size(); ++j)
                likeliest[i][j] = ids[i][ids[i].size() - nll[i].size() + j] == 'b';
            }
          }};
}

std::string printed(const auto& run) {
  std::string text;
  run([&](std::string_view part) { text += part; });
  return text;
}

TEST(MegatronTasks, Wikitext103) {
  const Scratch folder;
  const Words tokenizer;
  Asked asked;
  const std::string path = folder.path("wiki");
  write_file_atomically(path, "ab c defgh i", false);
  EXPECT_EQ(
      printed([&](const PrintText& print) {
        run_wikitext103(path, model_of(tokenizer, asked), {8, 2}, false, print);
      }),
      " > number of original tokens: 4, number of detokenized tokens: 12\n"
      "------------------------------------------------------------------------------------"
      "-------------------------------------------------------\n"
      " validation results on WIKITEXT103 | avg loss: 5.0000E-01 | ppl: 1.6487E+00 | adjusted "
      "ppl: 6.2547E+00 | token ratio: 3.6666666666666665 |\n"
      "------------------------------------------------------------------------------------"
      "-------------------------------------------------------\n"
      "done :-)\n");
  EXPECT_EQ(asked.windows, (std::vector<std::string>{"ab c defg", " c defgh ", " defgh i"}));
  EXPECT_EQ(asked.scored, (std::vector<std::size_t>{8, 2, 1}));
}

TEST(MegatronTasks, Lambada) {
  const Scratch folder;
  const Words tokenizer;
  const std::string path = folder.path("lambada");
  write_file_atomically(
      path, "{\"text\":\"aab\"}\n{\"text\":\"ba\"}\n{\"text\":\"x b abbbbbbbb\"}\n", false);
  const auto run = [&](bool strict, Asked& asked) {
    return printed([&](const PrintText& print) {
      run_lambada({path}, model_of(tokenizer, asked), strict, true, print);
    });
  };
  Asked asked;
  EXPECT_EQ(run(false, asked),
            "{\"schema\":\"mt-eval/1\",\"task\":\"LAMBADA\",\"summary\":true,\"strict\":false,"
            "\"number_correct\":2,\"total_examples\":3,\"avg_accuracy\":0.6666666666666666}\n");
  EXPECT_EQ(asked.windows, (std::vector<std::string>{"aab", "ba", "abbbbbbbb"}));
  EXPECT_EQ(asked.scored, (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_EQ(error_of([&] { run(true, asked); }),
            "65 " + path + ":1: a passage needs something before its last word");
  write_file_atomically(path, "{\"text\":\"x b. b.  \\n\"}\n", true);
  Asked strict;
  run(true, strict);
  EXPECT_EQ(strict.windows, std::vector<std::string>{"x b. b."});
  EXPECT_EQ(strict.scored, std::vector<std::size_t>{3});
}

}  // namespace
}  // namespace mt
