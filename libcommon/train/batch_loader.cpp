#include "train/batch_loader.h"

namespace mt {

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  if (first + size_ > samples_.size())
    fail(Exit::bad_config, "sample ", first + size_, " is asked for, of ", samples_.size());
  tokens_ += fill_batch(samples_, first, size_, micro_batches_, batch);
  return first;
}

}  // namespace mt
