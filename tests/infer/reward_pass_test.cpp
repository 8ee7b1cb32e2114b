// What texts are worth is what the model says of each alone, and what transformers says.
#include "infer/reward_pass.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <sstream>

#include "base/file.h"
#include "formats/load_model.h"
#include "model/config/model_config.h"
#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Texts = std::vector<std::vector<std::int32_t>>;

std::vector<double> judge(const Model& model, const Texts& texts, std::int64_t longest,
                          std::int64_t batch, int threads) {
  RewardPass pass(model, {.longest = longest, .batch = batch, .threads = threads});
  std::vector<double> rewards(texts.size());
  const std::vector<std::span<const std::int32_t>> views(texts.begin(), texts.end());
  pass.judge(views, rewards);
  return rewards;
}

// As long as it is, without padding.
double judge_alone(const Model& model, const std::vector<std::int32_t>& text) {
  Stream stream(Device::cpu);
  Pass pass(model, stream, 1);
  const PassSize size{.length = std::ssize(text)};
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  std::ranges::copy(text, in.ids.as<std::int32_t>());
  std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + text.size(), 0);
  in.rows.as<std::int32_t>()[0] = static_cast<std::int32_t>(text.size()) - 1;
  return element(pass.on_host(pass.logits()), 0);
}

TEST(RewardPass, IsOfEachTextAlone) {
  constexpr std::int64_t kLongest = 150;
  ModelConfig config = small_llama();
  config.max_position_embeddings = kLongest;
  config.task_head = kScoreHead;
  config.num_labels = 1;
  const auto model = make_gpt(config);
  Texts texts;
  std::mt19937 random(5);
  for (const std::size_t length : {1U, 7U, 12U, 13U, 150U, 48U, 49U, 90U, 2U, 97U, 149U}) {
    texts.emplace_back();
    while (texts.back().size() < length)
      texts.back().push_back(static_cast<std::int32_t>(random() % 30));
  }
  const std::vector<double> rewards = judge(*model, texts, kLongest, 1, 1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_NEAR(rewards[i], judge_alone(*model, texts[i]), 1e-12) << texts[i].size();
    EXPECT_EQ(judge(*model, {texts[i]}, kLongest, 3, 2).at(0), rewards[i]) << texts[i].size();
  }
  EXPECT_EQ(judge(*model, texts, kLongest, 4, 3), rewards);
}

// scripts/compare-grpo.py --keep testdata/trl
TEST(RewardPass, EqualsTransformers) {
  const std::string folder = std::string(MT_TESTDATA) + "/trl/";
  const LoadedModel loaded = load_model(
      folder + "llama-reward", {}, {},
      {.families = {ModelFamily::gpt}, .others = "no reward model", .task_head = kScoreHead});
  Texts texts;
  std::vector<double> expected;
  std::istringstream lines(read_file(folder + "llama-reward.golden"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    words >> expected.emplace_back();
    texts.emplace_back();
    for (std::int32_t id; words >> id;) texts.back().push_back(id);
  }
  ASSERT_GT(texts.size(), 8U);
  const std::vector<double> rewards = judge(*loaded.model, texts, 64, 2, 1);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_NEAR(rewards[i], expected[i], 1e-5) << i;
}

}  // namespace
}  // namespace mt
