// A cache of keys and values in eight bits a number: the ways to run a model agree, and what is
// kept is what its scales say.
#include <gtest/gtest.h>

#include "infer/cached_pass.h"
#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

CachedPass::Options coded(std::int64_t sequences = 1, std::vector<CacheScales> scales = {}) {
  return {.vocab_size = 30,
          .sequences = sequences,
          .threads = 2,
          .form = {.in_codes = true, .scales = std::move(scales)}};
}

TEST(CodedCache, PiecesOfAnyLength) {
  for (const ModelConfig& config : {small_gpt2(), small_llama(), small_mixture()}) {
    const auto model = make_gpt(config);
    CachedPass pass(*model, coded()), plain(*model, {.vocab_size = 30});
    const std::vector<std::int32_t> ids = some_tokens(12);
    const std::span all(ids);
    pass.start(0);
    const HostTensor expected = clone(pass.next_logits(0, all));
    for (std::size_t cut = 1; cut < ids.size(); ++cut) {
      pass.start(0);
      pass.next_logits(0, all.first(cut));
      for (std::size_t i = cut; i + 1 < ids.size(); ++i) pass.next_logits(0, all.subspan(i, 1));
      EXPECT_TENSORS_NEAR(pass.next_logits(0, all.last(1)), expected.view(), 1e-12) << cut;
    }
    const ConstTensor exact = plain.next_logits(0, all);
    double most = 0, off = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      most = std::max(most, std::abs(exact.as<double>()[i]));
      off = std::max(off, std::abs(exact.as<double>()[i] - expected.view().as<double>()[i]));
    }
    EXPECT_GT(off, 0);
    EXPECT_LT(off, 0.1 * most);
  }
}

// Powers of two as scales change nothing but what is too large or too small; a scale that makes all
// keys and values zeros leaves a token none of what was before.
TEST(CodedCache, ScalesAreOfLayers) {
  const auto model = make_gpt(small_llama());
  const std::vector<std::int32_t> ids = some_tokens(12);
  const auto logits = [&](const std::vector<CacheScales>& scales) {
    CachedPass pass(*model, coded(1, scales));
    return clone(pass.next_logits(0, ids));
  };
  const HostTensor ones = logits({});
  EXPECT_SAME_BITS(logits({{1, 1}, {1, 1}}).view(), ones.view());
  EXPECT_TENSORS_NEAR(logits({{0.0625F, 0.0625F}}).view(), ones.view(), 1e-1);
  const HostTensor nothing = logits({{1e9F, 1e9F}});
  double off = 0;
  for (std::int64_t i = 0; i < 30; ++i)
    off = std::max(off, std::abs(nothing.view().as<double>()[i] - ones.view().as<double>()[i]));
  EXPECT_GT(off, 1e-3);
}

TEST(CodedCache, SequencesDoNotNoticeEachOther) {
  ModelConfig config = small_llama();
  config.hidden_size = 48;
  config.max_position_embeddings = 40;
  const auto model = make_gpt(config, DType::f32);
  const std::vector<std::size_t> prompts{1, 20, 7, 33};
  const auto ids = some_tokens(40);
  CachedPass together(*model, coded(4));
  std::vector<std::vector<HostTensor>> alone;
  std::vector<std::int64_t> sequences;
  for (const std::size_t length : prompts) {
    CachedPass pass(*model, coded());
    auto& logits = alone.emplace_back();
    logits.push_back(clone(pass.next_logits(0, std::span(ids).first(length))));
    for (std::size_t i = length; i < length + 3; ++i)
      logits.push_back(clone(pass.next_logits(0, std::span(ids).subspan(i, 1))));
    sequences.push_back(std::ssize(sequences));
    EXPECT_SAME_BITS(together.next_logits(sequences.back(), std::span(ids).first(length)),
                     logits[0].view());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int32_t> next;
    for (const std::size_t length : prompts) next.push_back(ids[length + i]);
    const ConstTensor logits = together.next_logits(sequences, next);
    for (std::size_t n = 0; n < prompts.size(); ++n)
      EXPECT_SAME_BITS(logits.rows(sequences[n], sequences[n] + 1), alone[n][i + 1].view());
  }
}

// A page that another sequence has filled, and one of which a part is copied.
TEST(CodedCache, SequencesHavePagesInCommon) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 40;
  const auto model = make_gpt(config, DType::f32);
  CachedPass::Options options = coded(3, {{0.5F, 0.25F}, {2, 0.125F}});
  options.page_tokens = 8;
  CachedPass pass(*model, options);
  const auto ids = some_tokens(21), others = some_tokens(40);
  const std::span all(ids);
  pass.see(0, all.first(20));
  EXPECT_EQ(pass.start(1, all), 16);
  pass.see(1, all.subspan(16, 4));
  pass.see(2, std::span(others).subspan(20, 20));
  pass.follow(2, 0);
  const HostTensor expected = clone(pass.next_logits(0, all.last(1)));
  for (const std::int64_t other : {1, 2})
    EXPECT_SAME_BITS(pass.next_logits(other, all.last(1)), expected.view());
}

TEST(CodedCache, LatentsHaveNone) {
  const auto model = make_gpt(small_latent());
  try {
    CachedPass(*model, coded());
    FAIL() << "they have";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_STREQ(error.what(),
                 "--kv-cache-dtype fp8: this model keeps latents, which have no form in eight "
                 "bits; leave it out");
  }
}

}  // namespace
}  // namespace mt
