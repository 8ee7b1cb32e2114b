// What a cache of latents needs on the GPU against the CPU's in double, and attention over it.
#include "kernels/attention.h"
#include "kernels/cached_latents.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class CachedLatentsCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(CachedLatentsCuda, check::ElementTypes);

TYPED_TEST(CachedLatentsCuda, PlacesOfTokens) {
  using T = TypeParam;
  for (const CachedLatentsShape& s : {CachedLatentsShape{6, 3, 3, 5, 4, 10, 8, 2},
                                      CachedLatentsShape{7, 7, 16, 128, 64, 512, 64, 1},
                                      CachedLatentsShape{33, 1, 1, 1, 2, 1, 16, 3}}) {
    const Input<T> q_rows(s.tokens * s.heads * (s.fixed + s.turning), 1),
        turning(s.tokens * s.turning, 2), latents(s.tokens * s.rank, 3);
    const Input<float> angles(s.tokens * s.turning, 4);
    std::vector<std::int32_t> positions, slots;
    for (std::int64_t t = 0; t < s.tokens; ++t)
      positions.push_back(static_cast<std::int32_t>((t % (s.tokens / s.sequences)) + 3));
    for (std::int64_t i = s.sequences * s.runs; i > 0; --i)
      slots.push_back(static_cast<std::int32_t>(i - 1));
    const DeviceArray<std::int32_t> at(positions), of(slots);
    const std::int64_t all = s.sequences * s.runs * s.capacity * s.width();
    const Input<T> q(s.tokens * s.heads * s.width(), 5), cache(all, 6);
    std::vector<double> host_q = q.host, host_cache = cache.host;
    cuda::cached_latents<T>({q.device.data(), cache.device.data(), q_rows.data(), turning.data(),
                             latents.data(), at.data(), of.data()},
                            angles.data(), s, nullptr);
    cpu::cached_latents<double>(
        {host_q.data(), host_cache.data(), q_rows.host.data(), turning.host.data(),
         latents.host.data(), positions.data(), slots.data()},
        angles.host.data(), s);
    EXPECT_TRUE(near(q.device, host_q));
    EXPECT_TRUE(near(cache.device, host_cache));
  }
}

TYPED_TEST(CachedLatentsCuda, HeadProducts) {
  using T = TypeParam;
  for (const std::int64_t tokens : {0, 1, 16, 33})
    for (const bool transposed : {false, true})
      for (const auto& [rows, cols] : {std::pair(128, 512), {5, 19}, {65, 31}}) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens, " << rows << " rows of " << cols);
        const HeadProductShape s{.tokens = tokens,
                                 .heads = 3,
                                 .rows_of_head = rows + 3,
                                 .first_row = 2,
                                 .rows = rows,
                                 .cols = cols,
                                 .x_width = 600,
                                 .first_x = 3,
                                 .out_width = 601,
                                 .first_out = 4,
                                 .transposed = transposed};
        const Input<T> x(tokens * 3 * 600, 1), w(3 * s.rows_of_head * cols, 2, 0, -0.1, 0.1),
            out(tokens * 3 * 601, 3);
        std::vector<double> host = out.host;
        cuda::head_product<T>(out.device.data(), x.data(), w.data(), s, nullptr);
        cpu::head_product<double>(host.data(), x.host.data(), w.host.data(), s);
        EXPECT_TRUE(near(out.device, host));
      }
}

// Heads wider than 256 channels, whose keys are their values: of one more token of each sequence,
// keys of more than a part, and of pieces.
TYPED_TEST(CachedLatentsCuda, Attention) {
  using T = TypeParam;
  for (const std::int64_t width : {260, 320, 575, 576})
    for (const std::int64_t length : {1, 37})
      for (const std::int64_t heads : {1, 3, 16, 40}) {
        SCOPED_TRACE(testing::Message() << heads << " heads of " << width << ", " << length);
        constexpr std::int64_t kPages = 12, kPage = 64, kSequences = 2, kRuns = 6;
        const std::vector<std::int32_t> slots{3, 1, 7, 11, 0, 2, 4, 10, 9, 8, 6, 5};
        const std::vector<std::int32_t> lengths{static_cast<std::int32_t>(length + 4), 381};
        const DeviceArray<std::int32_t> of(slots), has(lengths);
        AttentionShape s{.sequences = kSequences,
                         .q_length = length,
                         .kv_length = 381,
                         .kv_stride = kPage,
                         .heads = heads,
                         .kv_heads = 1,
                         .head_dim = width,
                         .kv_lengths = lengths.data(),
                         .kv_slots = slots.data(),
                         .kv_runs = kRuns,
                         .scale = 0.02};
        const Input<T> q(kSequences * length * heads * width, 1), k(kPages * kPage * width, 2);
        const Numbers<T> o(std::ssize(q.host));
        const Numbers<float> lse(kSequences * heads * length);
        std::vector<double> host_o(q.host.size()), host_lse(lse.bits().size());
        cpu::attention_forward<double>(host_o.data(), host_lse.data(), q.host.data(), k.host.data(),
                                       k.host.data(), nullptr, s, {});
        s.kv_lengths = has.data();
        s.kv_slots = of.data();
        const DeviceArray<char> work(cuda::attention_forward_work<T>(s));
        cuda::attention_forward<T>(o.data(), lse.data(), q.data(), k.data(), k.data(), nullptr, s,
                                   {}, work.data(), nullptr);
        EXPECT_TRUE(near(o, host_o, 4 * check::kRounding<T>));
        EXPECT_TRUE(near(lse, host_lse, 1e-4));
      }
}

}  // namespace
}  // namespace mt
