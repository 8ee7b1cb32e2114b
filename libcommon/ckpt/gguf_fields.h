// GgufFields: the fields of a block of a GGUF file, from its first byte on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace mt {

class GgufFields {
 public:
  explicit GgufFields(const std::byte* at) : at_(at) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  float half() {
    Fp16 value;
    value.bits = number<std::uint16_t>();
    return static_cast<float>(value);
  }
  const std::uint8_t* bytes(std::size_t count) {
    at_ += count;
    return reinterpret_cast<const std::uint8_t*>(at_ - count);
  }

 private:
  const std::byte* at_;
};

}  // namespace mt
