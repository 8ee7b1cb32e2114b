// Attention of one more token of each sequence on Hopper beside the definition in double, and its
// bits beside those of each sequence alone.
#include "kernels/token_attention.h"

#include <cmath>
#include <numeric>

#include "kernels/gpu.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class TokenAttentionCuda : public check::CudaTest<T> {
 protected:
  void SetUp() override {
    check::CudaTest<T>::SetUp();
    if (!this->IsSkipped() && !cuda::hopper_kernels()) GTEST_SKIP() << "no kernels for Hopper";
  }
};
TYPED_TEST_SUITE(TokenAttentionCuda, check::ElementTypes);

struct Size {
  std::int64_t sequences, kv_heads, group, head_dim, longest;
  std::int64_t page = 0, window = -1;  // page 0: a sequence has one
};

// Any codes, but those of no number, and what they stand for.
template <class T>
struct Codes {
  Codes(std::int64_t tokens, std::int64_t width)
      : keys(some(tokens * width, 7)),
        values(some(tokens * width, 8)),
        of_keys(tokens * width),
        of_values(tokens * width) {
    const CachedCodes<const std::uint8_t> cache{keys.data(), values.data(), nullptr, tokens,
                                                1,           width,         scales};
    cuda::get_codes<T>({of_keys.data(), of_values.data(), 0, tokens, nullptr}, cache, nullptr);
  }
  static std::vector<std::uint8_t> some(std::int64_t count, std::uint32_t state) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
    for (std::uint8_t& code : codes) {
      code = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
      if ((code & 0x7f) > 0x40) code = static_cast<std::uint8_t>(code & 0xbf);  // below 2
    }
    return codes;
  }
  const CacheScales scales = {0.75F, 1.25F};
  const check::DeviceArray<std::uint8_t> keys, values;
  const Numbers<T> of_keys, of_values;
};

// Sequences of very different lengths; their pages lie from the last to the first.
template <class T>
struct Problem {
  explicit Problem(const Size& size)
      : s(size),
        row((s.group + 2) * s.head_dim),
        pages_each(s.page == 0 ? 1 : (s.longest + s.page - 1) / s.page),
        page(s.page == 0 ? s.longest : s.page),
        qkv(s.sequences * s.kv_heads * row, 1),
        keys(tokens() * s.kv_heads * s.head_dim, 2),
        values(tokens() * s.kv_heads * s.head_dim, 3) {
    for (std::int64_t i = 0; i < s.sequences; ++i) {
      lengths.push_back(static_cast<std::int32_t>(1 + i * i * 37 % s.longest));
      for (std::int64_t p = 0; p < pages_each; ++p)
        pages.push_back(static_cast<std::int32_t>((s.sequences - i) * pages_each - 1 - p));
    }
    lengths.back() = static_cast<std::int32_t>(s.longest);
  }
  std::int64_t tokens() const { return s.sequences * pages_each * page; }

  // Sequences [first, last) alone, into their part of `o`; codes: of these, or of what they stand
  // for.
  void run(const Numbers<T>& o, std::int64_t first, std::int64_t last,
           const Codes<T>* codes = nullptr, bool as_codes = false) const {
    const check::DeviceArray<std::int32_t> of_lengths(
        std::vector<std::int32_t>(lengths.begin() + first, lengths.begin() + last)),
        of_pages(std::vector<std::int32_t>(pages.begin() + first * pages_each,
                                           pages.begin() + last * pages_each));
    AttentionShape shape{.sequences = last - first,
                         .q_length = 1,
                         .kv_length = s.longest,
                         .kv_stride = page,
                         .heads = s.kv_heads * s.group,
                         .kv_heads = s.kv_heads,
                         .head_dim = s.head_dim,
                         .window = s.window,
                         .kv_lengths = of_lengths.data(),
                         .kv_slots = of_pages.data(),
                         .kv_runs = pages_each,
                         .scale = scale()};
    ASSERT_TRUE(cuda::token_attention_fits(shape));
    TokenAttention<T> problem{.o = o.data() + first * s.kv_heads * s.group * s.head_dim,
                              .keys = keys.device.data(),
                              .values = values.device.data(),
                              .qkv = qkv.data() + first * s.kv_heads * row};
    if (codes != nullptr) {
      problem.is_cached = true;
      if (as_codes) {
        problem.keys = problem.values = nullptr;
        problem.key_codes = codes->keys.data();
        problem.value_codes = codes->values.data();
        problem.scales = codes->scales;
      } else {
        problem.keys = codes->of_keys.data();
        problem.values = codes->of_values.data();
      }
    }
    cuda::token_attention<T>(problem, shape, nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(s.head_dim)); }

  std::vector<double> expected() const {
    std::vector<double> o;
    for (std::int64_t i = 0; i < s.sequences; ++i)
      for (std::int64_t g = 0; g < s.kv_heads; ++g)
        for (std::int64_t q = 0; q < s.group; ++q) {
          const double* const projected = qkv.host.data() + (i * s.kv_heads + g) * row;
          const std::int64_t length = lengths[static_cast<std::size_t>(i)];
          const std::int64_t first =
              s.window < 0 ? 0 : std::max<std::int64_t>(0, length - 1 - s.window);
          std::vector<double> sums(static_cast<std::size_t>(s.head_dim)), weights;
          double total = 0;
          for (std::int64_t j = first; j < length; ++j) {
            const std::int64_t token =
                pages[static_cast<std::size_t>(i * pages_each + j / page)] * page + j % page;
            const std::int64_t place = (token * s.kv_heads + g) * s.head_dim;
            const bool own = j == length - 1;
            const double* const key =
                own ? projected + s.group * s.head_dim : keys.host.data() + place;
            const double* const value = own ? key + s.head_dim : values.host.data() + place;
            const double weight =
                std::exp(scale() * std::inner_product(key, key + s.head_dim,
                                                      projected + q * s.head_dim, 0.0));
            total += weight;
            for (std::int64_t c = 0; c < s.head_dim; ++c)
              sums[static_cast<std::size_t>(c)] += weight * value[c];
          }
          for (const double sum : sums) o.push_back(sum / total);
        }
    return o;
  }

  Size s;
  std::int64_t row, pages_each, page;
  Input<T> qkv, keys, values;
  std::vector<std::int32_t> lengths, pages;
};

TYPED_TEST(TokenAttentionCuda, IsTheDefinition) {
  for (const Size& size :
       {Size{3, 2, 4, 128, 700}, Size{70, 4, 3, 64, 300}, Size{40, 8, 4, 128, 400},
        Size{40, 8, 1, 96, 333, 64}, Size{300, 1, 16, 256, 130}, Size{50, 6, 2, 72, 500, 128, 90},
        Size{5, 2, 11, 128, 600}}) {
    const Problem<TypeParam> p(size);
    const Numbers<TypeParam> o(std::ssize(p.lengths) * size.kv_heads * size.group * size.head_dim);
    p.run(o, 0, size.sequences);
    // Probabilities are rounded too.
    EXPECT_TRUE(check::near(o, p.expected(), 2 * check::kRounding<TypeParam> + 1e-5))
        << size.sequences << " of " << size.longest;
  }
}

// A cache in codes has the bits of one in the numbers that these stand for.
TYPED_TEST(TokenAttentionCuda, CodesAreTheirNumbers) {
  if (sizeof(TypeParam) == 4) GTEST_SKIP() << "codes are of 16 bits";
  for (const Size& size :
       {Size{3, 2, 4, 128, 700}, Size{70, 4, 3, 64, 300}, Size{40, 8, 1, 96, 333, 64},
        Size{300, 1, 16, 256, 130}, Size{50, 6, 2, 72, 500, 128, 90}}) {
    const Problem<TypeParam> p(size);
    const Codes<TypeParam> codes(p.tokens(), size.kv_heads * size.head_dim);
    const auto results = std::ssize(p.lengths) * size.kv_heads * size.group * size.head_dim;
    const Numbers<TypeParam> of_numbers(results), of_codes(results);
    p.run(of_numbers, 0, size.sequences, &codes, false);
    p.run(of_codes, 0, size.sequences, &codes, true);
    EXPECT_TRUE(check::same_bits(of_numbers.bits(), of_codes.bits()))
        << size.sequences << " of " << size.longest;
  }
}

// One block takes what eight do where there are fewer.
TYPED_TEST(TokenAttentionCuda, SequencesDoNotNoticeEachOther) {
  for (const Size& size :
       {Size{70, 4, 4, 64, 1000}, Size{34, 8, 4, 128, 700}, Size{34, 8, 8, 128, 900, 64},
        Size{280, 1, 1, 256, 90}, Size{40, 7, 5, 112, 300, 0, 60}}) {
    const Problem<TypeParam> p(size);
    const auto results = std::ssize(p.lengths) * size.kv_heads * size.group * size.head_dim;
    const Numbers<TypeParam> together(results), alone(results);
    p.run(together, 0, size.sequences);
    for (std::int64_t i = 0; i < size.sequences; ++i) p.run(alone, i, i + 1);
    EXPECT_TRUE(check::same_bits(together.bits(), alone.bits()))
        << size.sequences << " of " << size.longest;
  }
}

}  // namespace
}  // namespace mt
