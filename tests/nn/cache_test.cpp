// Attention over cached keys and values gives what attention over the whole sequence gives.
#include <gtest/gtest.h>

#include "nn/attention.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kTokens = 9, kHidden = 6, kHeads = 4, kKvHeads = 2, kHeadDim = 4;

struct Sight {  // which keys a token sees
  std::int64_t window = -1, document = kTokens;
};

class CachedAttention : public testing::TestWithParam<Sight> {
 protected:
  CachedAttention() {
    table_.allocate(Device::cpu, DType::f64, false);
    for (Param& row : table_.rows())
      fill_uniform(row.value, static_cast<unsigned>(row.index), -0.5, 0.5);
  }

  // Rows [begin, end) of the output, with the cache if there is one.
  void forward(std::int64_t begin, std::int64_t end, KvCache* cache, Tensor y) {
    Workbench bench({.sequences = 1, .seq_length = end - begin, .training = false});
    HostTensor positions(DType::i32, {end - begin}), first_key(DType::i32, {end - begin});
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i - begin);
      positions.span<std::int32_t>()[at] = static_cast<std::int32_t>(i);
      first_key.span<std::int32_t>()[at] =
          static_cast<std::int32_t>(i / GetParam().document * GetParam().document);
    }
    Step s = bench.step();
    s.cache = cache;
    s.positions = positions.view();
    s.first_key = first_key.view();
    const Tensor x = x_.view().rows(begin, end);
    attention_.forward(s, y.rows(begin, end), x, x, nullptr);
    if (cache) cache->advance(end - begin);
  }

  static Linear linear(ParamTable& table, const char* name, std::int64_t out, std::int64_t in) {
    return {table, {.name = name, .shape = {out, in}}, Linear::Bias::none};
  }

  static constexpr double kFrequencies[] = {1, 0.3};
  ParamTable table_;
  const HostTensor x_ = random_tensor(DType::f64, {kTokens, kHidden}, 1);
  const Attention attention_{
      linear(table_, "qkv.weight", (kHeads + 2 * kKvHeads) * kHeadDim, kHidden),
      linear(table_, "proj.weight", kHidden, kHeads* kHeadDim),
      {.layer = 1,
       .heads = kHeads,
       .kv_heads = kKvHeads,
       .head_dim = kHeadDim,
       .window = GetParam().window,
       .inv_freq = ConstTensor(kFrequencies, DType::f64, {2})}};
};

INSTANTIATE_TEST_SUITE_P(Of, CachedAttention,
                         testing::Values(Sight{}, Sight{.window = 2}, Sight{.document = 4},
                                         Sight{.window = 1, .document = 3}));

TEST_P(CachedAttention, InPiecesEqualsAtOnce) {
  const HostTensor whole(DType::f64, {kTokens, kHidden});
  forward(0, kTokens, nullptr, whole);
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{9}, {4, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {5, 6, 9}}) {
    KvCache cache(Device::cpu, DType::f64, 2, kTokens + 3, kKvHeads, kHeadDim);
    const HostTensor pieces(DType::f64, {kTokens, kHidden});
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      forward(begin, end, &cache, pieces);
      begin = end;
    }
    EXPECT_EQ(cache.length(), kTokens);
    EXPECT_TENSORS_NEAR(pieces, whole, 1e-14) << ends.size() << " pieces";
    EXPECT_EQ(largest(cache.keys(0)), 0);  // of another layer
  }
}

}  // namespace
}  // namespace mt
