// Codes of products of four bits as faiss's fast scan has them in files: blocks of some times 32
// vectors, of which each byte of a code has 32 bytes for each 32 of them: 16 for the byte's lower
// half, and 16 for its upper one.  Byte j of 16 has that half of a vector v in its lower bits, and
// of the vector v + 16 in its upper ones, where v is j / 2, and 8 more where j is odd.  Zeros fill
// the last block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt {

// codes: [vectors, bytes];  block: vectors of one.
std::vector<std::uint8_t> in_blocks(std::span<const std::uint8_t> codes, std::int64_t bytes,
                                    std::int64_t block);
// The codes of `count` vectors, which blocks have.
std::vector<std::uint8_t> from_blocks(std::span<const std::uint8_t> blocks, std::int64_t count,
                                      std::int64_t bytes, std::int64_t block);

}  // namespace mt
