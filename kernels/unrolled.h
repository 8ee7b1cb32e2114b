// kernels/unrolled.h: MT_UNROLLED stands before loops whose counts are constants: what they fill is
// in registers then, which GCC without it keeps as arrays in memory.
#pragma once

#if defined(__clang__)
#define MT_UNROLLED
#else
#define MT_UNROLLED _Pragma("GCC unroll 16")
#endif
