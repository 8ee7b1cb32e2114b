#include "data/samples/sampler.h"

#include <numeric>
#include <random>

#include "base/error.h"

namespace mt {

std::vector<std::uint32_t> torch_permutation(std::int64_t n, std::uint64_t seed) {
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  std::vector<std::uint32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    std::swap(order[i], order[i + engine() % (order.size() - i)]);
  return order;
}

Sampler::Sampler(std::int64_t size, const SamplerOptions& options)
    : size_(size), options_(options) {
  constexpr std::int64_t kSameInAllVersions = 214748364;
  const std::int64_t at_once = options_.micro_batch_size * options_.data_parallel_size;
  if (options_.type == "single") return;
  if (size_ < at_once)
    fail(Exit::bad_config, "--dataloader-type cyclic: ", size_, " samples, expected at least ",
         at_once, ", a micro-batch for each rank");
  if ((options_.data_sharding ? size_ / options_.data_parallel_size : size_) >= kSameInAllVersions)
    fail(Exit::bad_config, "--dataloader-type cyclic: ", size_, " samples, expected fewer than ",
         kSameInAllVersions, " to put into one order");
}

void Sampler::check_consumed(std::int64_t consumed) const {
  const std::int64_t at_once = options_.micro_batch_size * options_.data_parallel_size;
  if (options_.type == "cyclic" && consumed % at_once != 0)
    fail(Exit::bad_config, "--dataloader-type cyclic: ", consumed,
         " samples are consumed, expected a multiple of ", at_once,
         ", a micro-batch for each rank");
}

std::int64_t Sampler::permuted(std::int64_t epoch, std::int64_t at) const {
  const std::lock_guard lock(mutex_);
  Epoch& kept = epochs_[static_cast<std::size_t>(epoch % 2)];
  if (kept.number != epoch) {
    const std::int64_t m = options_.micro_batch_size, P = options_.data_parallel_size;
    const std::int64_t n = options_.data_sharding ? size_ / (m * P) * m : size_ / m * m;
    kept.order = torch_permutation(n, static_cast<std::uint64_t>(epoch));
    kept.number = epoch;
  }
  return kept.order[static_cast<std::size_t>(at)];
}

std::optional<std::int64_t> Sampler::sample(std::int64_t number) const {
  if (options_.type == "single") {
    if (number < size_) return number;
    if (options_.past_end == PastEnd::padding) return std::nullopt;
    if (options_.past_end == PastEnd::repeat && size_ > 0) return number % size_;
    fail(Exit::bad_config, "sample ", number, " is asked for, of ", size_);
  }
  const std::int64_t m = options_.micro_batch_size, P = options_.data_parallel_size;
  const std::int64_t active = size_ - size_ % (m * P);
  const std::int64_t epoch = number / active, place = number % active;
  const std::int64_t step = place / (m * P), rank = place % (m * P) / m, row = place % m;
  if (options_.data_sharding) return rank * (size_ / (m * P) * m) + permuted(epoch, step * m + row);
  return permuted(epoch, step * m * P + rank + row * P);
}

}  // namespace mt
