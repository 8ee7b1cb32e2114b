#include "train/run/evaluator.h"

#include <array>

#include "train/run/batch_loader.h"

namespace mt {

// Appends those of a global batch, of which `own` are those of this rank's micro-batches; only the
// last stage of a pipeline has some.  Of those of tokens, some rows of all of a sample's, ranks
// that share sequences have two chunks of each row.
void Evaluator::share_scores(std::span<const double> own, std::vector<double>& all) const {
  const std::int64_t of_sample = task_.objective().scores(), size = options_.batch.micro_batch_size,
                     ranks = world_.data().size(), begin = std::ssize(all),
                     count = of_sample * options_.batch.evaluated();
  const bool shared = world_.context().size() > 1 && of_sample % task_.seq_length() == 0;
  const std::int64_t chunks = shared ? 2 * world_.context().size() : 1, here = shared ? 2 : 1,
                     of_row = shared ? task_.seq_length() : of_sample, chunk = of_row / chunks,
                     rows = of_sample / of_row;
  all.resize(static_cast<std::size_t>(begin + count));
  for (std::int64_t i = 0; i < std::ssize(own); ++i) {
    const std::int64_t piece = i / chunk, row = piece / here % rows, sample = piece / here / rows,
                       number = piece % here == 0 ? world_.context().rank()
                                                  : chunks - 1 - world_.context().rank(),
                       at = (sample / size * ranks + world_.data().rank()) * size + sample % size;
    all[static_cast<std::size_t>(begin + at * of_sample + row * of_row +
                                 (shared ? number : 0) * chunk + i % chunk)] =
        own[static_cast<std::size_t>(i)];
  }
  const Tensor batch(&all[static_cast<std::size_t>(begin)], DType::f64, {count});
  (shared ? world_.data_context() : world_.data()).all_reduce(batch).wait();
  world_.pipeline().all_reduce(batch).wait();
}

std::optional<TermValues> Evaluator::run(const SampleSet& samples, std::int64_t first,
                                         std::int64_t batches, const std::function<bool()>& stop,
                                         std::vector<double>* scores) {
  const std::int64_t batch = options_.batch.evaluated();
  const int micro_batches = options_.batch.evaluated_micro_batches();
  const int at_once = options_.ranks.layout.evaluated_at_once(micro_batches);
  const Schedule schedule =
      options_.ranks.layout.evaluation(world_.pipeline().rank(), micro_batches);
  const std::size_t terms = task_.objective().evaluated();
  const bool is_last = world_.pipeline().rank() == world_.pipeline().size() - 1;
  std::array<LossSum, kMostLosses> all = {};
  std::vector<double> own;
  if (scores != nullptr) executor_.collect(&own);
  for (std::int64_t i = 0; i < batches; ++i) {
    std::array<LossSum, kMostLosses> sums = {};  // of this batch
    BatchLoader loader(options_.batch, options_.compute_dtype(), task_, samples, first + i * batch,
                       1, world_);
    for (int begin = 0; begin < micro_batches; begin += at_once) {
      if (stop()) {
        executor_.collect(nullptr);
        return std::nullopt;
      }
      const auto load = [&](int micro_batch, const Fields& into) {
        return loader.load(begin + micro_batch, into);
      };
      executor_.run(schedule, load, false);
      for (std::size_t term = 0; term < terms; ++term) sums[term].sum += executor_.loss(term);
    }
    if (scores != nullptr) share_scores(own, *scores);
    own.clear();
    for (std::size_t term = 0; is_last && term < terms; ++term)
      sums[term].count = loader.count(term);
    sum_losses(world_, {sums.data(), DType::f64, {2 * static_cast<std::int64_t>(terms)}}, terms);
    for (std::size_t term = 0; term < terms; ++term) {
      all[term].sum += sums[term].sum;
      all[term].count += sums[term].count;
    }
  }
  executor_.collect(nullptr);
  return task_.objective().values(std::span(all).first(terms));
}

}  // namespace mt
