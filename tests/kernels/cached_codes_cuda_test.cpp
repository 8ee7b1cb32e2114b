// Keys and values of a cache in eight bits a number on a GPU, beside the CPU's.
#include "kernels/cached_codes.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using CachedCodesCuda = check::CudaTest<float>;

TEST_F(CachedCodesCuda, AreTheCpus) {
  constexpr std::int64_t kTokens = 37, kWidth = 1028, kCapacity = 40;
  auto keys = check::random<float>(kTokens * kWidth, 1, -900, 900),
       values = check::random<float>(kTokens * kWidth, 2, -1e-2, 1e-2);
  keys[5] = std::numeric_limits<float>::infinity();
  std::vector<std::int32_t> positions(kTokens);
  for (std::int32_t i = 0; i < kTokens; ++i) positions[static_cast<std::size_t>(i)] = i + 3;
  const std::vector<std::uint8_t> empty(kCapacity * kWidth);
  std::vector<std::uint8_t> key_codes = empty, value_codes = empty;
  const CacheScales scales{1.7F, 0.01F};
  const auto cache = [&]<class Code>(Code* k, Code* v) {
    return CachedCodes<Code>{k, v, nullptr, kCapacity, 1, kWidth, scales};
  };
  cpu::put_codes<float>(cache(key_codes.data(), value_codes.data()),
                        {keys.data(), values.data(), positions.data(), kTokens, kTokens});
  const check::DeviceArray<float> on_keys(keys), on_values(values);
  const check::DeviceArray<std::int32_t> on_positions(positions);
  const check::DeviceArray<std::uint8_t> on_key_codes(empty), on_value_codes(empty);
  cuda::put_codes<float>(cache(on_key_codes.data(), on_value_codes.data()),
                         {on_keys.data(), on_values.data(), on_positions.data(), kTokens, kTokens},
                         nullptr);
  EXPECT_EQ(on_key_codes.values(), key_codes);
  EXPECT_EQ(on_value_codes.values(), value_codes);

  std::vector<float> back(2 * kCapacity * kWidth), zeros(back.size());
  const auto read = [](auto* p) { return static_cast<const std::uint8_t*>(p); };
  cpu::get_codes<float>({back.data(), back.data() + kCapacity * kWidth, 0, kCapacity, nullptr},
                        cache(read(key_codes.data()), read(value_codes.data())));
  const check::DeviceArray<float> on_back(zeros);
  cuda::get_codes<float>(
      {on_back.data(), on_back.data() + kCapacity * kWidth, 0, kCapacity, nullptr},
      cache(read(on_key_codes.data()), read(on_value_codes.data())), nullptr);
  EXPECT_EQ(on_back.values(), back);
}

}  // namespace
}  // namespace mt
