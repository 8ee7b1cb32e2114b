// Cursor: bytes of a Parquet file that are read from left to right.  Damage throws Exit::bad_data
// with what the bytes belong to: "part.parquet: damaged Parquet: ends early".
#pragma once

#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace mt::parquet {

static_assert(std::endian::native == std::endian::little);

class Cursor {
 public:
  // `where` outlives the cursor.
  Cursor(Bytes bytes, const std::string& where) : bytes_(bytes), where_(&where) {}

  std::size_t left() const { return bytes_.size(); }
  const std::string& where() const { return *where_; }
  Bytes take(std::size_t count) {
    if (count > bytes_.size()) damaged("ends early");
    const Bytes taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  Bytes rest() { return take(left()); }
  std::uint8_t byte() { return std::to_integer<std::uint8_t>(take(1)[0]); }
  // The low `bytes` bytes of a number are stored, the lowest first.
  template <class T>
  T number(std::size_t bytes = sizeof(T)) {
    T number{};
    std::memcpy(&number, take(bytes).data(), bytes);
    return number;
  }
  // Seven bits in each byte, the lowest first; the eighth says that more follow.
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const std::uint8_t next = byte();
      number |= std::uint64_t{next & 0x7fU} << std::min(shift, 63);
      if (next < 0x80) return number;
    }
    damaged("a number has more than 64 bits");
  }
  // Of a signed number, whose sign is the lowest bit.
  std::int64_t zigzag() {
    const std::uint64_t bits = varint();
    return static_cast<std::int64_t>((bits >> 1) ^ (0 - (bits & 1)));
  }
  [[noreturn]] void damaged(const char* what) const {
    fail(Exit::bad_data, *where_, ": damaged Parquet: ", what);
  }

 private:
  Bytes bytes_;
  const std::string* where_;
};

}  // namespace mt::parquet
