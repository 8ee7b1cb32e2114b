// Arena: bump allocation inside one buffer.  Tensors of one lifetime share an arena (DESIGN D2), so
// freeing them is one assignment and their peak is known before the first step.  It is filled from
// both ends, each a stack of its own, so that two lifetimes can share the memory.  Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace mt {

class Arena {
 public:
  enum class End : std::uint8_t { front, back };

  Arena() = default;
  explicit Arena(Buffer storage) : storage_(std::move(storage)) {}

  // Uninitialised, 256-byte aligned, valid until a rewind() past it.  Throws when full.
  Tensor alloc(DType dtype, const Shape& shape, End end = End::front);

  std::size_t mark(End end = End::front) const { return used_[index(end)]; }
  void rewind(std::size_t mark, End end = End::front) {  // frees what was allocated since mark()
    if (holds_) return;
    if (device() == Device::meta) forget(mark, end);
    used_[index(end)] = mark;
  }
  std::size_t peak_bytes() const { return peak_; }
  std::vector<ConstTensor> at_peak() const;  // on meta: what it held when it was fullest
  Device device() const { return storage_.device(); }
  Tensor memory() const {  // all of it, as bytes
    return storage_.tensor(DType::u8, {static_cast<std::int64_t>(storage_.bytes())});
  }

  // Whether nothing is freed, as work that is under way elsewhere may still use it.
  bool hold(bool holds) { return std::exchange(holds_, holds); }

 private:
  static std::size_t index(End end) { return static_cast<std::size_t>(end); }
  struct Held {
    ConstTensor tensor;
    std::size_t mark;  // its end's, before
  };
  void forget(std::size_t mark, End end);
  std::vector<ConstTensor> held() const;

  Buffer storage_;
  std::array<std::size_t, 2> used_{};  // bytes at each end
  std::size_t peak_ = 0;               // bytes at both together
  bool holds_ = false;
  // On meta.
  std::array<std::vector<Held>, 2> held_;  // at each end, in the order of their allocation
  bool at_peak_now_ = false;
  std::vector<ConstTensor> at_peak_;
};

// Rewinds an end of an arena, at the end of a scope, to where it was at the beginning.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena, Arena::End end = Arena::End::front)
      : arena_(arena), end_(end), mark_(arena.mark(end)) {}
  ~ArenaScope() { arena_.rewind(mark_, end_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::End end_;
  std::size_t mark_;
};

}  // namespace mt
