#include "train/batch_loader.h"

namespace mt {

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  tokens_ += fill_batch(samples_, first, size_, micro_batches_, batch);
  if (loss_scale_ != 1)
    with_float_type(batch.row_weight.dtype(), [&]<class T>() {
      for (T& weight : batch.row_weight.span<T>()) weight *= static_cast<T>(loss_scale_);
    });
  return first;
}

}  // namespace mt
