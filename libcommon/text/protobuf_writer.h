// ProtobufWriter: the fields of one protobuf message, one behind another, as ProtobufReader reads
// them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/protobuf_reader.h"

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
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) message_ += static_cast<char>(bits >> shift);
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
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
    message_ += static_cast<char>(value);
  }

  std::string message_;
};

}  // namespace mt
