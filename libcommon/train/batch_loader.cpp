#include "train/batch_loader.h"

#include "train/fill_batch.h"

namespace mt {

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  const double tokens = fill_batch(samples_, first, size_, batch);
  tokens_ += tokens;
  const bool divides = !per_token_ && tokens > 0;
  weigh_rows(batch, divides ? loss_scale_ / tokens / micro_batches_ : loss_scale_);
  return first;
}

}  // namespace mt
