// Fp8Format: the two types of numbers of eight bits (kernels/fp8.h).
#pragma once

#include <cstdint>

namespace mt {

enum class Fp8Format : std::uint8_t { e4m3, e5m2 };

// Where many scales' inverses lie, numbers from one to the next: cuBLASLt reads each at a multiple
// of 16 bytes.
inline constexpr std::int64_t kFp8InverseStride = 4;

}  // namespace mt
