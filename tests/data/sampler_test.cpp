#include "data/samples/sampler.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace mt {
namespace {

using Samples = std::vector<std::int64_t>;
using Order = std::vector<std::uint32_t>;

// What `rank` reads in `steps` micro-batches after `consumed` samples.
Samples drawn(const Sampler& sampler, const SamplerOptions& layout, int rank, std::int64_t consumed,
              int steps) {
  Samples samples;
  const std::int64_t m = layout.micro_batch_size;
  for (int step = 0; step < steps; ++step)
    for (std::int64_t row = 0; row < m; ++row)
      samples.push_back(
          sampler.sample(consumed + (step * layout.data_parallel_size + rank) * m + row).value());
  return samples;
}

constexpr std::int64_t kSize = 22;
const SamplerOptions kSingle{.micro_batch_size = 2, .data_parallel_size = 2};
const SamplerOptions kSharded{.type = "cyclic", .micro_batch_size = 2, .data_parallel_size = 2};
const SamplerOptions kDealt{
    .type = "cyclic", .data_sharding = false, .micro_batch_size = 2, .data_parallel_size = 2};

TEST(TorchPermutation, IsTorchs) {
  EXPECT_EQ(torch_permutation(10, 0), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(torch_permutation(10, 1), (Order{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
  EXPECT_EQ(torch_permutation(10, 42), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(torch_permutation(8, 0), (Order{4, 0, 7, 3, 2, 5, 1, 6}));
  EXPECT_EQ(torch_permutation(8, 1), (Order{5, 4, 2, 6, 7, 3, 1, 0}));
  EXPECT_EQ(torch_permutation(8, 2), (Order{0, 4, 7, 2, 6, 5, 1, 3}));
  EXPECT_EQ(torch_permutation(12, 0), (Order{8, 0, 5, 9, 7, 4, 2, 10, 3, 1, 11, 6}));
  EXPECT_EQ(torch_permutation(0, 0), Order());
  EXPECT_EQ(torch_permutation(1, 3), (Order{0}));
}

TEST(Sampler, Single) {
  const Sampler sampler(kSize, kSingle);
  EXPECT_EQ(drawn(sampler, kSingle, 0, 4, 4), (Samples{4, 5, 8, 9, 12, 13, 16, 17}));
  EXPECT_EQ(drawn(sampler, kSingle, 1, 4, 4), (Samples{6, 7, 10, 11, 14, 15, 18, 19}));
  const SamplerOptions two{.micro_batch_size = 2, .data_parallel_size = 2};
  EXPECT_EQ(drawn(sampler, two, 0, 0, 2), (Samples{0, 1, 4, 5}));
  EXPECT_EQ(drawn(sampler, two, 1, 0, 2), (Samples{2, 3, 6, 7}));
}

TEST(Sampler, PastTheEnd) {
  SamplerOptions options = kSingle;
  EXPECT_EQ(code_of([&] { Sampler(kSize, options).sample(22); }), Exit::bad_config);
  options.past_end = PastEnd::repeat;
  EXPECT_EQ(Sampler(kSize, options).sample(25), 3);
  options.past_end = PastEnd::padding;
  EXPECT_EQ(Sampler(kSize, options).sample(22), std::nullopt);
  EXPECT_EQ(Sampler(kSize, options).sample(21), 21);
}

TEST(Sampler, CyclicWithABucketForEachRank) {
  const Sampler sampler(kSize, kSharded);
  EXPECT_EQ(drawn(sampler, kSharded, 0, 0, 5), (Samples{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(drawn(sampler, kSharded, 1, 0, 5), (Samples{14, 11, 17, 15, 13, 19, 10, 18, 16, 12}));
  EXPECT_EQ(drawn(sampler, kSharded, 0, 8, 1), (Samples{3, 9}));
  EXPECT_EQ(drawn(sampler, kSharded, 1, 8, 1), (Samples{13, 19}));
  // The second epoch, and over the end of the first.
  EXPECT_EQ(drawn(sampler, kSharded, 0, 20, 5), (Samples{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
  EXPECT_EQ(drawn(sampler, kSharded, 1, 20, 5), (Samples{15, 16, 11, 12, 10, 18, 19, 13, 17, 14}));
  EXPECT_EQ(drawn(sampler, kSharded, 0, 16, 2), (Samples{6, 2, 5, 6}));
}

TEST(Sampler, CyclicDealtToTheRanks) {
  const Sampler sampler(kSize, kDealt);
  EXPECT_EQ(drawn(sampler, kDealt, 0, 0, 5), (Samples{10, 15, 11, 9, 19, 2, 18, 7, 6, 17}));
  EXPECT_EQ(drawn(sampler, kDealt, 1, 0, 5), (Samples{4, 3, 5, 20, 13, 0, 16, 8, 14, 1}));
}

// Any order of asking gives the same samples: an epoch is not remembered wrongly.
TEST(Sampler, CyclicDoesNotDependOnWhatWasAskedBefore) {
  const Sampler there(kSize, kSharded), back(kSize, kSharded);
  Samples forward, backward(200);
  for (std::int64_t n = 0; n < 200; ++n) forward.push_back(there.sample(n).value());
  for (std::int64_t n = 200; n-- > 0;)
    backward[static_cast<std::size_t>(n)] = back.sample(n).value();
  EXPECT_EQ(forward, backward);
}

TEST(Sampler, WrongSizesAreErrors) {
  EXPECT_EQ(code_of([] { Sampler(3, kSharded); }), Exit::bad_config);
  EXPECT_EQ(code_of([] { Sampler(2 * 214748364L, kSharded); }), Exit::bad_config);
  EXPECT_EQ(code_of([] { Sampler(2 * 214748364L - 1, kSharded); }), Exit::ok);
  EXPECT_EQ(code_of([] { Sampler(214748364L, kDealt); }), Exit::bad_config);
  const Sampler sampler(kSize, kSharded);
  EXPECT_EQ(code_of([&] { sampler.check_consumed(8); }), Exit::ok);
  EXPECT_EQ(code_of([&] { sampler.check_consumed(6); }), Exit::bad_config);
  EXPECT_EQ(code_of([] { Sampler(kSize, kSingle).check_consumed(6); }), Exit::ok);
}

}  // namespace
}  // namespace mt
