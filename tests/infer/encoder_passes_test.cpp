// What is said of texts that run together is what is said of each alone, bit by bit in single
// precision, whatever their lengths and their number at a time.
#include <gtest/gtest.h>

#include "infer/encoder_pass.h"
#include "infer/span_pass.h"
#include "tests/infer/small_gpt.h"
#include "tests/infer/small_t5.h"

namespace mt {
namespace {

using Ids = std::vector<std::int32_t>;
using Rows = std::vector<double>;
constexpr std::int64_t kVocabulary = 30;

ModelConfig small_bert() {
  ModelConfig config = small_gpt2();
  config.family = ModelFamily::bert;
  config.max_position_embeddings = 120;
  return config;
}

Rows values(ConstTensor said) {
  return with_float_type(
      said.dtype(), [&]<class T>() { return Rows(said.span<T>().begin(), said.span<T>().end()); });
}

std::vector<Ids> texts_of(std::size_t count, std::size_t longest) {
  std::vector<Ids> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(some_tokens(1 + (i * i * 11 + 5 * i) % longest));
    for (std::int32_t& id : texts.back()) id = (id + static_cast<std::int32_t>(i)) % 30;
  }
  return texts;
}

class EncoderPassOf : public testing::TestWithParam<EncoderPass::Wanted> {};

TEST_P(EncoderPassOf, TextsDoNotNoticeEachOther) {
  const auto model = make_small_model(small_bert(), DType::f32);
  const std::vector<Ids> texts = texts_of(40, 120);
  const auto run = [&](std::span<const Ids> some, std::int64_t batch, int threads) {
    std::vector<EncoderPass::Text> asked;
    for (const Ids& ids : some) {
      EncoderPass::Text text{.ids = ids, .asked = {}};
      for (std::int32_t i = ids.size() < 3 ? 3 : 0; i < std::ssize(ids); i += 1 + i % 3)
        text.asked.push_back(i);
      asked.push_back(text);
    }
    EncoderPass pass(
        *model,
        {.wanted = GetParam(), .vocab_size = kVocabulary, .batch = batch, .threads = threads});
    std::vector<Rows> said(some.size());
    pass.run(asked, [&](std::size_t i, ConstTensor rows) {
      EXPECT_EQ(rows.shape()[0], std::ssize(asked[i].asked));
      said[i] = values(rows);
    });
    return said;
  };
  std::vector<Rows> alone;
  for (std::size_t i = 0; i < texts.size(); ++i)
    alone.push_back(run(std::span(texts).subspan(i, 1), 1, 1).front());
  for (const std::int64_t batch : {1, 2, 7}) EXPECT_EQ(run(texts, batch, 2), alone) << batch;
  EXPECT_NE(alone[1], alone[2]);
}

INSTANTIATE_TEST_SUITE_P(Wanted, EncoderPassOf,
                         testing::Values(EncoderPass::Wanted::hidden, EncoderPass::Wanted::pooled,
                                         EncoderPass::Wanted::logits));

// In f64, of some tokens, of all and of none.
TEST(EncoderPass, MeansAreOfTheHiddenStates) {
  const auto model = make_small_model(small_bert(), DType::f32);
  const std::vector<Ids> texts = texts_of(40, 120);
  std::vector<EncoderPass::Text> asked;
  for (const Ids& ids : texts) {
    asked.push_back({.ids = ids, .asked = {}});
    for (std::int32_t i = 0; asked.size() % 4 != 0 && i < std::ssize(ids);
         i += 1 + static_cast<std::int32_t>(asked.size() % 3))
      asked.back().asked.push_back(i);
  }
  std::vector<Rows> expected(texts.size());
  EncoderPass(*model, {.batch = 3, .threads = 1}).run(asked, [&](std::size_t i, ConstTensor said) {
    const Rows rows = values(said);
    const std::size_t count = asked[i].asked.size(), columns = rows.size() / std::max(count, 1UL);
    for (std::size_t c = 0; c < static_cast<std::size_t>(model->config().hidden_size); ++c) {
      double sum = 0;
      for (std::size_t row = 0; row < count; ++row) sum += rows[row * columns + c];
      expected[i].push_back(count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count)));
    }
  });
  for (const std::int64_t batch : {1, 2, 7}) {
    std::vector<Rows> found(texts.size());
    EncoderPass(*model, {.wanted = EncoderPass::Wanted::means, .batch = batch, .threads = 2})
        .run(asked, [&](std::size_t i, ConstTensor said) { found[i] = values(said); });
    EXPECT_EQ(found, expected) << batch;
  }
}

// Each token is another where another text of the pair begins.
TEST(EncoderPass, TokensHaveTypes) {
  const auto model = make_small_model(small_bert());
  EncoderPass pass(*model, {.wanted = EncoderPass::Wanted::hidden, .threads = 1});
  const Ids ids = some_tokens(9), types{0, 0, 0, 0, 1, 1, 1, 1, 1}, zeros(9);
  Rows with, without, plain;
  const auto run = [&](std::span<const std::int32_t> of_types, Rows& to) {
    const EncoderPass::Text text{.ids = ids, .asked = {2, 5}, .types = of_types};
    pass.run({&text, 1}, [&](std::size_t, ConstTensor rows) { to = values(rows); });
  };
  run(types, with);
  run(zeros, without);
  run({}, plain);
  EXPECT_EQ(without, plain);
  EXPECT_NE(with, plain);
}

class SpanPassOf : public testing::TestWithParam<ModelConfig (*)()> {};

INSTANTIATE_TEST_SUITE_P(Positions, SpanPassOf, testing::Values(learned_t5, rope_t5, relative_t5));

TEST_P(SpanPassOf, SaysWhatTheDecoderSaysAlone) {
  ModelConfig config = GetParam()();
  config.max_position_embeddings = 120;
  const std::vector<Ids> read = texts_of(24, 120), ids = texts_of(24, 50);
  const auto run = [&](const Model& model, std::size_t first, std::size_t count,
                       std::int64_t batch) {
    SpanPass pass(
        model,
        {.vocab_size = kVocabulary, .read = 120, .length = 50, .batch = batch, .threads = 2});
    std::vector<SpanPass::Sample> samples;
    for (std::size_t i = first; i < first + count; ++i)
      samples.push_back({.read = read[i], .ids = ids[23 - i]});
    std::vector<Rows> said(count);
    pass.run(samples, [&](std::size_t i, ConstTensor logits) { said[i] = values(logits); });
    return said;
  };
  const auto exact = make_small_model(config);
  const std::vector<Rows> said = run(*exact, 0, 24, 3);
  for (std::size_t i = 0; i < 24; ++i) {
    const Ids& own = ids[23 - i];
    ASSERT_EQ(said[i].size(), own.size() * kVocabulary);
    const Rows last(said[i].end() - kVocabulary, said[i].end()),
        expected = uncached_logits(*exact, read[i], own, kVocabulary);
    for (std::size_t id = 0; id < expected.size(); ++id)
      ASSERT_NEAR(last[id], expected[id], 1e-12) << i;
  }
  const auto model = make_small_model(config, DType::f32);
  std::vector<Rows> alone;
  for (std::size_t i = 0; i < 24; ++i) alone.push_back(run(*model, i, 1, 1).front());
  for (const std::int64_t batch : {1, 2, 5}) EXPECT_EQ(run(*model, 0, 24, batch), alone) << batch;
}

}  // namespace
}  // namespace mt
