// The largest scores of attention, beside those of a loop over all pairs.
#include "ops/largest_score.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int64_t kTexts = 2, kTextTokens = 7, kQueryHeads = 6, kKeyHeads = 3, kHeadWidth = 5;
constexpr double kScoreScale = 0.7;

struct Problem {
  std::int64_t window = -1;
  bool documents = false, packed = false;
};

class LargestScores {
 public:
  explicit LargestScores(const Problem& p)
      : p_(p),
        q_(DType::f64, {kTexts * kTextTokens, kQueryHeads, kHeadWidth}),
        k_(DType::f64, {kTexts * kTextTokens, kKeyHeads, kHeadWidth}),
        rows_(DType::f64, {kTexts * kTextTokens, (kQueryHeads + 2 * kKeyHeads) * kHeadWidth}),
        first_key_(DType::i32, {kTexts * kTextTokens}) {
    fill_uniform(q_, 1);
    fill_uniform(k_, 2);
    for (std::int64_t t = 0; t < kTexts * kTextTokens; ++t) {
      first_key_.span<std::int32_t>()[at(t)] = t % kTextTokens < 4 ? 0 : 4;
      for (std::int64_t h = 0; h < kQueryHeads; ++h)
        for (std::int64_t c = 0; c < kHeadWidth; ++c)
          row(t)[(h / 2 * 4 + h % 2) * kHeadWidth + c] = query(t, h)[c];
      for (std::int64_t g = 0; g < kKeyHeads; ++g)
        for (std::int64_t c = 0; c < kHeadWidth; ++c)
          row(t)[(g * 4 + 2) * kHeadWidth + c] = key(t, g)[c];
    }
  }

  std::vector<double> found(double before) {
    const HostTensor largest(DType::f64, {kQueryHeads});
    fill_with(largest, [&](std::int64_t) { return before; });
    const AttentionShape shape{.sequences = kTexts,
                               .q_length = kTextTokens,
                               .kv_length = kTextTokens,
                               .kv_stride = kTextTokens,
                               .heads = kQueryHeads,
                               .kv_heads = kKeyHeads,
                               .head_dim = kHeadWidth,
                               .window = p_.window,
                               .scale = kScoreScale};
    Stream stream(Device::cpu);
    add_largest_scores(largest, p_.packed ? rows_.view() : q_.view(),
                       p_.packed ? Tensor() : k_.view(),
                       p_.documents ? first_key_.view() : Tensor(), shape, stream);
    return {largest.span<double>().begin(), largest.span<double>().end()};
  }

  std::vector<double> expected() {
    std::vector<double> all(kQueryHeads, -std::numeric_limits<double>::infinity());
    for (std::int64_t h = 0; h < kQueryHeads; ++h)
      for (std::int64_t s = 0; s < kTexts; ++s)
        for (std::int64_t i = 0; i < kTextTokens; ++i)
          for (std::int64_t j = 0; j <= i; ++j) {
            if (p_.window >= 0 && i - j > p_.window) continue;
            if (p_.documents && j < first_key_.span<std::int32_t>()[at(s * kTextTokens + i)])
              continue;
            double score = 0;
            for (std::int64_t c = 0; c < kHeadWidth; ++c)
              score += query(s * kTextTokens + i, h)[c] * key(s * kTextTokens + j, h / 2)[c];
            all[at(h)] = std::max(all[at(h)], kScoreScale * score);
          }
    return all;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  double* query(std::int64_t t, std::int64_t h) {
    return q_.view().as<double>() + (t * kQueryHeads + h) * kHeadWidth;
  }
  double* key(std::int64_t t, std::int64_t g) {
    return k_.view().as<double>() + (t * kKeyHeads + g) * kHeadWidth;
  }
  double* row(std::int64_t t) {
    return rows_.view().as<double>() + t * (kQueryHeads + 2 * kKeyHeads) * kHeadWidth;
  }
  Problem p_;
  HostTensor q_, k_, rows_, first_key_;
};

TEST(LargestScores, AreThoseOfAllPairsThatSeeEachOther) {
  for (const Problem& p :
       {Problem{}, Problem{.window = 1}, Problem{.documents = true}, Problem{.packed = true},
        Problem{.window = 2, .documents = true, .packed = true}}) {
    LargestScores scores(p);
    const std::vector<double> expected = scores.expected();
    const std::vector<double> found = scores.found(-1e9);
    for (std::size_t h = 0; h < expected.size(); ++h) EXPECT_NEAR(found[h], expected[h], 1e-12);
  }
}

TEST(LargestScores, StayWhereTheyAreLarger) {
  LargestScores scores({});
  EXPECT_EQ(scores.found(1e9), std::vector<double>(kQueryHeads, 1e9));
}

}  // namespace
}  // namespace mt
