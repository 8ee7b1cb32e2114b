// SharedBuffer: the values and gradients of rows of one kind (FlatRows) on the ranks that have
// copies of them, and how they are kept the same.  Frozen rows have values alone.  Gradients are
// summed over these ranks after a step's last micro-batch, bucket by bucket
// (optim/buffer_layout.h).  With the distributed optimizer each rank gets its slice of every
// bucket's sum, updates it, and the new values are gathered.
//
// With --overlap-grad-reduce a bucket's sum begins when the last backward has been through its
// parameters, and with --overlap-param-gather a bucket's new values are gathered while the next
// one's are updated and the next step begins: they are waited for when they are first used.
//
// With several instances of the distributed optimizer (--num-distributed-optimizer-instances) the
// ranks are cut into as many consecutive parts.  Slices are those of a part; their sums are summed
// over the parts.
//
// Where codes of rows are gathered instead of their values (WeightCodes), each rank has of the
// latter its slices alone until finish().  Values of other rows of a bucket are gathered by
// themselves, one after another.
//
// Gradients, or gradients and values, of which a rank keeps no more than its slices
// (--data-parallel-sharding-strategy, ZeRO-2 and ZeRO-3: Rajbhandari and others, arXiv:1910.02054)
// are whole for a while only: even and odd buckets, each a unit of the model, take turns at two
// places.  A bucket's values are gathered when they are used, unless their place has them still,
// and begin to be gathered when those are used that preceded them the last time.  Gradients of a
// micro-batch are summed over the ranks, and this rank's slice of the sum is added to what it has,
// when the backward is through with the bucket, or when another one needs the place.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/weight_codes.h"
#include "comm/world.h"
#include "optim/buffer_layout.h"
#include "optim/optimizer_options.h"
#include "tensor/param.h"

namespace mt {

// Which element of a flat tensor a part of it begins with.
std::int64_t element_of(const Tensor& part, const Tensor& whole);

// Sharers: ranks that have copies of the same rows.  With the distributed optimizer they are cut
// into as many consecutive parts as there are instances of it; else each is a part by itself.
struct Sharers {
  // Called on every rank of `ranks`, which must outlive this.
  Sharers(Group& ranks, const OptimizerOptions& options);

  Group& ranks;
  // This rank's part, which shares the optimizer's state; the second is of the same ranks.
  std::unique_ptr<Group> numbers, tensors;
  std::unique_ptr<Group> copies;  // one rank of each part, which have the same state
};

class SharedBuffer final : public ParamSharing {
 public:
  // Called on every one of the sharers, which must outlive this, as must the table, which has begun
  // to be allocated.  Allocates its rows with these indices, which are of one kind.
  SharedBuffer(ParamTable& table, const std::vector<std::size_t>& rows,
               const OptimizerOptions& options, const Sharers& sharers, int data_ranks);

  bool is_trainable() const { return rows_.front()->trainable; }
  Copies copies() const { return rows_.front()->copies; }
  const std::vector<const Param*>& rows() const { return rows_; }  // in the table's order
  // Parts of the rows that a rank of sharers() updates, or of frozen ones keeps.
  std::vector<OwnedRange> owned(int rank) const;
  std::vector<int> ranks_that_differ() const;           // of sharers(), in how much they update
  Group& sharers() const { return *sharers_.numbers; }  // of the optimizer's state
  bool is_first_copy() const { return sharers_.copies->rank() == 0; }  // of that state
  bool shards_values() const { return shards_values_; }
  bool shards_gradients() const { return shards_gradients_; }
  bool is_due_in_steps() const;  // whether to tell of use() and the like

  // Flat tensors with what this rank updates and with its gradients, and a part of owned() in them.
  Tensor values() const { return shards_values_ ? own_values_ : flat_->values; }
  Tensor gradients() const { return shards_gradients_ ? own_gradients_ : flat_->gradients; }
  // What of both lies in the table: whole rows, or the two places at which they take turns.
  const FlatRows& flat() const { return *flat_; }
  Tensor value(const OwnedRange& part) const;
  Tensor gradient(const OwnedRange& part) const;
  std::vector<Tensor> own_gradients() const;  // all that is owned(), padding included, in parts
  std::size_t value_bytes() const {
    return flat_->values.bytes() + own_values_.bytes() + code_bytes_;
  }
  std::size_t gradient_bytes() const { return flat_->gradients.bytes() + own_gradients_.bytes(); }

  // From now on codes are gathered of the rows that have them; not where values are sharded.  They
  // lie in `storage`, which is to outlive the sharers.
  void gather_codes(WeightCodes& codes, Buffer& storage, Stream& stream);

  // Calls fill(row) for every row, which writes row.value.
  void set_values(const std::function<void(const Param&)>& fill, Stream& stream);
  // Calls read(row) for every row, on every rank, while row.value is the newest one.
  void read_values(const std::function<void(const Param&)>& read, Stream& stream);

  // Before a step's first micro-batch: gradients are zeros, but those that a step replaces.
  void begin(Stream& stream);
  void reduce(Stream& stream);  // after its last
  // Before a part of own_gradients() is used that reduce() has gone before, or any gradient.
  void await_sum(std::size_t part);
  void await_sums();
  // What is updated and then gathered is cut into turns.
  std::size_t turns() const { return gathers_by_buckets() ? states_.size() : 1; }
  std::size_t turn_of(const Param& row) const;
  void gather(std::size_t turn);  // after its values() were updated
  void finish();                  // before values are used otherwise than through use()

  void use(const Param& row) override;
  bool add_to(const Param& row, Stream& stream) override;
  void complete(RowRange rows, bool last) override;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  using Places = std::array<std::size_t, 2>;  // the bucket that lies there, or kNone

  bool distributed() const { return is_trainable() && options_.use_distributed_optimizer; }
  bool gathers_by_buckets() const {
    return is_trainable() && options_.overlap_param_gather && !shards_values_;
  }
  void gather_bucket(std::size_t bucket);
  void gather_values(std::size_t bucket);
  void find_others(std::size_t bucket);
  void await_values(std::size_t bucket);
  BufferLayout make_layout(int data_ranks) const;
  void allocate(const std::vector<std::size_t>& rows);
  std::int64_t largest_unit() const;
  bool has(std::size_t row) const { return number_[row] != kNone; }
  std::size_t bucket_of(const Param& row) const { return bucket_of_[number_[row.index]]; }
  std::int64_t place_of(std::size_t bucket) const { return bucket % 2 == 0 ? 0 : first_place_; }
  Tensor values_of(std::size_t bucket) const;  // whole
  Tensor gradients_of(std::size_t bucket) const;
  Tensor own_slice(const Tensor& whole) const;  // of a bucket
  Tensor kept_slice(const Tensor& own, std::size_t bucket) const;
  Tensor kept_part(const Tensor& own, const OwnedRange& part) const;
  void bring(std::size_t bucket);
  void forget_values();
  bool is_written(std::size_t bucket) const;
  void start(std::size_t bucket);
  void keep(std::size_t bucket, Stream& stream);
  void find_added_to();
  void zero_added_to(std::size_t bucket, Stream& stream);

  ParamTable& table_;
  OptimizerOptions options_;
  const Sharers& sharers_;
  std::vector<const Param*> rows_;
  std::vector<std::size_t> number_;  // of each of the table's rows among these, or kNone
  const FlatRows* flat_ = nullptr;
  bool shards_values_ = false, shards_gradients_ = false;
  std::vector<std::int64_t> counts_;  // elements of each row
  BufferLayout layout_;
  std::vector<std::size_t> bucket_of_;  // each row
  struct State {
    std::size_t rows = 0, missing = 0;  // whose gradients are not complete
    bool started = false;
    bool kept = false;  // in this step something, where slices of gradients are
    Pending sum, values;
    // Where codes are gathered: their rows and this rank's parts of these.  Of other rows, runs of
    // elements, [begin, end) in the bucket, in each rank's slice: large ones, which are sent where
    // they lie, and all else, of which a rank packs up to `most`; and what all ranks pack.
    std::vector<const Param*> coded = {};
    std::vector<WeightCodes::Part> parts = {};
    using Runs = std::vector<std::array<std::int64_t, 2>>;
    std::vector<Runs> large = {}, others = {};
    std::int64_t most = 0;
    Tensor packed = {};
    std::vector<Pending> sent = {};
    bool unpacks = false;
    std::vector<std::size_t> replaced;  // the table's large rows that a step replaces
    std::vector<std::array<std::int64_t, 2>> added_to;  // elements [begin, end) of all others
  };
  std::vector<State> states_;  // of each bucket

  // Where codes are gathered.
  WeightCodes* weight_codes_ = nullptr;
  Stream* stream_ = nullptr;
  Tensor codes_;  // u8, of the layout's elements
  std::size_t code_bytes_ = 0;
  bool is_partial_ = false;  // of rows that have codes only this rank's slices are new

  // Where slices are kept.
  std::int64_t first_place_ = 0;  // elements of the first of the two places
  Buffer value_storage_, gradient_storage_;
  Tensor own_values_, own_gradients_;  // the slices one after another
  std::vector<bool> unwritten_;        // rows at a place where nothing was put yet
  Places values_at_{kNone, kNone}, gradients_at_{kNone, kNone};
  std::array<std::size_t, 2> used_{kNone, kNone};           // the last two
  std::map<std::array<std::size_t, 2>, std::size_t> next_;  // what was used after two others
};

}  // namespace mt
