#include "kernels/list_scan.h"

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "tests/kernels/search_lists.h"

namespace mt {
namespace {

// What the code of a vector in a list stands for.
std::vector<double> vector_of(const check::MadeLists& made, std::int64_t list, std::int64_t i) {
  std::vector<double> v;
  const std::uint8_t* const code = &made.codes[static_cast<std::size_t>(i * made.bytes)];
  for (std::int64_t c = 0; c < made.columns; ++c) {
    float number = 0;
    if (made.kind == ListCodes::floats)
      std::memcpy(&number, code + 4 * c, 4);
    else if (made.kind == ListCodes::numbers)
      number = made.numbers.number(code, c);
    else
      number = made.part_centres[static_cast<std::size_t>((c / 3 * kPartCentres + code[c / 3]) * 3 +
                                                          c % 3)];
    v.push_back(static_cast<double>(number));
    if (made.kind != ListCodes::floats)
      v.back() +=
          static_cast<double>(made.centres[static_cast<std::size_t>(list * made.columns + c)]);
  }
  return v;
}

void expect_distances(const check::MadeLists& made) {
  const check::Scanned scanned(made);
  for (std::int64_t v = 0; v < made.rows * made.visited; ++v) {
    const std::int64_t list = made.which[static_cast<std::size_t>(v)],
                       begin = made.begins[static_cast<std::size_t>(list)];
    for (std::int64_t i = begin; i < made.begins[static_cast<std::size_t>(list) + 1]; ++i) {
      const auto at =
          static_cast<std::size_t>(made.places[static_cast<std::size_t>(v)] + i - begin);
      EXPECT_EQ(scanned.numbers[at], made.ids[static_cast<std::size_t>(i)]);
      double far = 0;
      const std::vector<double> of = vector_of(made, list, i);
      for (std::int64_t c = 0; c < made.columns; ++c)
        far += std::pow(static_cast<double>(
                            made.x[static_cast<std::size_t>(v / made.visited * made.columns + c)]) -
                            of[static_cast<std::size_t>(c)],
                        2);
      ASSERT_NEAR(scanned.distances[at], far, 2e-5 * (1 + far)) << v << " " << i;
    }
  }
}

TEST(ListScan, DistancesAreFromWhatCodesStandFor) {
  expect_distances(check::MadeLists(ListCodes::products));
  expect_distances(check::MadeLists(ListCodes::floats));
  for (const NumberCodes::Kind kind : check::kNumberKinds)
    expect_distances(check::MadeLists(ListCodes::numbers, kind));
}

TEST(NumberCodes, AreBitsOfNumbers) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Fp16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half), got = NumberCodes::half_value(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(got)) << bits;
  }
  const std::vector<float> ranges = {0, 1, 2, 3, 15, 15, 15, 15};
  const std::uint8_t code[] = {0x21, 0x43};  // 1, 2, 3, 4
  const NumberCodes four = {NumberCodes::Kind::bits4, 4, ranges.data()};
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(four.number(code, i), static_cast<float>(2 * i) + 1.5F);
}

}  // namespace
}  // namespace mt
