#include "kernels/block_product.h"

#include <cblas.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>

#include "base/error.h"

// What OpenBLAS has where it holds loops for several processors.
extern "C" [[gnu::weak]] void gotoblas_dynamic_init();
extern "C" [[gnu::weak]] void gotoblas_dynamic_quit();

// An OpenBLAS that is older than the processor takes the loops of the oldest it knows, at a quarter
// of the speed.  Then it is told a processor that it knows and this one can do all of: Skylake with
// AVX-512, or Haswell; without AVX2 it is left alone.
static void name_processor() {
#if defined(__x86_64__)
  constexpr const char* kName = "OPENBLAS_CORETYPE";
  if (gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr ||
      std::getenv(kName) != nullptr || std::string_view(openblas_get_corename()) != "Prescott")
    return;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
             avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!avx2) return;
  ::setenv(kName, avx512 ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  ::unsetenv(kName);
#endif
}

// OpenBLAS asks this when it is loaded, before main(), and has chosen its loops then.  Threads are
// ours: the tiles are spread by the caller, and each product stays on its thread.  Its own would
// only take time to start, and, where a limit leaves none, end the program or wait for ever at its
// end.
extern "C" [[gnu::visibility("default")]] int openblas_num_threads_env();
extern "C" int openblas_num_threads_env() {
  [[maybe_unused]] static const bool once = (name_processor(), true);
  return 1;
}

namespace mt::cpu {
namespace {

blasint narrow(std::int64_t size) {
  if (size > std::numeric_limits<blasint>::max())
    fail(Exit::internal, "matrix product: dimension ", size, " is too large for this BLAS");
  return static_cast<blasint>(size);
}

template <class T>
blasint stride(const Block<T>& block) {
  return narrow(std::max<std::int64_t>(1, block.stride));
}

template <class T>
CBLAS_TRANSPOSE form(const Block<T>& block) {
  return block.transpose ? CblasTrans : CblasNoTrans;
}

// OpenBLAS maps 128 MiB for each product that runs beside others, and tries for ever where it
// cannot: so a thread multiplies only where there is room for those of all threads that do, some of
// which may not be mapped yet.  With a thread's first allocation, which its end is noted in at the
// latest, 64 MiB are mapped for it; they must not come out of that room.
class Multiplier {
 public:
  Multiplier() {
    constexpr std::size_t kBytes = std::size_t{128} << 20, kBesides = std::size_t{8} << 20;
    ::operator delete(::operator new(1));
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = (count_ + 1) * kBytes + kBesides;
    void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
      fail(Exit::out_of_memory, "out of host memory: a matrix product needs ", kBytes,
           " bytes for each of ", count_ + 1, count_ == 0 ? " thread" : " threads");
    ::munmap(room, bytes);
    ++count_;
  }
  ~Multiplier() {
    const std::lock_guard lock(mutex_);
    --count_;
  }

 private:
  inline static std::mutex mutex_;
  inline static std::size_t count_ = 0;  // threads that multiply
};

}  // namespace

template <class T>
void block_product(Block<T> c, Block<const T> a, Block<const T> b, std::int64_t m, std::int64_t n,
                   std::int64_t k, T alpha, T beta) {
  [[maybe_unused]] static const bool single = (openblas_set_num_threads(1), true);
  static thread_local const Multiplier multiplier;
  const auto product = [&](auto gemm) {
    gemm(CblasRowMajor, form(a), form(b), narrow(m), narrow(n), narrow(k), alpha, a.data, stride(a),
         b.data, stride(b), beta, c.data, stride(c));
  };
  if constexpr (sizeof(T) == sizeof(float))
    product(cblas_sgemm);
  else
    product(cblas_dgemm);
}

template void block_product(Block<float>, Block<const float>, Block<const float>, std::int64_t,
                            std::int64_t, std::int64_t, float, float);
template void block_product(Block<double>, Block<const double>, Block<const double>, std::int64_t,
                            std::int64_t, std::int64_t, double, double);

}  // namespace mt::cpu
