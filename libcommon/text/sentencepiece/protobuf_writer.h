// ProtobufWriter: the fields of one protobuf message, one behind another, as ProtobufReader reads
// them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/sentencepiece/protobuf_reader.h"

namespace mt {

class ProtobufWriter {
 public:
  ProtobufWriter& integer(std::uint32_t number, std::uint64_t value) {
    put_key(number, ProtobufReader::Wire::varint);
    put_varint(value);
    return *this;
  }
  ProtobufWriter& bytes(std::uint32_t number, std::string_view value) {
    put_key(number, ProtobufReader::Wire::bytes);
    put_varint(value.size());
    message_ += value;
    return *this;
  }
  ProtobufWriter& f32(std::uint32_t number, float value) {
    put_key(number, ProtobufReader::Wire::f32);
    put_little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtobufWriter& f64(std::uint32_t number, double value) {
    put_key(number, ProtobufReader::Wire::f64);
    put_little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufWriter& message(std::uint32_t number, const ProtobufWriter& value) {
    return bytes(number, value.message_);
  }
  const std::string& content() const { return message_; }

 private:
  void put_key(std::uint32_t number, ProtobufReader::Wire wire) {
    put_varint(std::uint64_t{number} << 3 | static_cast<std::uint32_t>(wire));
  }
  template <class Bits>
  void put_little_endian(Bits bits) {
    for (std::size_t byte = 0; byte < sizeof bits; ++byte)
      message_ += static_cast<char>(bits >> 8 * byte);
  }
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
    message_ += static_cast<char>(value);
  }

  std::string message_;
};

}  // namespace mt
