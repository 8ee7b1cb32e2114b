// What becomes of the weights of heads whose scores are too large, as Megatron-LM has it: a largest
// score of 250 and a threshold of 100 make 0.4.
#include "train/run/qk_clip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "comm/group.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Factors = std::vector<double>;

// The factors of the rows of one layer's matrix, whose heads found these largest scores.
Factors factors(const ModelConfig& model, const char* module, std::int64_t rows,
                const Factors& scores, double alpha = 0.5) {
  ParamTable table;
  table.add({.place = {.stack = "decoder",
                       .layer = 0,
                       .module = concat("self_attention.", module),
                       .param = "weight"},
             .shape = {rows, 2}});
  table.allocate(Device::cpu, DType::f64, false);
  Param& row = table.rows().front();
  std::fill_n(row.value.as<double>(), row.value.numel(), 1.0);
  const auto group = make_single_group();
  const World world(*group, {});
  Stream stream(Device::cpu);
  QkClip clip({.clips = true, .alpha = alpha, .threshold = 100}, model, world, stream);
  clip.begin();
  // A copy of all that is trained.
  const HostTensor master(DType::f64, {row.value.numel()});
  fill_with(master, [](std::int64_t) { return 1.0; });
  const Optimizer::Piece piece{
      .row = &row, .begin = 0, .end = row.value.numel(), .master = master, .has_master = true};
  std::ranges::copy(scores, clip.scores().as<double>());
  EXPECT_EQ(clip.end(table, {&piece, 1}), std::ranges::max(scores));
  for (std::int64_t i = 0; i < row.value.numel(); ++i)
    EXPECT_EQ(master.span<double>()[static_cast<std::size_t>(i)], row.value.as<double>()[i]);
  Factors found;
  for (std::int64_t i = 0; i < rows; ++i) found.push_back(row.value.as<double>()[2 * i + 1]);
  return found;
}

ModelConfig small(std::int64_t heads) {
  ModelConfig model;
  model.num_layers = 1;
  model.num_attention_heads = heads;
  model.hidden_size = 2 * heads;
  return model;
}

void expect_near(const Factors& found, const Factors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-8) << i;
}

// Two query heads share a key head: the larger of their scores counts.  A score below the
// threshold, or below 0, changes nothing.
TEST(QkClip, GoldenOfGroups) {
  ModelConfig model = small(4);
  model.group_query_attention = true;
  model.num_query_groups = 2;
  const double root = .63245553;
  expect_near(factors(model, "linear_qkv", 16, {-3, 250, 99, -7}),
              {root, root, root, root, root, root, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const double q = std::pow(.4, .25), k = std::pow(.4, .75);
  expect_near(factors(model, "linear_qkv", 16, {1, 2, 250, 3}, .25),
              {1, 1, 1, 1, 1, 1, 1, 1, q, q, q, q, k, k, 1, 1});
}

// What does not turn of queries and keys has a part each; what turns of queries has all.
TEST(QkClip, GoldenOfLatents) {
  ModelConfig model = small(2);
  model.multi_latent_attention = true;
  model.qk_head_dim = 2;
  model.qk_pos_emb_head_dim = 1;
  model.v_head_dim = 1;
  const double root = .63245553;
  expect_near(factors(model, "linear_q_proj", 6, {250, 20}), {root, root, .4, 1, 1, 1});
  expect_near(factors(model, "linear_q_up_proj", 6, {20, 250}), {1, 1, 1, root, root, .4});
  expect_near(factors(model, "linear_kv_up_proj", 6, {250, 20}), {root, root, 1, 1, 1, 1});
  expect_near(factors(model, "linear_kv_down_proj", 6, {250, 20}), {1, 1, 1, 1, 1, 1});
}

TEST(QkClip, AScoreThatIsNotFiniteClipsNothing) {
  const double none = std::numeric_limits<double>::infinity();
  expect_near(factors(small(1), "linear_qkv", 6, {none}), {1, 1, 1, 1, 1, 1});
}

}  // namespace
}  // namespace mt
