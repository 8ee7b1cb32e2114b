// Ranks that have a model's matrices in parts make together what one that has them whole makes
// alone: random prompts, of which many begin alike and some are cancelled, in a cache that is too
// small for them, and texts that are drawn.
#include <gtest/gtest.h>

#include "comm/group.h"
#include "model/model_table.h"
#include "tests/infer/random_requests.h"
#include "tests/infer/small_gpt.h"

namespace mt {
namespace {

constexpr std::int64_t kTokens = 160, kTokensOfPage = 16;

struct Shared {
  const char* name;
  ModelConfig config;
};

ModelConfig of_four_heads(ModelConfig config) {
  config.hidden_size = 64;
  config.num_attention_heads = 4;
  config.max_position_embeddings = kTokens;
  config.init_method_std = 0.2;
  config.complete();
  return config;
}

std::vector<Shared> shared_models() {
  ModelConfig capped = small_llama();
  capped.final_logit_softcapping = 3;
  capped.qk_layernorm = true;
  ModelConfig latent_heads = small_latent();  // which pieces of prompts make
  latent_heads.kv_lora_rank = 60;
  std::vector<Shared> models{{"Gpt2", small_gpt2()},
                             {"Llama", small_llama()},
                             {"Capped", capped},
                             {"Hybrid", small_hybrid()},
                             {"Delta", small_delta()},
                             {"Latent", small_latent()},
                             {"WideLatent", small_wide_latent()},
                             {"LatentHeads", latent_heads},
                             {"Mixture", small_mixture()},
                             {"Further", further(small_llama(), 2)}};
  for (Shared& model : models) model.config = of_four_heads(model.config);
  return models;
}

class TensorEngine : public testing::TestWithParam<Shared> {
 protected:
  // A rank's part, with values that are the same under any layout.
  static std::unique_ptr<Model> part(const PassRanks& ranks) {
    const ModelConfig& config = GetParam().config;
    std::unique_ptr<Model> model = make_model(config, {{.end = config.all_layers()}}, ranks.part());
    model->table().allocate(Device::cpu, DType::f64, false);
    Stream stream(Device::cpu, 1);
    model->initialize(1, stream);
    return model;
  }

  // What each of so many ranks makes; all the same.
  template <class Make>
  static auto of_ranks(int count, const Make& make) {
    std::vector<decltype(make(PassRanks{}))> made(static_cast<std::size_t>(count));
    run_ranks(count, [&](Group& group) {
      Stream stream(Device::cpu, 1);
      made[static_cast<std::size_t>(group.rank())] = make({.group = &group, .stream = &stream});
    });
    for (const auto& one : made) EXPECT_EQ(one, made[0]);
    return made[0];
  }
};
INSTANTIATE_TEST_SUITE_P(Models, TensorEngine, testing::ValuesIn(shared_models()),
                         [](const auto& which) { return which.param.name; });

TEST_P(TensorEngine, LikeliestTokens) {
  const std::vector<Request> requests = random_requests(12, 1);
  const bool has_states =
      GetParam().config.family == ModelFamily::mamba || GetParam().config.may_have_linear_layers();
  for (const EngineLimits& limits :
       {EngineLimits{.max_requests = 5, .cache_tokens = 3 * kTokens},
        EngineLimits{.max_requests = 12, .draft_tokens = has_states ? 0 : 4}}) {
    const auto make = [&](const PassRanks& ranks) {
      return in_engine(*part(ranks), requests, limits, kTokensOfPage, nullptr, ranks).made;
    };
    const std::vector<Ids> alone = make({});
    EXPECT_GT(alone[0].size(), 0U);
    EXPECT_EQ(of_ranks(2, make), alone);
  }
}

// Also the logits, which are those of one rank but for the order of their sums.
TEST_P(TensorEngine, Logits) {
  const std::vector<std::int32_t> ids = some_tokens(40);
  const auto make = [&](const PassRanks& ranks) {
    const std::unique_ptr<Model> model = part(ranks);
    CachedPass pass(*model, {.vocab_size = kVocabularyOfLetters,
                             .sequences = 2,
                             .page_tokens = kTokensOfPage,
                             .ranks = ranks});
    std::vector<double> all;
    const auto note = [&](ConstTensor logits) {
      const auto values = logits.span<double>();
      all.insert(all.end(), values.begin(), values.end());
    };
    for (const std::int64_t sequence : {0, 1}) {
      pass.start(sequence);
      note(pass.next_logits(sequence, std::span(ids).subspan(static_cast<std::size_t>(sequence))));
    }
    note(pass.next_logits(std::vector<std::int64_t>{0, 1}, std::vector<std::int32_t>{3, 4}));
    return all;
  };
  const std::vector<double> alone = make({}), together = of_ranks(2, make);
  ASSERT_EQ(alone.size(), 4U * kVocabularyOfLetters);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-11) << i;
}

}  // namespace
}  // namespace mt
