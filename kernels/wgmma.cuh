// The Hopper matrix product of a warp group (PTX ISA, wgmma.mma_async): d[64, N] (+)= a[64, 16]
// b[16, N], bf16 in, f32 sums.  It runs on its own: between wgmma_fence() and wgmma_wait() nothing
// may touch d or a's registers.
//
// d: thread t of the group holds, for each 8 columns j, d[4 j + x]: row 16 (t / 32) + t % 32 / 4 +
// 8 (x / 2), column 8 j + 2 (t % 4) + x % 2.  a in registers: 4 words of two bf16 each, in the same
// order for 16 columns.  a and b in shared memory: descriptors (hopper.cuh).  Transposed: stored
// with the 64 rows of a, or the columns of b, next to one another instead of the summed index.
#pragma once

#include <cstdint>

namespace mt::cuda {

template <int N>
struct Wgmma;

// Inline PTX names its operands one by one: sums 0 to N / 2 - 1, and after them n0, n1, ...
#define MT_SUMS_8(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MT_SUMS_32(i) MT_SUMS_8(i), MT_SUMS_8(i + 8), MT_SUMS_8(i + 16), MT_SUMS_8(i + 24)
#define MT_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MT_NAMES_32                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MT_NAMES_40 \
  MT_NAMES_32       \
  ", "              \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define MT_NAMES_56 \
  MT_NAMES_40       \
  ", "              \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55"
#define MT_NAMES_64 \
  MT_NAMES_56       \
  ", "              \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define MT_NAMES_80 \
  MT_NAMES_64       \
  ", "              \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define MT_NAMES_96 \
  MT_NAMES_80       \
  ", "              \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MT_NAMES_128                                                                             \
  MT_NAMES_96                                                                                    \
  ", "                                                                                           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MT_WGMMA(N, names, n0, n1, n2, n3, n4, n5, ...)                                         \
  template <>                                                                                   \
  struct Wgmma<N> {                                                                             \
    template <int kTransposeA, int kTransposeB>                                                 \
    static __device__ void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,        \
                                    bool add) {                                                 \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " n2                                          \
                   ", 0;\n"                                                                     \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" names "}, " n0  \
                   ", " n1 ", p, 1, 1, " n3 ", " n4 ";}"                                        \
                   : __VA_ARGS__                                                                \
                   : "l"(a), "l"(b), "r"(int(add)), "n"(kTransposeA), "n"(kTransposeB));        \
    }                                                                                           \
    template <int kTransposeB>                                                                  \
    static __device__ void multiply(float (&d)[N / 2], const std::uint32_t (&a)[4],             \
                                    std::uint64_t b) {                                          \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" names "}, {" n0 \
                   ", " n1 ", " n2 ", " n3 "}, " n4 ", 1, 1, 1, " n5 ";"                        \
                   : __VA_ARGS__                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposeB));     \
    }                                                                                           \
  }

MT_WGMMA(32, MT_NAMES_16, "%16", "%17", "%18", "%19", "%20", "%21", MT_SUMS_8(0), MT_SUMS_8(8));
MT_WGMMA(64, MT_NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37", MT_SUMS_32(0));
MT_WGMMA(80, MT_NAMES_40, "%40", "%41", "%42", "%43", "%44", "%45", MT_SUMS_32(0), MT_SUMS_8(32));
MT_WGMMA(112, MT_NAMES_56, "%56", "%57", "%58", "%59", "%60", "%61", MT_SUMS_32(0), MT_SUMS_8(32),
         MT_SUMS_8(40), MT_SUMS_8(48));
MT_WGMMA(128, MT_NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69", MT_SUMS_32(0), MT_SUMS_32(32));
MT_WGMMA(160, MT_NAMES_80, "%80", "%81", "%82", "%83", "%84", "%85", MT_SUMS_32(0), MT_SUMS_32(32),
         MT_SUMS_8(64), MT_SUMS_8(72));
MT_WGMMA(192, MT_NAMES_96, "%96", "%97", "%98", "%99", "%100", "%101", MT_SUMS_32(0),
         MT_SUMS_32(32), MT_SUMS_32(64));
MT_WGMMA(256, MT_NAMES_128, "%128", "%129", "%130", "%131", "%132", "%133", MT_SUMS_32(0),
         MT_SUMS_32(32), MT_SUMS_32(64), MT_SUMS_32(96));

// WgmmaOfCodes multiplies codes of E4M3 in the same way, d[64, N] (+)= a[64, 32] b[32, N], neither
// transposed.  Its sums have some 13 bits beside the largest number that one of them adds up.
template <int N>
struct WgmmaOfCodes;

#define MT_WGMMA_OF_CODES(N, names, n0, n1, n2, ...)                                           \
  template <>                                                                                  \
  struct WgmmaOfCodes<N> {                                                                     \
    static __device__ void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,       \
                                    bool add) {                                                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " n2                                         \
                   ", 0;\n"                                                                    \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" names "}, " n0 \
                   ", " n1 ", p, 1, 1;}"                                                       \
                   : __VA_ARGS__                                                               \
                   : "l"(a), "l"(b), "r"(int(add)));                                           \
    }                                                                                          \
  }

MT_WGMMA_OF_CODES(128, MT_NAMES_64, "%64", "%65", "%66", MT_SUMS_32(0), MT_SUMS_32(32));
MT_WGMMA_OF_CODES(192, MT_NAMES_96, "%96", "%97", "%98", MT_SUMS_32(0), MT_SUMS_32(32),
                  MT_SUMS_32(64));

#undef MT_WGMMA_OF_CODES
#undef MT_WGMMA
#undef MT_NAMES_128
#undef MT_NAMES_96
#undef MT_NAMES_80
#undef MT_NAMES_64
#undef MT_NAMES_56
#undef MT_NAMES_40
#undef MT_NAMES_32
#undef MT_NAMES_16
#undef MT_SUMS_32
#undef MT_SUMS_8

}  // namespace mt::cuda
