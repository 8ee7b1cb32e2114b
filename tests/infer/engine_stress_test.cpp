// Random prompts, of which many begin alike, in an engine whose cache is far too small for them, in
// pieces, with cancellations and with texts that outgrow the model's positions, and with guesses of
// their own n-grams', of other models' and of further layers': each becomes what a plain loop
// without a cache makes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tests/infer/random_requests.h"
#include "tests/infer/small_gpt.h"
#include "tests/infer/small_t5.h"

namespace mt {
namespace {

constexpr std::int64_t kPositions = 160, kPage = 16;

ModelConfig widened(ModelConfig config) {
  config.hidden_size = 64;
  config.max_position_embeddings = kPositions;
  config.init_method_std = 0.2;
  return config;
}
ModelConfig gpt2() { return widened(small_gpt2()); }
ModelConfig llama() { return widened(small_llama()); }
ModelConfig hybrid() { return widened(small_hybrid()); }
ModelConfig latent() { return widened(small_latent()); }
ModelConfig latent_further() { return further(latent(), 2); }

struct Way {
  EngineLimits limits;
  const Model* draft = nullptr;
};

void expect_the_plain_loops(const Model& model, std::size_t count, unsigned seed) {
  const std::vector<Request> requests = random_requests(count, seed);
  Stream stream(model.table().device());
  std::vector<Ids> expected;
  for (const Request& request : requests) expected.push_back(plain_loop(model, stream, request));
  std::vector<Way> ways = {
      {{.max_requests = 6, .cache_tokens = 3 * kPositions}},
      {{.max_requests = 20, .cache_tokens = 6 * kPositions, .prefill_tokens = 100}},
      {{.max_requests = 17, .prefill_tokens = 1000}}};
  const auto other = make_small_model(gpt2(), DType::f32);
  if (const std::int64_t layers = model.config().mtp_num_layers; layers > 0) {
    ways = {{{.max_requests = 6,
              .cache_tokens = 2 * kPositions,
              .draft_tokens = 4,
              .further_layers = layers}},
            {{.max_requests = 20, .draft_tokens = 1, .further_layers = layers}}};
  } else if (model.config().family != ModelFamily::mamba) {
    ways.push_back({{.max_requests = 6, .cache_tokens = 2 * kPositions, .draft_tokens = 4}});
    ways.push_back({{.max_requests = 20, .draft_tokens = 15}, &model});
    ways.push_back({{.max_requests = 3, .draft_tokens = 2}, other.get()});
  }
  for (const auto& [limits, draft] : ways) {
    SCOPED_TRACE(concat(limits.max_requests, " and ", limits.draft_tokens, " guesses"));
    const EngineRun run = in_engine(model, requests, limits, kPage, draft);
    EXPECT_EQ(run.counts.guessed > 0, limits.draft_tokens > 0);
    EXPECT_EQ(run.counts.accepted > 0, limits.draft_tokens > 0);
    EXPECT_GE(run.counts.accepted, draft == &model ? run.counts.guessed / 2 : 0);
    std::size_t whole = 0;
    for (std::size_t n = 0; n < requests.size(); ++n) {
      const bool cancelled = std::ssize(run.made[n]) < requests[n].tokens;
      EXPECT_TRUE(!cancelled || requests[n].cancelled >= 0) << n;
      EXPECT_TRUE(std::ranges::equal(run.made[n], std::span(expected[n]).first(run.made[n].size())))
          << n;
      if (!cancelled) ++whole;
    }
    EXPECT_GT(whole, count / 2);
    EXPECT_EQ(run.counts.held_pages, 0);
    EXPECT_EQ(run.counts.shared > 0, model.config().family != ModelFamily::mamba);
    EXPECT_EQ(run.counts.preempted > 0, limits.cache_tokens > 0);
  }
}

class EngineStress : public testing::TestWithParam<ModelConfig (*)()> {};
INSTANTIATE_TEST_SUITE_P(Models, EngineStress,
                         testing::Values(gpt2, llama, hybrid, latent, latent_further),
                         [](const auto& which) {
                           return std::string(which.param == gpt2     ? "Gpt2"
                                              : which.param == llama  ? "Llama"
                                              : which.param == hybrid ? "Hybrid"
                                              : which.param == latent ? "Latent"
                                                                      : "LatentFurther");
                         });

// MT_PROMPTS sets how many; scripts/nightly.sh asks for 500.
TEST_P(EngineStress, RandomPrompts) {
  const char* const asked = std::getenv("MT_PROMPTS");
  const int count = asked == nullptr ? 40 : std::atoi(asked);
  expect_the_plain_loops(*make_small_model(GetParam()(), DType::f32),
                         static_cast<std::size_t>(count), 1);
}

// Layers that say no numbers end no text, and change none.
TEST(Engine, GuessesOfNoNumbersChangeNothing) {
  const auto model = make_small_model(latent_further(), DType::f32);
  const std::vector<Request> requests = random_requests(5, 2);
  const EngineRun plain = in_engine(*model, requests, {.max_requests = 3}, kPage);
  for (const Param& row : model->table().rows())
    if (row.place.stack == kFurtherStack && row.place.module == "eh_proj")
      std::ranges::fill(row.value.span<float>(), std::numeric_limits<float>::max());
  const EngineRun run = in_engine(
      *model, requests, {.max_requests = 3, .draft_tokens = 3, .further_layers = 2}, kPage);
  EXPECT_EQ(run.made, plain.made);
  EXPECT_GT(run.counts.guessed, 0);
}

}  // namespace
}  // namespace mt
