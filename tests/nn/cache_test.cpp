// Attention over cached keys and values gives what attention over the whole sequence gives.
#include <gtest/gtest.h>

#include "nn/kv_cache.h"
#include "nn/self_attention.h"
#include "ops/ops.h"
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

  // Rows [begin, end) of the output, with these pages of the cache if there is one.
  void forward(std::int64_t begin, std::int64_t end, const KvCache* cache, Tensor y,
               const std::vector<std::int32_t>& pages = {0}) {
    Workbench bench({.sequences = 1, .seq_length = end - begin, .training = false});
    HostTensor positions(DType::i32, {end - begin}), first_key(DType::i32, {end - begin});
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i - begin);
      positions.span<std::int32_t>()[at] = static_cast<std::int32_t>(i);
      first_key.span<std::int32_t>()[at] =
          static_cast<std::int32_t>(i / GetParam().document * GetParam().document);
    }
    Step s = bench.step();
    s.tokens.positions = positions.view();
    s.tokens.first_key = first_key.view();
    const HostTensor angles = angles_of(positions), of_pages({1, std::ssize(pages)}, pages);
    if (cache != nullptr)
      s.past = {.cache = cache,
                .longest = end,
                .pages = of_pages.view(),
                .slot = 0,
                .angles = {angles.view()}};
    const Tensor x = x_.view().rows(begin, end);
    attention_.forward(s, y.rows(begin, end), x, x, nullptr);
  }

  static HostTensor angles_of(const HostTensor& positions) {
    Stream stream(Device::cpu);
    HostTensor angles(DType::f64, {positions.view().numel(), 4});
    rope_angles(angles, ConstTensor(kFrequencies, DType::f64, {2}), positions.view(), 1, stream);
    return angles;
  }

  static Linear linear(ParamTable& table, const char* name, std::int64_t out, std::int64_t in) {
    return {table, {.place = {.module = name}, .shape = {out, in}}, false};
  }

  static constexpr double kFrequencies[] = {1, 0.3};
  ParamTable table_;
  const HostTensor x_ = random_tensor(DType::f64, {kTokens, kHidden}, 1);
  const SelfAttention attention_{
      linear(table_, "qkv.weight", (kHeads + 2 * kKvHeads) * kHeadDim, kHidden),
      linear(table_, "proj.weight", kHidden, kHeads* kHeadDim),
      {.core = {.layer = 1, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim},
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
    const KvCache cache(Device::cpu, DType::f64, 2, {1, kTokens + 3, kKvHeads, kHeadDim});
    const HostTensor pieces(DType::f64, {kTokens, kHidden});
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      forward(begin, end, &cache, pieces);
      begin = end;
    }
    EXPECT_TENSORS_NEAR(pieces, whole, 1e-14) << ends.size() << " pieces";
    EXPECT_EQ(largest(cache.keys(0)), 0);  // of another layer
  }
}

// Pages of any size, in any order, with others between them.
TEST_P(CachedAttention, InPagesEqualsAtOnce) {
  const HostTensor whole(DType::f64, {kTokens, kHidden});
  forward(0, kTokens, nullptr, whole);
  for (const std::int64_t size : {1, 2, 3, 4, 8}) {
    const std::int64_t count = (kTokens + size - 1) / size;
    std::vector<std::int32_t> pages;
    for (std::int64_t i = count; i > 0; --i) pages.push_back(static_cast<std::int32_t>(2 * i));
    const KvCache cache(Device::cpu, DType::f64, 2, {2 * count + 1, size, kKvHeads, kHeadDim});
    const HostTensor pieces(DType::f64, {kTokens, kHidden});
    std::int64_t begin = 0;
    for (const std::int64_t end : {4, 5, 9}) {
      forward(begin, end, &cache, pieces, pages);
      begin = end;
    }
    EXPECT_TENSORS_NEAR(pieces, whole, 1e-14) << size << " tokens a page";
  }
}

// Each sequence of a batch has its own page, and its own length.
TEST_P(CachedAttention, SequencesOfDifferentLengths) {
  const HostTensor whole(DType::f64, {kTokens, kHidden}),
      prefixes(DType::f64, whole.view().shape());
  forward(0, kTokens, nullptr, whole);
  const KvCache cache(Device::cpu, DType::f64, 2, {5, kTokens, kKvHeads, kHeadDim});
  const std::vector<std::int32_t> positions{5, 0, 8}, slots{4, 0, 1}, lengths{6, 1, 9};
  for (std::size_t i = 0; i < 3; ++i)
    if (positions[i] > 0) forward(0, positions[i], &cache, prefixes, {slots[i]});
  Workbench bench({.sequences = 3, .seq_length = 1, .training = false});
  const HostTensor at({3}, positions), of_slots({3, 1}, slots), of_lengths({3}, lengths);
  HostTensor first_key(DType::i32, {3}), x(DType::f64, {3, kHidden}), y(DType::f64, {3, kHidden});
  for (std::size_t i = 0; i < 3; ++i) {
    first_key.span<std::int32_t>()[i] =
        static_cast<std::int32_t>(positions[i] / GetParam().document * GetParam().document);
    std::ranges::copy(
        x_.view().rows(positions[i], positions[i] + 1).span<double>(),
        x.view().rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1).as<double>());
  }
  const HostTensor angles = angles_of(at);
  Step s = bench.step();
  s.tokens.first_key = first_key.view();
  s.tokens.positions = at.view();
  s.past = {.cache = &cache,
            .longest = kTokens,
            .pages = of_slots.view(),
            .lengths = of_lengths.view(),
            .angles = {angles.view()}};
  attention_.forward(s, y, x.view(), x.view(), nullptr);
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t row = positions[static_cast<std::size_t>(i)];
    EXPECT_TENSORS_NEAR(y.view().rows(i, i + 1), whole.view().rows(row, row + 1), 1e-14);
  }
}

}  // namespace
}  // namespace mt
