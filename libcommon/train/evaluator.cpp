#include "train/evaluator.h"

#include <algorithm>

#include "train/batch_loader.h"

namespace mt {

std::optional<double> Evaluator::run(const GptDataset& samples, std::int64_t first,
                                     const std::function<bool()>& stop) {
  const std::int64_t batch = options_.evaluation_batch();
  // Another --eval-iters or --eval-interval before may have consumed more than there are now.
  const std::int64_t whole = std::max<std::int64_t>(1, samples.size() / batch * batch);
  const Schedule one = forward_only(0, 1, 1);
  double loss = 0, tokens = 0;
  for (std::int64_t i = 0; i < options_.eval_iters; ++i) {
    double sums[] = {0, 0};  // of this batch: loss, tokens
    BatchLoader loader(options_, samples, (first + i * batch) % whole, 1, ranks_);
    for (int micro_batch = 0; micro_batch < options_.micro_batches(); ++micro_batch) {
      if (stop()) return std::nullopt;
      const auto load = [&](int, const Batch& into) { return loader.load(micro_batch, into); };
      sums[0] += executor_.run(one, load, false);
    }
    sums[1] = loader.tokens();
    ranks_.all_reduce({sums, DType::f64, {2}}).wait();
    loss += sums[0];
    tokens += sums[1];
  }
  return loss / tokens;
}

}  // namespace mt
