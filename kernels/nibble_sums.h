// kernels/nibble_sums.h: what tables of bytes add up to over the parts of codes of four bits, for
// 32 codes at a time and some tables, on the CPU.
//   sums[t, i] = sum_p tables[t, p, code_{i, p}]
// Byte b of a code has part 2 b in its lower bits and part 2 b + 1 in its upper ones.  Tables lie
// in registers, in which instructions look up many bytes at once (André, Kermarrec, Le Scouarnec,
// "Cache locality is not enough", 2015; "Quicker ADC", 2018).  Sums are exact where they have 16
// bits: 257 parts' always have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt::cpu {

inline constexpr std::int64_t kNibbleTile = 32;         // codes that lie together
inline constexpr std::int64_t kMostNibbleTiles = 8;     // of a call
inline constexpr std::int64_t kMostNibbleTables = 4;    // likewise
inline constexpr std::int64_t kNibbleEntries = 1 << 4;  // of a part

// Codes, [count, bytes], as nibble_sums() reads them: tiles, with zeros behind the last code.
std::vector<std::uint8_t> nibble_tiles(std::span<const std::uint8_t> codes, std::int64_t bytes);
std::int64_t nibble_tile_size(std::int64_t bytes);

// Puts a table, [2 bytes, kNibbleEntries], into `to` as nibble_sums() reads it.
void put_nibble_table(std::uint8_t* to, const std::uint8_t* table, std::int64_t bytes);
std::int64_t nibble_table_size(std::int64_t bytes);

struct NibbleSums {
  const std::uint8_t* tiles = nullptr;
  std::int64_t count = 0, bytes = 0;                   // of tiles, and of a code
  const std::uint8_t* tables[kMostNibbleTables] = {};  // of put_nibble_table()
  std::uint16_t limits[kMostNibbleTables] = {};        // of what is near
  std::int64_t table_count = 0;
};

// sums: [tables, count, kNibbleTile];  near: [tables, count], bit i for a sum i that is at most the
// table's limit.  What comes back has bit t where the table t has some.
std::uint32_t nibble_sums(std::uint16_t* sums, std::uint32_t* near, const NibbleSums& problem);

}  // namespace mt::cpu
