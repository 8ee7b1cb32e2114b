// The grids of GGUF's types iq1, iq2 and iq3: an element is a digit of one of the points, whose
// lowest digit is the first element's.
//   iq2   eight digits of two bits:    0, 1, 2 are 8, 25, 43
//   iq3_xxs  four of three bits:       0 ... 7 are 4, 12, 20, 28, 36, 44, 52, 62
//   iq3_s    four of three bits:       0 ... 7 are 1, 3, ... 15
//   iq1   eight digits of two bits:    0, 1, 2 are -1, 0, 1
#pragma once

#include <cstdint>

namespace mt {

extern const std::uint16_t kIq2XxsGrid[256];
extern const std::uint16_t kIq2XsGrid[512];
extern const std::uint16_t kIq2SGrid[1024];
extern const std::uint16_t kIq3XxsGrid[256];
extern const std::uint16_t kIq3SGrid[512];
extern const std::uint16_t kIq1Grid[2048];

}  // namespace mt
