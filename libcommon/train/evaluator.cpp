#include "train/evaluator.h"

#include "train/batch_loader.h"

namespace mt {

std::optional<double> Evaluator::run(const SampleSet& samples, std::int64_t first,
                                     std::int64_t batches, const std::function<bool()>& stop) {
  const std::int64_t batch = options_.evaluation_batch();
  const Schedule one = forward_only({}, 1);
  double loss = 0, tokens = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    double sums[] = {0, 0};  // of this batch: loss, tokens
    BatchLoader loader(options_, samples, first + i * batch, 1, world_.data());
    for (int micro_batch = 0; micro_batch < options_.micro_batches(); ++micro_batch) {
      if (stop()) return std::nullopt;
      const auto load = [&](int, const Batch& into) { return loader.load(micro_batch, into); };
      sums[0] += executor_.run(one, load, false);
    }
    sums[1] = loader.tokens();
    world_.data_context().all_reduce({sums, DType::f64, {2}}).wait();
    loss += sums[0];
    tokens += sums[1];
  }
  return loss / tokens;
}

}  // namespace mt
