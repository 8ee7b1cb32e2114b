// Thrift's compact protocol, in which Parquet's headers are
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
#pragma once

#include <string_view>

#include "base/parquet/cursor.h"

namespace mt::parquet {

// A value that stands next at a cursor.  It is read once, as what its reader takes it for; damage
// throws Exit::bad_data.
class Thrift {
 public:
  // A struct without a field before it.
  explicit Thrift(Cursor& in) : Thrift(in, kStruct, 0) {}

  std::int64_t integer() {
    if (type_ != kInt16 && type_ != kInt32 && type_ != kInt64) unexpected();
    read_ = true;
    return in_.zigzag();
  }
  bool truth() {
    if (type_ != kTrue && type_ != kFalse) unexpected();
    read_ = true;
    return type_ == kTrue;
  }
  std::int64_t small() {  // of eight bits
    if (type_ != kInt8) unexpected();
    read_ = true;
    return static_cast<std::int8_t>(in_.byte());
  }
  std::string_view text() {
    if (type_ != kBinary) unexpected();
    read_ = true;
    return as_text(in_.take(in_.varint()));
  }
  // field(id, value) for each; what it does not read is passed over.
  template <class Field>
  void fields(const Field& field) {
    if (type_ != kStruct) unexpected();
    read_ = true;
    std::int64_t id = 0;
    while (const std::uint8_t head = in_.byte()) {
      const int step = head >> 4;
      id = step == 0 ? in_.zigzag() : id + step;
      Thrift value(in_, head & 15, depth_ + 1);
      field(id, value);
      value.pass();
    }
  }
  // element(value) for each.
  template <class Element>
  void elements(const Element& element) {
    if (type_ != kList) unexpected();
    read_ = true;
    const std::uint8_t head = in_.byte();
    const std::uint64_t count = head >> 4 == 15 ? in_.varint() : head >> 4;
    if (count > in_.left()) in_.damaged("a list is longer than its file");
    for (std::uint64_t i = 0; i < count; ++i) {
      Thrift value(in_, head & 15, depth_ + 1);
      element(value);
      value.pass();
    }
  }

 private:
  enum : int {
    kTrue = 1,
    kFalse,
    kInt8,
    kInt16,
    kInt32,
    kInt64,
    kDouble,
    kBinary,
    kList,
    kSet,
    kMap,
    kStruct
  };
  Thrift(Cursor& in, int type, int depth) : in_(in), type_(type), depth_(depth) {
    if (depth > 64) in.damaged("a header is too deep");
  }
  void pass() {
    if (read_) return;
    switch (type_) {
      case kTrue:
      case kFalse:
        return;
      case kInt8:
        in_.byte();
        return;
      case kInt16:
      case kInt32:
      case kInt64:
        in_.varint();
        return;
      case kDouble:
        in_.take(8);
        return;
      case kBinary:
        in_.take(in_.varint());
        return;
      case kList:
      case kSet:
        type_ = kList;
        return elements([](Thrift&) {});
      case kStruct:
        return fields([](std::int64_t, Thrift&) {});
      default:
        in_.damaged("a header has a value of an unknown type");
    }
  }
  [[noreturn]] void unexpected() const { in_.damaged("a header has a value of another type"); }

  Cursor& in_;
  int type_, depth_;
  bool read_ = false;
};

}  // namespace mt::parquet
