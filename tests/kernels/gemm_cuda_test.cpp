// Matrix products on the GPU: the search for the fastest algorithm, and what it keeps on disk.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "kernels/gemm.h"
#include "kernels/gemm_cache.h"
#include "tests/base/scratch.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Input;
using check::Numbers;

cuda::GemmAlgorithm some_algorithm(std::uint64_t first) { return {first, 2, 3, 4, 5, 6, 7, ~0ULL}; }

TEST(GemmCache, KeepsWhatWasAdded) {
  const Scratch scratch;
  const std::string path = scratch.path("mt/gemm");
  {
    cuda::GemmCache cache(path);
    EXPECT_FALSE(cache.find("a"));
    cache.add("a", some_algorithm(1));
    cache.add("b", some_algorithm(2));
    cache.add("a", some_algorithm(3));
    EXPECT_EQ(cache.find("a"), some_algorithm(3));
  }
  const cuda::GemmCache again(path);
  EXPECT_EQ(again.find("a"), some_algorithm(3));
  EXPECT_EQ(again.find("b"), some_algorithm(2));
  EXPECT_FALSE(again.find("c"));
}

TEST(GemmCache, LeavesDamagedLinesOut) {
  const Scratch scratch;
  const std::string path = scratch.path("gemm");
  cuda::GemmCache(path).add("a", some_algorithm(1));
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    File::create(path).write(std::string_view(whole).substr(0, size));
    EXPECT_FALSE(cuda::GemmCache(path).find("a")) << size << " bytes";
    cuda::GemmCache(path).add("b", some_algorithm(2));  // on a line of its own
    EXPECT_EQ(cuda::GemmCache(path).find("b"), some_algorithm(2)) << size << " bytes";
  }
}

TEST(GemmCache, DoesWithoutADisk) {
  for (const std::string path : {"", "/dev/null/gemm"}) {
    cuda::GemmCache cache(path);
    cache.add("a", some_algorithm(1));
    EXPECT_EQ(cache.find("a"), some_algorithm(1));
  }
}

class GemmCuda : public check::CudaTest<bf16> {
 protected:
  GemmCuda() { setenv("XDG_CACHE_HOME", scratch_.path("cache").c_str(), 1); }
  ~GemmCuda() override { unsetenv("XDG_CACHE_HOME"); }
  Scratch scratch_;
};

// The forms of products that training makes: every bit is that of the library that does not
// search, the first time, afterwards, and from the cache.
TEST_F(GemmCuda, SearchChangesNoBit) {
  constexpr std::int64_t kM = 512, kN = 384, kK = 1024;
  const Input<bf16> a(kM * kK, 1), b(kK * kN, 2), bias(kN, 3), residual(kM * kN, 4);
  const DeviceArray<unsigned char> work(cuda::kGemmWork);
  const Numbers<bf16> at(kM * kN);
  for (int form = 0; form < 6; ++form) {
    Gemm<bf16> p{.a = a.data(), .b = b.data(), .m = kM, .n = kN, .k = kK};
    p.transpose_b = form % 2 == 0;
    if (form == 1) p.residual = residual.data();
    if (form == 2) p.bias = bias.data();
    if (form == 3) p.then = GemmThen::gelu, p.bias = bias.data(), p.at = at.data();
    if (form == 4) p.transpose_a = true;
    const auto result = [&](cuda::GemmLibrary& library) {
      const Numbers<bf16> c(kM * kN);
      p.c = c.data();
      library.gemm(p, work.data(), nullptr);
      return c.values();
    };
    cuda::GemmLibrary plain;
    const std::vector<double> expected = result(plain);
    for (int run = 0; run < 2; ++run) {  // the second finds the cache
      cuda::GemmLibrary searching;
      searching.search();
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(result(searching), expected) << "form " << form << ", run " << run;
      EXPECT_EQ(searching.search_again(), run == 0) << "form " << form;
      EXPECT_EQ(result(searching), expected) << "form " << form << ", run " << run << ", again";
      EXPECT_FALSE(searching.search_again()) << "form " << form << ", run " << run;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path("cache/mt")), {}), 1);
}

TEST_F(GemmCuda, SearchAddsOnce) {
  constexpr std::int64_t kM = 256, kN = 256, kK = 512;
  const Input<bf16> a(kK * kM, 1), b(kK * kN, 2);
  const Input<float> old(kM * kN, 3);
  const DeviceArray<unsigned char> work(cuda::kGemmWork);
  std::vector<double> results[2];
  for (const bool search : {false, true}) {
    cuda::GemmLibrary library;
    if (search) library.search();
    const Numbers<float> c(old.host, 0);
    library.gemm(Gemm<bf16, float>{.c = c.data(),
                                   .a = a.data(),
                                   .b = b.data(),
                                   .m = kM,
                                   .n = kN,
                                   .k = kK,
                                   .transpose_a = true,
                                   .accumulate = true},
                 work.data(), nullptr);
    results[search] = c.values();
  }
  EXPECT_EQ(results[0], results[1]);
}

// Rows that vary in number: the product is right, twice the same, and no search is made.
TEST_F(GemmCuda, RowsThatVaryAreNotSearchedFor) {
  constexpr std::int64_t kMost = 300, kN = 256, kK = 192;
  const Input<bf16> a(kMost * kK, 1), b(kMost * kN, 2);
  const DeviceArray<unsigned char> work(cuda::kGemmWork);
  cuda::GemmLibrary library, plain;
  library.search();
  for (const bool transposed : {false, true})
    for (const std::int64_t rows : {1, 17, 128, 129, 255, 300}) {
      const auto result = [&](cuda::GemmLibrary& by, bool vary) {
        Gemm<bf16> p{.a = a.data(), .b = b.data(), .m = rows, .n = kN, .k = kK, .rows_vary = vary};
        if (transposed) p.transpose_a = true, p.m = kK, p.k = rows;
        if (!transposed) p.transpose_b = true;
        const Numbers<bf16> c(p.m * p.n);
        p.c = c.data();
        by.gemm(p, work.data(), nullptr);
        return c.values();
      };
      const std::vector<double> expected = result(plain, false), got = result(library, true);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 0.02 * (1 + std::abs(expected[i])))
            << rows << " rows, transposed " << transposed << ", element " << i;
      EXPECT_EQ(result(library, true), got);
    }
  EXPECT_FALSE(library.search_again());
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("cache/mt")));
}

// Of whole numbers, of which f32 has every sum: each element is rounded as it should be, all alike.
TEST_F(GemmCuda, RoundsWhatItAddsToBf16OnceOrBeforeAndAfter) {
  struct Case {
    std::int64_t m, n, k;
  };
  for (const Case& c : {Case{256, 128, 384}, Case{64, 128, 16384}}) {
    const auto whole = [](std::int64_t count, unsigned seed, double most) {
      std::vector<double> numbers = check::random<double>(count, seed, -most, most);
      for (double& x : numbers) x = std::round(x);
      return numbers;
    };
    const std::vector<double> a = whole(c.k * c.m, 1, 8), b = whole(c.k * c.n, 2, 8);
    const Numbers<bf16> on_a(a, 0), on_b(b, 0), result(whole(c.m * c.n, 3, 4000), 0);
    const std::vector<double> old = result.values();
    const DeviceArray<unsigned char> work(cuda::kGemmWork);
    cuda::GemmLibrary().gemm(Gemm<bf16>{.c = result.data(),
                                        .a = on_a.data(),
                                        .b = on_b.data(),
                                        .m = c.m,
                                        .n = c.n,
                                        .k = c.k,
                                        .transpose_a = true,
                                        .accumulate = true},
                             work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    const std::vector<double> got = result.values();
    std::vector<double> products(got.size());
    for (std::int64_t k = 0; k < c.k; ++k)
      for (std::int64_t i = 0; i < c.m; ++i)
        for (std::int64_t j = 0; j < c.n; ++j)
          products[i * c.n + j] += a[k * c.m + i] * b[k * c.n + j];
    const auto rounded = [](double x) {
      return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
    };
    std::vector<double> once, before_and_after;
    for (std::size_t i = 0; i < got.size(); ++i) {
      once.push_back(rounded(old[i] + products[i]));
      before_and_after.push_back(rounded(old[i] + rounded(products[i])));
    }
    EXPECT_NE(once, before_and_after);
    EXPECT_TRUE(got == once || got == before_and_after) << c.k;
  }
}

}  // namespace
}  // namespace mt
