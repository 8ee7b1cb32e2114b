#include "train/run/evaluator.h"

#include <array>

#include "train/run/batch_loader.h"

namespace mt {

std::optional<double> Evaluator::run(const SampleSet& samples, std::int64_t first,
                                     std::int64_t batches, const std::function<bool()>& stop) {
  const std::int64_t batch = options_.batch.evaluated();
  const int micro_batches = options_.batch.micro_batches();
  const int at_once = options_.ranks.layout.evaluated_at_once(micro_batches);
  const Schedule schedule =
      options_.ranks.layout.evaluation(world_.pipeline().rank(), micro_batches);
  double loss = 0, tokens = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    std::array<double, 2> sums = {0, 0};  // of this batch: loss, tokens
    BatchLoader loader(options_.batch, options_.compute_dtype(), task_, samples, first + i * batch,
                       1, world_);
    for (int begin = 0; begin < micro_batches; begin += at_once) {
      if (stop()) return std::nullopt;
      const auto load = [&](int micro_batch, const Fields& into) {
        return loader.load(begin + micro_batch, into);
      };
      executor_.run(schedule, load, false);
      sums[0] += executor_.loss();
    }
    sums[1] = loader.tokens();
    sum_losses(world_, {sums.data(), DType::f64, {2}});
    loss += sums[0];
    tokens += sums[1];
  }
  return loss / tokens;
}

}  // namespace mt
