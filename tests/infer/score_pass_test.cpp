// Scores are what the logits say, and depend on nothing but the sequence.
#include "infer/score_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "infer/cached_pass.h"
#include "infer/padding.h"
#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int32_t kVocabulary = 30;

// -log softmax(logits)[token] over the tokens that are no padding.
double nll_of(const ConstTensor& logits, std::int32_t token) {
  double top = element(logits, 0), sum = 0;
  for (std::int64_t i = 0; i < kVocabulary; ++i) top = std::max(top, element(logits, i));
  for (std::int64_t i = 0; i < kVocabulary; ++i) sum += std::exp(element(logits, i) - top);
  return std::log(sum) + top - element(logits, token);
}

struct Sequence {
  std::vector<std::int32_t> ids;
  std::size_t scored = 0;
};

std::vector<std::vector<double>> score(const Gpt& model, const std::vector<Sequence>& sequences,
                                       std::int64_t batch, int threads) {
  ScorePass scorer(model, {.vocab_size = kVocabulary,
                           .window = model.config().max_position_embeddings,
                           .batch = batch,
                           .threads = threads});
  std::vector<std::vector<double>> values;
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::span<double>> nll;
  for (const Sequence& s : sequences) values.emplace_back(s.scored, -1.0);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    ids.emplace_back(sequences[i].ids);
    nll.emplace_back(values[i]);
  }
  scorer.score(ids, nll);
  return values;
}

class ScorePassOf : public testing::TestWithParam<ModelConfig (*)()> {};

TEST_P(ScorePassOf, EqualsTheLogits) {
  const auto model = make_gpt(GetParam()());
  const auto count = static_cast<std::size_t>(model->config().max_position_embeddings);
  const std::vector<std::int32_t> ids = some_tokens(count + 1);
  const std::vector<double> nll = score(*model, {{ids, count}}, 1, 1).at(0);
  CachedPass pass(*model, {.vocab_size = kVocabulary});
  for (std::size_t i = 0; i < count; ++i) {
    pass.start(0);
    const double expected = nll_of(pass.next_logits(0, std::span(ids).first(i + 1)), ids[i + 1]);
    EXPECT_NEAR(nll[i], expected, 1e-12 * expected) << i;
  }
}

// Only what is asked for is scored, of each sequence its end.
TEST_P(ScorePassOf, TheLastTokens) {
  const auto model = make_gpt(GetParam()());
  const std::vector<std::int32_t> ids = some_tokens(13);
  const std::vector<double> all = score(*model, {{ids, 12}}, 1, 1).at(0);
  for (std::size_t scored = 0; scored <= 12; ++scored) {
    const std::vector<double> some = score(*model, {{ids, scored}}, 1, 1).at(0);
    for (std::size_t i = 0; i < scored; ++i)
      EXPECT_NEAR(some[i], all[12 - scored + i], 1e-12 * some[i]);
  }
}

// Which tokens are the likeliest, beside the same scores; also where few logits are looked at at a
// time, and of no tokens.
TEST_P(ScorePassOf, TheLikeliest) {
  const auto model = make_gpt(GetParam()());
  const auto count = static_cast<std::size_t>(model->config().max_position_embeddings);
  std::vector<std::int32_t> ids = some_tokens(count + 1);
  CachedPass pass(*model, {.vocab_size = kVocabulary});
  std::vector<std::uint8_t> expected;
  for (std::size_t i = 0; i < count; ++i) {
    pass.start(0);
    const ConstTensor logits = pass.next_logits(0, std::span(ids).first(i + 1));
    std::int32_t top = 0;
    for (std::int32_t t = 1; t < kVocabulary; ++t)
      if (element(logits, t) > element(logits, top)) top = t;
    if (i % 3 == 0) ids[i + 1] = top;
    expected.push_back(ids[i + 1] == top);
  }
  ASSERT_GT(std::ranges::count(expected, 1), 0);
  const std::vector<double> plain = score(*model, {{ids, count}}, 1, 1).at(0);
  for (const std::int64_t host_logits : {1L, 1L << 20}) {
    ScorePass scorer(*model, {.vocab_size = kVocabulary,
                              .window = static_cast<std::int64_t>(count),
                              .batch = 2,
                              .host_logits = host_logits});
    std::vector<double> nll(count), few(2), none;
    std::vector<std::uint8_t> likeliest(count), of_few(2), of_none;
    const std::span<const std::int32_t> all(ids);
    const std::vector<std::span<const std::int32_t>> asked = {all, all.first(5), all.first(3)};
    const std::vector<std::span<double>> scores = {nll, few, none};
    const std::vector<std::span<std::uint8_t>> flags = {likeliest, of_few, of_none};
    scorer.score(asked, scores, flags);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(nll[i], plain[i], 1e-12 * plain[i]) << i;
    EXPECT_EQ(likeliest, expected);
    EXPECT_EQ(of_few, (std::vector<std::uint8_t>{expected[2], expected[3]}));
    scorer.score(asked, scores);  // and the scores alone, afterwards
    EXPECT_EQ(nll, plain);
  }
}

// Logits that were scaled and capped are divided by the temperature, as they are where a token is
// drawn.
TEST(ScorePass, AtATemperature) {
  constexpr double kTemperature = 0.7;
  ModelConfig config = small_llama();
  config.logit_scale = 0.4;
  config.final_logit_softcapping = 0.8;
  const auto model = make_gpt(config);
  const std::vector<std::int32_t> ids = some_tokens(6);
  CachedPass pass(*model, {.vocab_size = kVocabulary});
  pass.start(0);
  const ConstTensor logits = pass.next_logits(0, std::span(ids).first(5));
  std::vector<double> colder(kVocabulary);
  for (std::int64_t i = 0; i < kVocabulary; ++i)
    colder[static_cast<std::size_t>(i)] = element(logits, i) / kTemperature;
  ScorePass scorer(*model, {.vocab_size = kVocabulary, .window = 12, .temperature = kTemperature});
  double nll = 0;
  const std::span<const std::int32_t> text(ids);
  const std::span<double> said(&nll, 1);
  scorer.score({&text, 1}, {&said, 1});
  EXPECT_NEAR(nll, nll_of({colder.data(), DType::f64, {kVocabulary}}, ids.back()), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, ScorePassOf, testing::Values(small_gpt2, small_llama),
                         [](const auto& which) { return which.index == 0 ? "Gpt2" : "Llama"; });

// As few tokens as fill tiles, and of those that wait as many as leave little padding.
TEST(Padding, IsAsLittleAsCanBe) {
  const auto tokens = [](std::int64_t count, std::int64_t longest) {
    const PaddedBatch batch = padded_batch(count, longest);
    EXPECT_TRUE(batch.sequences >= count && batch.length >= longest);
    return batch.tokens();
  };
  EXPECT_EQ(tokens(1, 3), 96);
  EXPECT_EQ(tokens(8, 3), 96);
  EXPECT_EQ(tokens(1, 80), 96);
  EXPECT_EQ(tokens(5, 84), 5 * 96);
  EXPECT_EQ(tokens(8, 83), 8 * 84);
  EXPECT_EQ(tokens(3, 130), 4 * 144);
  const std::vector<std::int64_t> lengths = {100, 84, 84, 84, 84, 84, 84, 84, 84, 30};
  const auto together = [&](std::size_t first, std::int64_t most) {
    const auto next = [&](std::size_t i) { return lengths[first + i]; };
    return best_together(lengths.size() - first, most, 96, next);
  };
  EXPECT_EQ(together(1, 4096), 8U);
  EXPECT_EQ(together(1, 300), 3U);
  EXPECT_EQ(together(9, 96), 1U);
}

// Sequences of many lengths alone, in batches of any size and on any number of threads: every bit
// is the same.
TEST(ScorePass, BatchesChangeNoBit) {
  for (ModelConfig config : {small_gpt2(), small_llama()}) {
    config.hidden_size = 64;
    config.ffn_hidden_size = 160;
    config.max_position_embeddings = 150;
    const auto model = make_gpt(config, DType::f32);
    std::vector<Sequence> sequences;
    for (const std::size_t length :
         {2, 151, 17, 3, 64, 65, 66, 18, 33, 34, 100, 85, 129, 5, 109, 2, 150, 86, 83, 82, 81, 80})
      sequences.push_back({some_tokens(length), std::min(length - 1, 1 + length * 7 % 40)});
    std::vector<std::vector<double>> alone;
    for (const Sequence& s : sequences) alone.push_back(score(*model, {s}, 1, 1).at(0));
    for (const std::int64_t batch : {1, 2, 3, 7, 40})
      for (const int threads : {1, 2, 5})
        EXPECT_EQ(score(*model, sequences, batch, threads), alone) << batch << ' ' << threads;
  }
}

// Sequences that share the tiles of a batch unevenly: an odd number of them, and fewer than fit.
TEST(ScorePass, OddNumbersChangeNoBit) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 400;
  const auto model = make_gpt(config, DType::f32);
  for (const std::size_t length : {13, 49, 130, 337})
    for (const std::size_t count : {1, 3, 5}) {
      std::vector<Sequence> sequences;
      for (std::size_t i = 0; i < count; ++i)
        sequences.push_back({some_tokens(length - i % 3), 11 - i % 3});
      std::vector<std::vector<double>> alone;
      for (const Sequence& s : sequences) alone.push_back(score(*model, {s}, 1, 1).at(0));
      for (const std::int64_t batch : {2, 8})
        EXPECT_EQ(score(*model, sequences, batch, 1), alone)
            << length << ' ' << count << ' ' << batch;
    }
}

// Single precision is near double precision.
TEST(ScorePass, SinglePrecision) {
  const auto model = make_gpt(small_gpt2(), DType::f32);
  const auto reference = make_gpt(small_gpt2());
  for (std::size_t i = 0; i < model->table().rows().size(); ++i) {
    const Tensor from = model->table().rows()[i].value, to = reference->table().rows()[i].value;
    fill_with(to, [&](std::int64_t at) { return element(from, at); });
  }
  const std::vector<Sequence> sequences{{some_tokens(13), 12}};
  const std::vector<double> nll = score(*model, sequences, 1, 1).at(0);
  const std::vector<double> expected = score(*reference, sequences, 1, 1).at(0);
  for (std::size_t i = 0; i < nll.size(); ++i) EXPECT_NEAR(nll[i], expected[i], 1e-5 * expected[i]);
}

}  // namespace
}  // namespace mt
