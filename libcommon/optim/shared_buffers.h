// SharedBuffers: all rows of a table, each kind in a SharedBuffer: rows that data-parallel ranks
// have copies of, and those of experts, of which other ranks have copies; rows of each dtype; and
// frozen rows, which have values alone.
#pragma once

#include <deque>

#include "optim/shared_buffer.h"

namespace mt {

class SharedBuffers final : public ParamSharing {
 public:
  // Called on every rank of `world`, which must outlive this, as must the table.  Allocates it.
  SharedBuffers(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
                const World& world);

  // Buffers of trainable rows come first, and among these those of dense ranks.
  std::deque<SharedBuffer>& all() { return buffers_; }
  const std::deque<SharedBuffer>& all() const { return buffers_; }
  SharedBuffer& of(const Param& row) { return buffers_[buffer_of_[row.index]]; }
  const SharedBuffer& of(const Param& row) const { return buffers_[buffer_of_[row.index]]; }
  const Sharers& sharers(Copies copies) const {
    return copies == Copies::experts ? sharers_.back() : sharers_.front();
  }
  // Whether its rows are those of experts, of which other ranks have copies than of the rest.
  bool is_of_experts(const SharedBuffer& buffer) const {
    return sharers_.size() > 1 && buffer.copies() == Copies::experts;
  }
  bool shard_values() const;
  bool shard_gradients() const;
  bool are_due_in_steps() const;  // whether to tell of use() and the like
  std::size_t value_bytes() const;
  std::size_t gradient_bytes() const;

  // What SharedBuffer does, of all.
  void gather_codes(WeightCodes& codes, Stream& stream);
  void set_values(const std::function<void(const Param&)>& fill, Stream& stream);
  void read_values(const std::function<void(const Param&)>& read, Stream& stream);
  void begin(Stream& stream);
  void reduce(Stream& stream);
  void await_sums();
  void finish();

  void use(const Param& row) override { of(row).use(row); }
  bool add_to(const Param& row, Stream& stream) override { return of(row).add_to(row, stream); }
  void complete(RowRange rows, bool last) override;

 private:
  std::deque<Buffer> codes_;     // that are gathered: groups reach them
  std::deque<Sharers> sharers_;  // of dense rows and, where they are apart, of experts
  std::deque<SharedBuffer> buffers_;
  std::vector<std::size_t> buffer_of_;  // each row
};

}  // namespace mt
