#include "train/batch_loader.h"

namespace mt {

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  tokens_ += fill_batch(samples_, first, size_, micro_batches_, batch);
  return first;
}

}  // namespace mt
