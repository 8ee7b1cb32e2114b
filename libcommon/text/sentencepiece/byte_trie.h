// ByteTrie: a map from byte strings to numbers that is walked a byte at a time, so that all keys
// that begin a text are found in one pass over it.  A double array: the child of a node by a byte
// lies in the cell `base ^ byte`, if that cell names the node as its parent (Aoe 1989, in the form
// with exclusive or).  Constant once made; all functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

class ByteTrie {
 public:
  using Node = std::uint32_t;
  using Entry = std::pair<std::string_view, std::int32_t>;  // a key and its value, 0 or more
  static constexpr Node kRoot = 0;
  static constexpr std::int32_t kNone = -1;  // the value where no key ends

  ByteTrie() : cells_(kBlock) {}
  // Where a key is given twice, the later value counts; empty keys are left out.
  explicit ByteTrie(std::vector<Entry> entries);

  // Goes on by one byte; false, and the node stays, where no key does.
  bool step(Node& node, char byte) const {
    const Node next = cells_[node].base ^ static_cast<unsigned char>(byte);
    if (cells_[next].parent != node) return false;
    node = next;
    return true;
  }
  bool walk(Node& node, std::string_view bytes) const {
    for (const char byte : bytes)
      if (!step(node, byte)) return false;
    return true;
  }
  std::int32_t value(Node node) const { return cells_[node].value; }
  std::size_t nodes() const { return cells_.size(); }  // all are smaller
  std::int32_t find(std::string_view key) const {
    Node node = kRoot;
    return walk(node, key) ? value(node) : kNone;
  }

  // Length and value of a key that begins `text`; {0, kNone} where none does.
  struct Match {
    std::size_t length = 0;
    std::int32_t value = kNone;
  };
  // The longest of the `at_most` shortest ones.
  Match longest_prefix(std::string_view text, int at_most = 1 << 30) const;

 private:
  static constexpr Node kNobody = 0xFFFFFFFF;
  static constexpr std::size_t kBlock = 256;  // cells are added in blocks: base ^ byte stays in one

  struct Cell {
    Node base = 0;
    Node parent = kNobody;
    std::int32_t value = kNone;
  };
  class Builder;

  std::vector<Cell> cells_;
};

}  // namespace mt
