// What is held in four bits, unpacked on the GPU as on the CPU, to the bit.
#include "kernels/nf4.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Numbers;

template <class T>
class Nf4Cuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(Nf4Cuda, check::ElementTypes);

TYPED_TEST(Nf4Cuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>(1, 64), {3, 2112}, {40, 4096}, {7, 11008}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << cols);
    const std::int64_t of_row = cols / kNf4Block;
    const Nf4Shape shape{rows, cols, (rows * of_row + 255) / 256};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.bytes()));
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < shape.scales_at(); ++i)
      bytes[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    auto* const scales = reinterpret_cast<Nf4Scale*>(bytes.data() + shape.scales_at());
    for (std::int64_t i = 0; i < shape.scales; ++i)
      scales[i] = {0.01F + 0.003F * static_cast<float>(i), 0.02F};
    auto* const firsts = reinterpret_cast<std::int32_t*>(bytes.data() + shape.firsts_at());
    for (std::int64_t r = 0; r < rows; ++r) firsts[r] = static_cast<std::int32_t>(r * of_row);
    const check::DeviceArray<std::uint8_t> packed(bytes);
    const Numbers<T> y(rows * cols);
    cuda::nf4_unpack(y.data(), packed.data(), shape, nullptr);
    std::vector<float> expected(static_cast<std::size_t>(rows * cols));
    cpu::nf4_unpack(expected.data(), bytes.data(), shape);
    check::check_cuda(cudaDeviceSynchronize());
    const std::vector<double> got = y.values();
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(got[i], static_cast<double>(static_cast<float>(T(expected[i])))) << i;
  }
}

}  // namespace
}  // namespace mt
