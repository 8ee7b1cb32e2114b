// SharedBuffer: the values and gradients of the ranks that have the same weights, and how they are
// kept the same.  Gradients are summed over these ranks after a step's last micro-batch, bucket by
// bucket (optim/buffer_layout.h).  With the distributed optimizer each rank gets its slice of every
// bucket's sum, updates it, and the new values are gathered.
//
// With --overlap-grad-reduce a bucket's sum begins when the last backward has been through its
// parameters, and with --overlap-param-gather the next step begins while values are on their way: a
// parameter's bucket is waited for when it is first used.
//
// With several instances of the distributed optimizer (--num-distributed-optimizer-instances) the
// ranks are cut into as many consecutive parts.  Slices are those of a part; their sums are summed
// over the parts.
#pragma once

#include <memory>
#include <vector>

#include "comm/world.h"
#include "optim/buffer_layout.h"
#include "optim/optimizer_options.h"
#include "tensor/param.h"

namespace mt {

class SharedBuffer final : public ParamSharing {
 public:
  // Called on every rank of `world`, which must outlive this, as must the table.  Allocates it.
  SharedBuffer(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
               const World& world);

  // Parts of the trainable rows and of those that are not that a rank of sharers() updates.
  std::vector<OwnedRange> owned(int rank) const;
  Group& sharers() const { return *sharers_; }                 // of the optimizer's state
  bool is_first_copy() const { return copies_->rank() == 0; }  // of that state
  // What this rank has of `buffer`, which is laid out as the values.
  std::vector<Tensor> own_parts(const Tensor& buffer) const;

  void begin();   // before a step's first micro-batch
  void reduce();  // after its last
  void gather();  // after own_parts() of the values were updated
  void finish();  // before values are used otherwise than through use()

  void use(const Param& row) override;
  void complete(RowRange rows) override;

 private:
  bool distributed() const { return options_.use_distributed_optimizer; }
  BufferLayout make_layout() const;
  Tensor own_slice(const Tensor& buffer, const Bucket& bucket) const;
  void start(std::size_t bucket);

  ParamTable& table_;
  OptimizerOptions options_;
  Group& ranks_;
  std::unique_ptr<Group> sharers_, copies_;
  std::vector<std::int64_t> counts_;  // elements of each row
  BufferLayout layout_;
  std::vector<std::size_t> bucket_of_;  // each row
  struct State {
    std::size_t rows = 0, missing = 0;  // whose gradients are not complete
    bool started = false;
    Pending sum, values;
  };
  std::vector<State> states_;  // of each bucket
};

}  // namespace mt
