// Values of a Parquet page as they are encoded in it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/parquet/cursor.h"
#include "base/parquet/footer.h"

namespace mt::parquet {

inline constexpr std::size_t kMostOfPage = std::size_t{1} << 30;  // bytes, unpacked

// A value: the bits of a number, or so many bytes, which lie elsewhere.
struct Cell {
  std::int64_t number = 0;
  const char* bytes = nullptr;
  std::string_view text() const { return {bytes, static_cast<std::size_t>(number)}; }
};

// put(value) for `count` values of `width` bits, 32 at most, which stand in runs of one value and
// in groups of eight that are packed.
template <class Put>
void read_runs(Cursor& in, int width, std::int64_t count, const Put& put) {
  if (width > 32) in.damaged("a value has more than 32 bits");
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  while (count > 0) {
    const std::uint64_t head = in.varint();
    if ((head & 1) == 0) {
      const auto run =
          static_cast<std::int64_t>(std::min<std::uint64_t>(head >> 1, std::uint64_t(count)));
      if (run == 0) in.damaged("a run has no values");
      const auto value = in.number<std::uint32_t>(static_cast<std::size_t>(width + 7) / 8);
      for (std::int64_t i = 0; i < run; ++i) put(static_cast<std::uint32_t>(value & mask));
      count -= run;
      continue;
    }
    const std::int64_t values = static_cast<std::int64_t>(
        std::min<std::uint64_t>(head >> 1, static_cast<std::uint64_t>(count + 7) / 8) * 8);
    if (values == 0) in.damaged("a run has no values");
    const std::int64_t taken = std::min(values, count);
    // The last group of a page may be cut behind its last value.
    const auto whole = static_cast<std::size_t>(values / 8 * width);
    Cursor packed(in.take(std::min(whole, in.left())), in.where());
    std::uint64_t bits = 0;
    int held = 0;
    for (std::int64_t i = 0; i < taken; ++i) {
      for (; held < width; held += 8) bits |= std::uint64_t{packed.byte()} << held;
      put(static_cast<std::uint32_t>(bits & mask));
      bits >>= width;
      held -= width;
    }
    count -= taken;
  }
}

// The bits that numbers up to `most` take.
constexpr int bits_of(std::uint32_t most) { return std::bit_width(most); }

// The next `count` values of `leaf`, which are put behind `cells`.  They may point into what `in`
// reads, into `dictionary`, and into `made`, where what is not stored in one piece is put.
void read_values(Cursor in, Encoding encoding, const Leaf& leaf, std::int64_t count,
                 const std::vector<Cell>& dictionary, std::deque<std::string>& made,
                 std::vector<Cell>& cells);

}  // namespace mt::parquet
