#include "train/run/batch_loader.h"

#include <cstring>
#include <numeric>

#include "train/plan/plan.h"
#include "train/run/fill_batch.h"

namespace mt {

BatchLoader::BatchLoader(const TrainOptions& options, const SampleSet& samples, std::int64_t first,
                         int micro_batches, const World& world)
    : samples_(samples),
      first_(first + world.data().rank() * options.micro_batch_size),
      size_(options.micro_batch_size),
      stride_(world.data().size() * options.micro_batch_size),
      micro_batches_(micro_batches),
      per_token_(options.calculate_per_token_loss),
      context_(world.context()) {
  if (context_.size() == 1) return;
  StepShape shape = step_shape(options);
  shape.seq_length = options.data.seq_length;
  const std::int64_t bytes = step_input_bytes(shape);
  storage_ = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
  whole_ = step_input_in(storage_.tensor(DType::u8, {bytes}), shape).batch;
}

// Of each sequence this rank's two chunks.
void BatchLoader::take_chunks(const Batch& batch) const {
  const std::int64_t chunks = 2 * context_.size(), rank = context_.rank();
  const auto take = [&](const Tensor& to, const Tensor& from) {
    if (!from) return;
    const Tensor all = from.reshape({size_ * chunks, from.numel() / (size_ * chunks)});
    const Tensor own = to.reshape({size_ * 2, all.shape()[1]});
    for (std::int64_t i = 0; i < size_ * 2; ++i) {
      const std::int64_t chunk = i / 2 * chunks + (i % 2 == 0 ? rank : chunks - 1 - rank);
      std::memcpy(own.rows(i, i + 1).data(), all.rows(chunk, chunk + 1).data(),
                  own.rows(i, i + 1).bytes());
    }
  };
  take(batch.ids, whole_.ids);
  take(batch.labels, whole_.labels);
  take(batch.positions, whole_.positions);
  take(batch.first_key, whole_.first_key);
  take(batch.loss_mask, whole_.loss_mask);
}

static double sum(const Tensor& mask) {
  double total = 0;
  with_float_type(mask.dtype(), [&]<class T>() {
    for (const T m : mask.span<T>()) total += static_cast<double>(m);
  });
  return total;
}

std::int64_t BatchLoader::load(int micro_batch, const Batch& batch) {
  const std::int64_t first = first_ + micro_batch * stride_;
  const bool shared = context_.size() > 1;
  const double tokens = fill_batch(samples_, first, size_, shared ? whole_ : batch);
  if (shared) take_chunks(batch);
  if (std::ssize(tokens_) <= micro_batch) tokens_.resize(static_cast<std::size_t>(micro_batch) + 1);
  // Another chunk may load it again.
  tokens_[static_cast<std::size_t>(micro_batch)] = shared ? sum(batch.loss_mask) : tokens;
  const bool divides = !per_token_ && tokens > 0;
  weigh_rows(batch, divides ? 1 / tokens / micro_batches_ : 1);
  return first;
}

double BatchLoader::tokens() const { return std::accumulate(tokens_.begin(), tokens_.end(), 0.0); }

void sum_losses(const World& world, Tensor sums) {
  world.data_context().all_reduce(sums).wait();
  world.pipeline().broadcast(sums.rows(0, 2), world.pipeline().size() - 1).wait();
}

}  // namespace mt
