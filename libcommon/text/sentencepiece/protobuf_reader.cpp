#include "text/sentencepiece/protobuf_reader.h"

#include "base/utf8.h"

namespace mt {

std::uint64_t ProtobufReader::read_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  bad("a number of more than 10 bytes, not a protobuf");
}

std::string_view ProtobufReader::take(std::uint64_t size) {
  const std::size_t left = message_.size() - at_;
  if (size > left) bad("needs ", size, " bytes and ", left, " are left: cut, or not a protobuf");
  const std::string_view taken = message_.substr(at_, size);
  at_ += size;
  return taken;
}

bool ProtobufReader::next() {
  begin_ = at_;
  if (at_ == message_.size()) return false;
  const std::uint64_t key = read_varint();
  number_ = static_cast<std::uint32_t>(key >> 3);
  if (number_ == 0 || key >> 32 != 0) bad("field number ", key >> 3, ", not a protobuf");
  wire_ = static_cast<Wire>(key & 7);
  switch (wire_) {
    case Wire::varint:
      value_ = read_varint();
      break;
    case Wire::f64:
      take(8);
      break;
    case Wire::bytes:
      bytes_ = take(read_varint());
      break;
    case Wire::f32:
      bytes_ = take(4);
      break;
    default:
      bad("field ", number_, " of wire type ", key & 7, ", expected 0, 1, 2 or 5");
  }
  return true;
}

void ProtobufReader::expect(Wire wire) const {
  if (wire_ != wire)
    bad("field ", number_, " of wire type ", static_cast<std::uint32_t>(wire_), ", expected ",
        static_cast<std::uint32_t>(wire));
}

std::uint64_t ProtobufReader::integer() const {
  expect(Wire::varint);
  return value_;
}

float ProtobufReader::f32() const {
  expect(Wire::f32);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i)
    bits |= std::uint32_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufReader::bytes() const {
  expect(Wire::bytes);
  return bytes_;
}

std::string_view ProtobufReader::text() const {
  if (!is_valid_utf8(bytes())) bad("field ", number_, " is not UTF-8");
  return bytes_;
}

}  // namespace mt
