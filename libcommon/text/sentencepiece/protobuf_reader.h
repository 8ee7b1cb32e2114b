// ProtobufReader: the fields of one protobuf message, one after another
// (https://protobuf.dev/programming-guides/encoding).  Every length is compared with the bytes that
// are left; a view into the given bytes is all that is handed out.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mt {

class ProtobufReader {
 public:
  enum class Wire : std::uint32_t { varint = 0, f64 = 1, bytes = 2, f32 = 5 };

  // `offset`: of the message in the file at `path`, for errors.
  ProtobufReader(std::string_view message, const std::string& path, std::size_t offset = 0)
      : message_(message), path_(path), offset_(offset) {}

  // Goes to the next field; false at the end of the message.
  bool next();
  std::uint32_t number() const { return number_; }

  // The value of the field; Exit::bad_data where it is of another wire type.
  std::uint64_t integer() const;  // int32 and enums: the low 32 bits
  std::int32_t int32() const { return static_cast<std::int32_t>(integer()); }
  bool boolean() const { return integer() != 0; }
  float f32() const;
  std::string_view bytes() const;
  std::string_view text() const;  // bytes that are UTF-8
  ProtobufReader message() const { return {bytes(), path_, offset_ + at_ - bytes_.size()}; }

  // Exit::bad_data that names the file and where the field begins.
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Exit::bad_data, path_, ": byte ", offset_ + begin_, ": ", parts...);
  }

 private:
  std::uint64_t read_varint();
  std::string_view take(std::uint64_t size);
  void expect(Wire wire) const;

  std::string_view message_;
  const std::string& path_;
  std::size_t offset_, begin_ = 0, at_ = 0;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::varint;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace mt
