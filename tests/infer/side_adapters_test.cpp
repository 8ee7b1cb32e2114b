// Random prompts with one of several adapters each, or none, mixed in an engine whose cache is far
// too small for them, in pieces, with cancellations and guesses: each becomes what a plain loop
// makes of it, without a cache, with the adapter merged into the weights.
#include "nn/side_adapters.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "infer/prompt_scores.h"
#include "infer/text_states.h"
#include "ops/ops.h"
#include "tests/infer/random_requests.h"
#include "tests/infer/small_gpt.h"
#include "tests/infer/small_t5.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int64_t kPage = 16;

ModelConfig widened(ModelConfig config) {
  config.hidden_size = 32;
  config.max_position_embeddings = 160;
  config.init_method_std = 0.2;
  return config;
}
ModelConfig gpt2() { return widened(small_gpt2()); }
ModelConfig llama() { return widened(small_llama()); }
ModelConfig hybrid() { return widened(small_hybrid()); }

// Which layers an adapter is of, and its rank.
struct Kind {
  std::vector<std::string_view> modules;
  std::int64_t rank;
};
const Kind kKinds[] = {{{"linear_qkv", "linear_proj", "in_proj"}, 4},
                       {{"linear_qkv", "linear_fc1", "linear_fc2", "out_proj"}, 2},
                       {{"linear_fc2", "in_proj"}, 8}};

// Gives a model those adapters, of numbers that change what it says, and returns models that have
// them merged.  The first is one without.
std::vector<std::unique_ptr<Model>> adapt(Model& model) {
  std::vector<std::unique_ptr<Model>> merged;
  merged.push_back(make_small_model(model.config(), model.table().dtype()));
  SideAdapters adapters;
  std::mt19937 random(7);
  const auto draw = [&](const Tensor& tensor) {
    fill_with(tensor,
              [&](std::int64_t) { return static_cast<double>(random() % 2001) / 1000 - 1; });
  };
  Stream stream(Device::cpu, 1);
  for (const Kind& kind : kKinds) {
    Model& whole = *merged.emplace_back(make_small_model(model.config(), model.table().dtype()));
    SideAdapters::Products products;
    std::vector<Buffer> memory;
    const auto make = [&](const Shape& shape) {
      const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(model.table().dtype());
      const Tensor tensor =
          memory.emplace_back(Device::cpu, bytes).tensor(model.table().dtype(), shape);
      draw(tensor);
      return tensor;
    };
    for (const Param& row : model.table().rows()) {
      const auto is_of = [&](std::string_view module) {
        return row.place.module.ends_with(module);
      };
      if (!row.place.layer || row.place.param != "weight" ||
          std::ranges::none_of(kind.modules, is_of))
        continue;
      const auto& [a, b] = products[row.index] = {.a = make({kind.rank, row.shape[1]}),
                                                  .b = make({row.shape[0], kind.rank})};
      const Tensor weight = whole.table().at(row.name()).value;
      matmul({.out = weight, .a = b, .b = a, .accumulate = true}, stream);
    }
    EXPECT_FALSE(products.empty());
    adapters.add(std::move(products), std::move(memory));
  }
  model.set_adapters(std::move(adapters));
  return merged;
}

std::size_t prompts_asked() {  // MT_PROMPTS sets how many; scripts/nightly.sh asks for 500
  const char* const asked = std::getenv("MT_PROMPTS");
  return asked == nullptr ? 40 : static_cast<std::size_t>(std::atoi(asked));
}

class MixedAdapters : public testing::TestWithParam<ModelConfig (*)()> {};
INSTANTIATE_TEST_SUITE_P(
    Models, MixedAdapters, testing::Values(gpt2, llama, hybrid), [](const auto& which) {
      return std::string(which.param == gpt2 ? "Gpt2" : which.param == llama ? "Llama" : "Hybrid");
    });

// In double precision, so that nothing is a matter of rounding.
TEST_P(MixedAdapters, RandomPrompts) {
  const auto model = make_small_model(GetParam()());
  const auto merged = adapt(*model);
  std::vector<Request> requests = random_requests(prompts_asked(), 3);
  std::mt19937 random(5);
  for (Request& request : requests) request.adapter = random() % 4;
  Stream stream(Device::cpu);
  std::vector<Ids> expected;
  std::size_t changed = 0;
  for (const Request& request : requests) {
    expected.push_back(
        plain_loop(*merged[static_cast<std::size_t>(request.adapter)], stream, request));
    if (request.adapter > 0 && expected.back() != plain_loop(*merged[0], stream, request))
      ++changed;
  }
  EXPECT_GT(changed, requests.size() / 4);
  std::vector<EngineLimits> ways = {{.max_requests = 6, .cache_tokens = 480},
                                    {.max_requests = 20, .prefill_tokens = 100}};
  if (model->config().family != ModelFamily::mamba)
    ways.push_back({.max_requests = 17, .draft_tokens = 4});
  for (const EngineLimits& limits : ways) {
    SCOPED_TRACE(limits.max_requests);
    const EngineRun run = in_engine(*model, requests, limits, kPage);
    std::size_t whole = 0;
    for (std::size_t n = 0; n < requests.size(); ++n) {
      const bool cancelled = std::ssize(run.made[n]) < requests[n].tokens;
      EXPECT_TRUE(!cancelled || requests[n].cancelled >= 0) << n;
      EXPECT_TRUE(std::ranges::equal(run.made[n], std::span(expected[n]).first(run.made[n].size())))
          << n << " with adapter " << requests[n].adapter;
      if (!cancelled) ++whole;
    }
    EXPECT_GT(whole, requests.size() / 2);
    EXPECT_EQ(run.counts.held_pages, 0);
    EXPECT_EQ(run.counts.shared > 0, model->config().family != ModelFamily::mamba);
    EXPECT_EQ(run.counts.preempted > 0, limits.cache_tokens > 0);
  }
}

// In single precision, too, what others have beside it changes no bit.
TEST(SideAdapters, NeighboursChangeNoBit) {
  const auto model = make_small_model(llama(), DType::f32);
  adapt(*model);
  CachedPass pass(*model, {.vocab_size = kVocabularyOfLetters, .sequences = 6, .threads = 1});
  const Ids prompt = some_tokens(20);
  const auto next = [&](const std::vector<std::int64_t>& sequences) {
    const std::vector<std::int32_t> ids(sequences.size(), 3);
    std::vector<std::vector<float>> rows;
    const ConstTensor logits = pass.next_logits(sequences, ids);
    for (std::int64_t row = 0; row < std::ssize(sequences); ++row) {
      const auto values = logits.rows(row, row + 1).span<float>();
      rows.emplace_back(values.begin(), values.end());
    }
    return rows;
  };
  const std::vector<std::int64_t> all = {0, 1, 2, 3, 4, 5}, has = {1, 3, 0, 2, 2, 1};
  const auto see_prompts = [&] {
    for (const std::int64_t i : all) {
      pass.start(i, has[static_cast<std::size_t>(i)]);
      pass.see(i, prompt);
    }
  };
  see_prompts();
  std::vector<std::vector<float>> alone;
  for (const std::int64_t i : all) alone.push_back(next({i}).at(0));
  see_prompts();
  EXPECT_EQ(next(all), alone);
  EXPECT_EQ(alone[3], alone[4]);
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[0], alone[2]);
}

// Prompts begin with pages of others that have the same adapter alone.
TEST(SideAdapters, PrefixesAreNotSharedAcross) {
  const auto model = make_small_model(llama());
  adapt(*model);
  CachedPass pass(
      *model,
      {.vocab_size = kVocabularyOfLetters, .sequences = 2, .threads = 1, .page_tokens = kPage});
  const Ids prompt = some_tokens(50);
  pass.start(0, prompt, 1);
  pass.see(0, prompt);
  for (const std::int64_t adapter : {0, 2, 3}) {
    EXPECT_EQ(pass.start(1, prompt, adapter), 0) << adapter;
    pass.see(1, prompt);
  }
  EXPECT_EQ(pass.start(1, prompt, 1), 48);
  EXPECT_EQ(pass.start(1, prompt, 3), 48);
}

// What a prompt scores, and a text's state, are those of the model with the adapter merged.
TEST(SideAdapters, ScoresAndStatesAreTheMergedModels) {
  const auto model = make_small_model(gpt2());
  const auto merged = adapt(*model);
  const Ids text = some_tokens(30);
  PromptScores scores(*model, kVocabularyOfLetters, 1);
  TextStates states(*model, 1);
  for (const std::int64_t adapter : {0, 1, 2, 3}) {
    const Model& whole = *merged[static_cast<std::size_t>(adapter)];
    const auto found = scores.score(text, 2, adapter),
               expected = PromptScores(whole, kVocabularyOfLetters, 1).score(text, 2);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].chosen, expected[i].chosen, 1e-10) << adapter << " " << i;
    const auto state = states.of(text, Pooling::mean, adapter),
               of_merged = TextStates(whole, 1).of(text, Pooling::mean);
    ASSERT_EQ(state.size(), of_merged.size());
    for (std::size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(state[i], of_merged[i], 1e-6);
  }
}

}  // namespace
}  // namespace mt
