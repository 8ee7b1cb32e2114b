#include "train/batch_loader.h"

#include <numeric>

#include "train/fill_batch.h"

namespace mt {

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  const double tokens = fill_batch(samples_, first, size_, batch);
  if (std::ssize(tokens_) <= micro_batch) tokens_.resize(static_cast<std::size_t>(micro_batch) + 1);
  tokens_[static_cast<std::size_t>(micro_batch)] = tokens;  // another chunk may load it again
  const bool divides = !per_token_ && tokens > 0;
  weigh_rows(batch, divides ? loss_scale_ / tokens / micro_batches_ : loss_scale_);
  return first;
}

double BatchLoader::tokens() const { return std::accumulate(tokens_.begin(), tokens_.end(), 0.0); }

std::array<double, 2> sum_losses(const World& world, double loss, double tokens) {
  std::array<double, 2> sums = {loss, tokens};
  const Tensor both(sums.data(), DType::f64, {2});
  world.data_context().all_reduce(both).wait();
  world.pipeline().broadcast(both, world.pipeline().size() - 1).wait();
  return sums;
}

}  // namespace mt
