// Arena: bump allocation inside one buffer.  Tensors of one lifetime share an arena (DESIGN D2), so
// freeing them is one assignment and their peak is known before the first step.  Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace mt {

class Arena {
 public:
  Arena() = default;
  explicit Arena(Buffer storage) : storage_(std::move(storage)) {}

  // Uninitialised, 256-byte aligned, valid until a rewind() past it.  Throws when full.
  Tensor alloc(DType dtype, const Shape& shape);

  std::size_t mark() const { return used_; }
  void rewind(std::size_t mark) { used_ = mark; }  // frees all that was allocated since mark()
  std::size_t peak_bytes() const { return peak_; }
  Device device() const { return storage_.device(); }

 private:
  Buffer storage_;
  std::size_t used_ = 0, peak_ = 0;  // bytes
};

// Rewinds an arena at the end of a scope to where it was at the beginning.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace mt
