// Embedding on the GPU against the CPU's in double.
#include "kernels/embedding.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class EmbeddingCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(EmbeddingCuda, check::ElementTypes);

struct Case {
  std::int64_t rows, cols, vocab, offset;
  double skew;  // ids are vocab u^skew: large ones make long runs
  WordRange words() const { return {0, vocab}; }
};
constexpr Case kCases[] = {{0, 8, 5, 0, 1},          {1, 1, 1, 0, 1},
                           {31, 33, 7, 0, 1},        {33, 31, 300, 1, 1},
                           {500, 64, 1, 0, 1},       {3000, 72, 100, 0, 8},
                           {5000, 40, 131072, 0, 1}, {5000, 8, 131072, 1, 6},
                           {2100, 2056, 2000, 0, 4}, {70000, 8, 300000, 0, 2}};

std::vector<std::int32_t> make_ids(const Case& c) {
  std::vector<std::int32_t> ids;
  for (const double u : check::random<double>(c.rows, 3, 0, 1))
    ids.push_back(static_cast<std::int32_t>(std::pow(u, c.skew) * double(c.vocab)));
  if (!ids.empty()) ids.back() = static_cast<std::int32_t>(c.vocab - 1);
  return ids;
}

TYPED_TEST(EmbeddingCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.cols << " of " << c.vocab);
    const std::vector<std::int32_t> ids = make_ids(c);
    const DeviceArray<std::int32_t> device_ids(ids);
    const Input<T> table(c.vocab * c.cols, 1, c.offset), dy(c.rows * c.cols, 2, c.offset);
    const Numbers<T> y(c.rows * c.cols, c.offset);
    std::vector<double> expected(c.rows * c.cols);
    for (const bool accumulate : {false, true}) {
      cuda::embedding_forward(y.data(), device_ids.data(), table.data(), c.rows, c.cols, c.words(),
                              accumulate, nullptr);
      cpu::embedding_forward(expected.data(), ids.data(), table.host.data(), c.rows, c.cols,
                             c.words(), accumulate);
      EXPECT_TRUE(near(y, expected));
    }
    const Input<float> old(c.vocab * c.cols, 4);
    const Numbers<float> dtable(old.host, 0);
    const DeviceArray<unsigned char> work(cuda::embedding_backward_work(c.rows, c.cols));
    cuda::embedding_backward(dtable.data(), device_ids.data(), dy.data(), c.rows, c.cols, c.words(),
                             work.data(), nullptr);
    expected = old.host;
    cpu::embedding_backward(expected.data(), ids.data(), dy.host.data(), c.rows, c.cols, c.words());
    EXPECT_TRUE(near(dtable, expected, 1e-4));
  }
}

class EmbeddingInBf16 : public check::CudaTest<float> {};

TEST_F(EmbeddingInBf16, RoundsWhatItAdds) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.cols << " of " << c.vocab);
    const DeviceArray<std::int32_t> ids(make_ids(c));
    const Input<check::bf16> dy(c.rows * c.cols, 2, c.offset);
    const DeviceArray<unsigned char> work(cuda::embedding_backward_work(c.rows, c.cols));
    check::expect_one_rounding(c.vocab * c.cols, [&](auto* dtable) {
      cuda::embedding_backward(dtable, ids.data(), dy.data(), c.rows, c.cols, c.words(),
                               work.data(), nullptr);
    });
  }
}

// Words [300, 400) of a larger table, with most ids elsewhere, before it and behind.
TYPED_TEST(EmbeddingCuda, OfAPartOfATable) {
  using T = TypeParam;
  const WordRange words{300, 100};
  for (const Case c : {Case{3000, 72, 1000, 0, 1}, {700, 33, 301, 1, 1}, {500, 8, 300, 0, 1}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.cols << " of " << c.vocab);
    const std::vector<std::int32_t> ids = make_ids(c);
    const DeviceArray<std::int32_t> device_ids(ids);
    const Input<T> table(words.vocab * c.cols, 1, c.offset), dy(c.rows * c.cols, 2, c.offset);
    const Numbers<T> y(c.rows * c.cols, c.offset);
    std::vector<double> expected(c.rows * c.cols);
    cuda::embedding_forward(y.data(), device_ids.data(), table.data(), c.rows, c.cols, words, false,
                            nullptr);
    cpu::embedding_forward(expected.data(), ids.data(), table.host.data(), c.rows, c.cols, words,
                           false);
    EXPECT_TRUE(near(y, expected));
    const Input<float> old(words.vocab * c.cols, 4);
    const Numbers<float> dtable(old.host, 0);
    const DeviceArray<unsigned char> work(cuda::embedding_backward_work(c.rows, c.cols));
    cuda::embedding_backward(dtable.data(), device_ids.data(), dy.data(), c.rows, c.cols, words,
                             work.data(), nullptr);
    expected = old.host;
    cpu::embedding_backward(expected.data(), ids.data(), dy.host.data(), c.rows, c.cols, words);
    EXPECT_TRUE(near(dtable, expected, 1e-4));
  }
}

TYPED_TEST(EmbeddingCuda, BackwardGivesTheSameBitsAThousandTimes) {
  const Case c{3000, 16, 100, 0, 8};
  const DeviceArray<std::int32_t> ids(make_ids(c));
  const Input<TypeParam> dy(c.rows * c.cols, 2);
  const Numbers<float> dtable(c.vocab * c.cols);
  const DeviceArray<unsigned char> work(cuda::embedding_backward_work(c.rows, c.cols));
  expect_same_bits(dtable, 1000, [&] {
    check::check_cuda(cudaMemset(dtable.data(), 0, c.vocab * c.cols * sizeof(float)));
    cuda::embedding_backward(dtable.data(), ids.data(), dy.data(), c.rows, c.cols, c.words(),
                             work.data(), nullptr);
  });
}

}  // namespace
}  // namespace mt
