#include "infer/generator.h"

#include <gtest/gtest.h>

#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int32_t kVocabulary = 30, kNoEod = -1;
constexpr SamplingOptions kGreedy{.temperature = 0};

std::vector<std::int32_t> generate(Runner& runner, const SamplingOptions& options,
                                   std::vector<std::int32_t> prompt, std::int64_t count,
                                   std::int32_t eod = kNoEod, std::uint32_t text = 0) {
  std::vector<std::int32_t> tokens;
  Generator(runner, options, kVocabulary, eod)
      .generate(std::move(prompt), count, text,
                [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

// The likeliest tokens, each found anew from all that the model may see.
std::vector<std::int32_t> expected_greedy(const Gpt& model, std::vector<std::int32_t> seen,
                                          std::size_t count) {
  Runner runner(model, 1);
  const auto room = static_cast<std::size_t>(runner.max_tokens());
  std::size_t context = seen.size();
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    if (context > room) context = room / 2;
    runner.start();
    const ConstTensor logits = runner.next_logits(std::span(seen).last(context));
    std::int32_t best = 0;
    for (std::int32_t id = 1; id < kVocabulary; ++id)
      if (element(logits, id) > element(logits, best)) best = id;
    tokens.push_back(best);
    seen.push_back(best);
    ++context;
  }
  return tokens;
}

class GeneratorOf : public testing::TestWithParam<GptConfig (*)()> {
 protected:
  std::unique_ptr<Gpt> model_ = make_gpt(GetParam()());
  Runner runner_{*model_, 1};
};

TEST_P(GeneratorOf, GreedyIsTheLikeliestTokenEachTime) {
  EXPECT_EQ(generate(runner_, kGreedy, some_tokens(3), 9),
            expected_greedy(*model_, some_tokens(3), 9));
}

// 12 positions: the text outgrows them several times; prompts that fill or exceed them.
TEST_P(GeneratorOf, GoesOnBeyondTheModelsPositions) {
  for (const std::size_t length : {1, 5, 11, 12, 13, 40}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(generate(runner_, kGreedy, some_tokens(length), 50),
              expected_greedy(*model_, some_tokens(length), 50));
  }
}

TEST_P(GeneratorOf, SameCommandSameText) {
  const SamplingOptions options{.temperature = 2, .seed = 9};
  const auto text = generate(runner_, options, some_tokens(4), 40);
  EXPECT_EQ(text.size(), 40U);
  EXPECT_EQ(generate(runner_, options, some_tokens(4), 40), text);
  Runner other(*model_, 4);
  generate(other, options, some_tokens(7), 5);  // what came before leaves no trace
  EXPECT_EQ(generate(other, options, some_tokens(4), 40), text);
  EXPECT_NE(generate(runner_, {.temperature = 2, .seed = 10}, some_tokens(4), 40), text);
  EXPECT_NE(generate(runner_, options, some_tokens(4), 40, kNoEod, 1), text);
  // A longer text begins with the shorter one.
  auto longer = generate(runner_, options, some_tokens(4), 60);
  longer.resize(40);
  EXPECT_EQ(longer, text);
}

TEST_P(GeneratorOf, StopsAtTheEndOfTheDocument) {
  const auto text = generate(runner_, {.temperature = 2}, some_tokens(4), 20);
  const std::int32_t eod = text[10];
  const auto end = std::find(text.begin(), text.end(), eod);
  EXPECT_EQ(generate(runner_, {.temperature = 2}, some_tokens(4), 20, eod),
            std::vector<std::int32_t>(text.begin(), end));
}

TEST_P(GeneratorOf, NoTokens) { EXPECT_TRUE(generate(runner_, kGreedy, {1}, 0).empty()); }

INSTANTIATE_TEST_SUITE_P(Models, GeneratorOf, testing::Values(small_gpt2, small_llama),
                         [](const auto& which) { return which.index == 0 ? "Gpt2" : "Llama"; });

// Ids 30 and 31 only fill the vocabulary up; here they are the model's favourites.
TEST(Generator, NeverChoosesPadding) {
  const auto model = make_gpt(small_llama());
  const Tensor table = model->table().at("output_layer.weight").value;
  ASSERT_EQ(table.shape()[0], 32);
  Runner runner(*model, 1);
  runner.start();
  for (std::int64_t column = 0; column < table.shape()[1]; ++column)
    for (const std::int64_t row : {30, 31})
      table.as<double>()[row * table.shape()[1] + column] *= 100;
  int favourites = 0;
  for (std::int32_t first = 0; first < kVocabulary; ++first) {
    runner.start();
    const ConstTensor logits = runner.next_logits(std::vector<std::int32_t>{first});
    favourites += element(logits, 30) > 10 || element(logits, 31) > 10;
    for (const SamplingOptions& options :
         {kGreedy, SamplingOptions{}, SamplingOptions{.temperature = 50}})
      for (const std::int32_t token : generate(runner, options, {first}, 20))
        EXPECT_LT(token, kVocabulary);
  }
  EXPECT_GT(favourites, 5);
}

}  // namespace
}  // namespace mt
